"""The cells of the study: newcomers of one size and seed, alone, joined and in all other arms."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor

from fedner.experiments.joining.arms import (
    Alone,
    Counts,
    Member,
    Together,
    Trained,
    folds,
    score_averaged,
    train_alone,
    type_vectors,
)
from fedner.experiments.joining.kept import trained_once
from fedner.experiments.joining.kinds import DESCRIBED, FREE, PUBLISHED, Kind
from fedner.experiments.joining.study import (
    ALL,
    DESCRIBED_GRID,
    FEW_SEEDS,
    FRESH_GRID,
    JOINED_GRID,
    MIDDLE,
    NUM_FOLDS,
    PUBLISHED_GRID,
    SEEDS,
    WEIGHTING,
    CellTask,
    Point,
    Setting,
    own_and_test,
    received,
    schedule,
)
from fedner.experiments.joining.training import Indices, f1
from fedner.experiments.joining.world import World

# What alone and joined come to; they share their trainings.
MAIN_ARMS = ("described alone", "ELMoNER alone", "local-only", "joined", "averaged", "kept")
# Arms whose setting is chosen by cross-validation: by what and from which settings they begin.
_TUNED: dict[str, tuple[Kind, tuple[Setting, ...]]] = {
    "fresh head": (DESCRIBED, FRESH_GRID),
    "placebo": (DESCRIBED, JOINED_GRID),
    "random vectors": (DESCRIBED, JOINED_GRID),
    "private heads": (FREE, FRESH_GRID),
}
# Arms of one setting for all: whose joint training they receive, and whether they then train.
_FIXED: dict[str, tuple[str, bool]] = {
    "taking part": ("taking part", True),
    "centralized": ("centralized", False),
    "taking part size": ("taking part size", True),
    "taking part equal": ("taking part equal", True),
    "weighting size": ("weighting size", True),
    "weighting equal": ("weighting equal", True),
    f"weighting {WEIGHTING}": ("received", True),
}
REHEARSED = (1, 16)  # epochs and batch size
REHEARSED_OWN = {25: 4, 50: 6, MIDDLE: 8, 200: 9, 400: 10}  # own sentences by those of the study
_EVERY_SEED = ("taking part", "centralized")  # of the fixed ones; the others have few
_WITHOUT_SENTENCES = ("joined", "placebo", "random vectors")


def arms_of(task: CellTask) -> tuple[str, ...]:
    """Return the arms that a task gives a point of for each of its newcomers."""
    if task.size == 0:
        more = ("weighting size", "weighting equal") if task.seed in FEW_SEEDS else ()
        return (*_WITHOUT_SENTENCES, *more)
    if task.size != MIDDLE:
        return MAIN_ARMS
    if task.seed not in SEEDS:
        return (*MAIN_ARMS, "placebo")
    fixed = _FIXED if task.seed in FEW_SEEDS else _EVERY_SEED
    return (*MAIN_ARMS, *_TUNED, *fixed)


def joint_training(arm: str) -> str:
    """Return whose joint training an arm receives."""
    if arm in _FIXED:
        return _FIXED[arm][0]
    return "received" if arm in MAIN_ARMS or arm == "fresh head" else arm


def missing_arms(task: CellTask, points: Sequence[Point]) -> tuple[str, ...]:
    """Return the arms of a task that a newcomer of it has no point of."""
    held = {
        (each.newcomer, each.arm)
        for each in points
        if (each.size, each.seed) == (task.size, task.seed)
    }
    return tuple(arm for arm in arms_of(task) if any((n, arm) not in held for n in task.newcomers))


def run_cells(
    world: World, task: CellTask, folder: Path, wanted: Collection[str] | None = None
) -> list[Point]:
    """Return what came of all newcomers of a task.

    Args:
        world: The platforms.
        task: The cells.
        folder: Where the partners' weights are.
        wanted: The arms that are wanted; None for all that the task has.
    """
    arms = [arm for arm in arms_of(task) if wanted is None or arm in wanted]
    if task.size == 0:
        return [each for arm in arms for each in _without_sentences(world, task, folder, arm)]
    points = []
    if set(arms) & set(MAIN_ARMS):
        points += [each for each in _alone_and_joined(world, task, folder) if each.arm in arms]
    for arm in arms:
        if arm in _TUNED:
            points += _tuned(world, task, folder, arm)
        elif arm in _FIXED:
            points += _fixed(world, task, folder, arm)
    return points


@dataclass(frozen=True, slots=True)
class _Way:
    """How the newcomers of a task train in one arm.

    Attributes:
        kind: What is trained.
        grid: The settings to choose from.
        gifts: What each newcomer received; those who are missing begin afresh.
        vectors: Of each newcomer's types, where they are not those of its descriptions.
    """

    kind: Kind
    grid: tuple[Setting, ...]
    gifts: Mapping[str, Member] = field(default_factory=dict)
    vectors: Mapping[str, Tensor] = field(default_factory=dict)

    def job(
        self, newcomer: str, own: Indices, scored: Indices, setting: Setting, seed: int
    ) -> Alone:
        """Return one training."""
        return Alone(
            newcomer,
            own,
            scored,
            setting.learning_rate,
            seed,
            self.gifts.get(newcomer),
            setting.pull,
            self.vectors.get(newcomer),
        )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A way to train, with the setting that cross-validation chose.

    Attributes:
        kind: What is trained.
        setting: The best one.
        selection: Its cross-validated F1.
        by_fold: What it came to in each fold.
        final: What it came to on all own sentences, scored on the test part.
    """

    kind: Kind
    setting: Setting
    selection: float
    by_fold: tuple[Trained, ...]
    final: Trained

    @property
    def words(self) -> str:
        """The setting in words."""
        return f"{self.setting.learning_rate:g} {self.setting.pull:g}"


def _gifts(world: World, task: CellTask, folder: Path, arm: str) -> dict[str, Member]:
    return {each: received(world, folder, arm, each, task.seed) for each in task.newcomers}


def _vectors(world: World, task: CellTask, arm: str) -> dict[str, Tensor]:
    """Return the vectors of all newcomers' types, where an arm has its own."""
    if arm != "random vectors":
        return {}
    return {
        each: type_vectors(world, each, Together(each, task.seed, vectors="random"))
        for each in task.newcomers
    }


def _own(world: World, newcomer: str, task: CellTask) -> Indices:
    own, _ = own_and_test(world, newcomer, task.seed)
    size = REHEARSED_OWN.get(task.size, ALL) if world.is_rehearsal else task.size
    return own if size == ALL else own[:size]


def _schedule(world: World, task: CellTask) -> tuple[int, int]:
    if world.is_rehearsal:
        return REHEARSED
    return schedule(max(len(_own(world, each, task)) for each in task.newcomers))


def _joint_f1(counts: Sequence[Counts]) -> float:
    right, found, gold = np.sum(counts, axis=0).tolist()
    return f1(right, found, gold)


def _without_sentences(world: World, task: CellTask, folder: Path, arm: str) -> list[Point]:
    """Return the points of received models as they are."""
    given = "received" if arm == "joined" else arm
    gifts = _gifts(world, task, folder, given)
    way = _Way(DESCRIBED, (), gifts, _vectors(world, task, arm))
    jobs = []
    for newcomer in task.newcomers:
        _, test = own_and_test(world, newcomer, task.seed)
        jobs.append(way.job(newcomer, test[:1], test, Setting(0.0), task.seed))
    found = train_alone(world, DESCRIBED, jobs, epochs=0, batch_size=8)
    return [
        Point(job.newcomer, 0, task.seed, arm, each.f1)
        for job, each in zip(jobs, found, strict=True)
    ]


def _alone_and_joined(world: World, task: CellTask, folder: Path) -> list[Point]:
    """Return the points of local-only, joined, their average, and what would be kept."""
    gifts = _gifts(world, task, folder, "received")
    ways = {
        "described": _Way(DESCRIBED, _tried(world, DESCRIBED_GRID)),
        "published": _Way(PUBLISHED, _tried(world, PUBLISHED_GRID)),
        "joined": _Way(DESCRIBED, _tried(world, JOINED_GRID), gifts),
    }
    # Only the longest cells are worth files of their own.
    described, published, joined = (
        _selected(
            world,
            task,
            way,
            folder / "trainings" / f"{task.name}-{name}" if task.size == ALL else None,
        )
        for name, way in ways.items()
    )
    points = []
    for newcomer, *found in zip(task.newcomers, described, published, joined, strict=True):
        points += _main_points(world, task, newcomer, *found)
    return points


def _main_points(
    world: World,
    task: CellTask,
    newcomer: str,
    described: _Chosen,
    published: _Chosen,
    joined: _Chosen,
) -> list[Point]:
    """Return the points of all main arms of one newcomer."""
    alone = max(described, published, key=lambda each: each.selection)
    average, average_f1 = _averaged(world, task, newcomer, alone, joined)
    # Of equal selections the joined tagger is kept, then the average.
    kept, _, kept_f1, kept_arm = max(
        (joined.selection, 2, joined.final.f1, "joined"),
        (average, 1, average_f1, "averaged"),
        (alone.selection, 0, alone.final.f1, "local-only"),
    )
    taggers = (described, published, alone, joined)
    rows = [
        (arm, each.final.f1, each.selection, f"{each.kind.name} {each.words}")
        for arm, each in zip(MAIN_ARMS[:4], taggers, strict=True)
    ]
    rows += [("averaged", average_f1, average, ""), ("kept", kept_f1, kept, kept_arm)]
    count = len(_own(world, newcomer, task))
    return [Point(newcomer, task.size, task.seed, *row, count) for row in rows]


def _selected(world: World, task: CellTask, way: _Way, folder: Path | None = None) -> list[_Chosen]:
    """Return the best setting of each newcomer by cross-validation, and what it comes to.

    Args:
        world: The platforms.
        task: The newcomers, their size and seed.
        way: How they train.
        folder: Where trainings that have ended stand; None stores none.
    """
    jobs: dict[tuple[str, Setting, int], Alone] = {}
    for newcomer in task.newcomers:
        parts = folds(_own(world, newcomer, task), NUM_FOLDS)
        for setting in way.grid:
            for fold, (own, held) in enumerate(parts):
                job = way.job(newcomer, own, held, setting, task.seed)
                jobs[newcomer, setting, fold] = job
    epochs, batch_size = _schedule(world, task)
    trained = trained_once(
        folder and folder / "folds.safetensors",
        lambda: train_alone(
            world, way.kind, list(jobs.values()), epochs=epochs, batch_size=batch_size
        ),
        world.device,
    )
    by_job = dict(zip(jobs, trained, strict=True))
    best = [_best(by_job, newcomer, way.grid) for newcomer in task.newcomers]
    finals = trained_once(
        folder and folder / "final.safetensors",
        lambda: _final(world, task, way, [setting for setting, _, _ in best]),
        world.device,
    )
    return [_Chosen(way.kind, *each, final) for each, final in zip(best, finals, strict=True)]


def score_received(world: World, newcomer: str, size: int, seed: int, gift: Member) -> float:
    """Return the test F1 of a newcomer that fine-tunes what it received, tuned as in the study."""
    way = _Way(DESCRIBED, _tried(world, JOINED_GRID), {newcomer: gift})
    return _selected(world, CellTask((newcomer,), size, seed), way)[0].final.f1


def score_alone(world: World, newcomer: str, size: int, seed: int) -> float:
    """Return the test F1 of the better local-only tagger, by cross-validation."""
    task = CellTask((newcomer,), size, seed)
    grids = ((DESCRIBED, DESCRIBED_GRID), (PUBLISHED, PUBLISHED_GRID))
    ways = (_Way(kind, _tried(world, grid)) for kind, grid in grids)
    found = [_selected(world, task, way)[0] for way in ways]
    return max(found, key=lambda each: each.selection).final.f1


def _tried(world: World, grid: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """Return the settings that are tried; in a rehearsal the first."""
    return grid[:1] if world.is_rehearsal else grid


def _best(
    by_job: Mapping[tuple[str, Setting, int], Trained], newcomer: str, grid: Sequence[Setting]
) -> tuple[Setting, float, tuple[Trained, ...]]:
    """Return the setting of the highest F1 over all folds, the first of equals, with its folds."""
    found = []
    for setting in grid:
        by_fold = tuple(by_job[newcomer, setting, fold] for fold in range(NUM_FOLDS))
        found.append((setting, _joint_f1([each.counts for each in by_fold]), by_fold))
    return max(found, key=lambda each: each[1])


def _final(world: World, task: CellTask, way: _Way, settings: Sequence[Setting]) -> list[Trained]:
    """Train with the chosen settings on all own sentences, and score on the test part."""
    jobs = []
    for newcomer, setting in zip(task.newcomers, settings, strict=True):
        _, test = own_and_test(world, newcomer, task.seed)
        own = _own(world, newcomer, task)
        jobs.append(way.job(newcomer, own, test, setting, task.seed))
    epochs, batch_size = _schedule(world, task)
    return train_alone(world, way.kind, jobs, epochs=epochs, batch_size=batch_size)


def _averaged(
    world: World, task: CellTask, newcomer: str, alone: _Chosen, joined: _Chosen
) -> tuple[float, float]:
    """Return selection score and test F1 of the average of both taggers' scores."""
    own, test = _own(world, newcomer, task), own_and_test(world, newcomer, task.seed)[1]
    held = [part for _, part in folds(own, NUM_FOLDS)]
    jobs = [Alone(newcomer, own, each, 0.0, task.seed) for each in (*held, test)]
    members = [
        (each.kind, [*(fold.weights for fold in each.by_fold), each.final.weights])
        for each in (alone, joined)
    ]
    counts = score_averaged(world, members, jobs)
    return _joint_f1(counts[:-1]), _joint_f1(counts[-1:])


def _tuned(world: World, task: CellTask, folder: Path, arm: str) -> list[Point]:
    """Return the points of an arm whose setting is chosen by cross-validation."""
    kind, grid = _TUNED[arm]
    gifts = _gifts(world, task, folder, "received" if arm == "fresh head" else arm)
    if arm == "fresh head":
        gifts = {newcomer: _encoder_of(gift) for newcomer, gift in gifts.items()}
    way = _Way(kind, _tried(world, grid), gifts, _vectors(world, task, arm))
    chosen = _selected(world, task, way)
    return [
        Point(
            newcomer, task.size, task.seed, arm, one.final.f1, one.selection, one.words, task.size
        )
        for newcomer, one in zip(task.newcomers, chosen, strict=True)
    ]


def _encoder_of(gift: Member) -> Member:
    return {name: weight for name, weight in gift.items() if name.startswith("bilstm.")}


def _fixed(world: World, task: CellTask, folder: Path, arm: str) -> list[Point]:
    """Return the points of an arm whose joint training may have seen the newcomer's sentences.

    Cross-validation would meet sentences that the joint training has seen, so the setting is one
    for all: in the middle of the grid.
    """
    given, trains = _FIXED[arm]
    setting = JOINED_GRID[len(JOINED_GRID) // 2 - 1]
    epochs, batch_size = _schedule(world, task)
    way = _Way(DESCRIBED, (), _gifts(world, task, folder, given))
    jobs = []
    for newcomer in task.newcomers:
        own, test = own_and_test(world, newcomer, task.seed)
        jobs.append(way.job(newcomer, own[: task.size], test, setting, task.seed))
    found = train_alone(
        world, DESCRIBED, jobs, epochs=epochs if trains else 0, batch_size=batch_size
    )
    return [
        Point(newcomer, task.size, task.seed, arm, each.f1, None, "", task.size)
        for newcomer, each in zip(task.newcomers, found, strict=True)
    ]
