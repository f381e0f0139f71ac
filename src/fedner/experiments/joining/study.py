"""The study: what is trained for which newcomer, size and seed, and in which order.

First the partners train together (`partner_tasks`), then every newcomer tries to do without them
and with them (`cell_tasks`). A task is a minute or less of one GPU; what it finds is stored at once,
and a study that was stopped goes on with what is missing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedner.experiments.joining.arms import (
    DESCRIBED,
    FREE,
    PUBLISHED,
    Alone,
    Kind,
    Member,
    Together,
    Trained,
    folds,
    partners_of,
    score_averaged,
    train_alone,
    train_together,
    type_vectors,
)
from fedner.experiments.joining.corpora import BTC
from fedner.experiments.joining.training import Indices
from fedner.experiments.joining.world import PLACEBO, World
from fedner.tensor_files import read_tensors, write_tensors

NEWCOMERS = ("ade", "psytar", "twimed", "bc5cdr", "btc-e")
SIZES = (25, 50, 100, 200, 400)
ALL = -1  # the size that stands for every own sentence
MIDDLE = 100  # the size at which all arms are compared
SEEDS = tuple(range(1, 6))
MORE_SEEDS = tuple(range(6, 11))  # at the middle size
FEW_SEEDS = SEEDS[:3]  # for weightings
NUM_FOLDS = 3

# Chosen on other newcomers (NCBI-disease, Ex-PTM) and other seeds (101 to 103): docs/results.md.
PARTNER_STEPS = 1_000
PARTNER_BATCH = 32
PARTNER_RATE = 2e-3
PARTNER_DROPOUT = 0.3
WEIGHTING = "sqrt-size"
KIND, VERSION = "joining study", 1


@dataclass(frozen=True, slots=True)
class Setting:
    """How a newcomer trains: a learning rate, and how strongly it is held to what it received."""

    learning_rate: float
    pull: float = 0.0


JOINED_GRID = tuple(
    Setting(rate, pull)
    for rate, pull in ((2e-3, 100), (2e-3, 30), (2e-3, 10), (4e-3, 3), (4e-3, 1), (2e-3, 0))
)
# Where the head is fresh nothing holds it: higher learning rates, weaker pulls.
FRESH_GRID = tuple(
    Setting(rate, pull)
    for rate, pull in ((1e-3, 0), (2e-3, 0), (4e-3, 0), (8e-3, 0), (4e-3, 1), (4e-3, 3))
)
DESCRIBED_GRID = tuple(Setting(rate) for rate in (1e-3, 2e-3, 4e-3, 6e-3, 1e-2, 2e-2))
PUBLISHED_GRID = tuple(Setting(rate) for rate in (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3))


def schedule(size: int) -> tuple[int, int]:
    """Return epochs and batch size for so many own sentences."""
    if size <= 50:
        return 40, 8
    if size <= 1000:
        return 20, 16 if size < 400 else 32
    return 15, 64


@dataclass(frozen=True, slots=True)
class Point:
    """One tagger on one newcomer's untouched test part.

    Attributes:
        newcomer: Whose test part.
        size: Own sentences; ALL for all of them.
        seed: Of split, order of sentences and weights.
        arm: How it was trained.
        f1: Strict F1 in percent.
        selection: The cross-validated F1 that chose its setting; None where nothing was chosen.
        setting: The setting in words.
        sentences: How many own sentences there were.
    """

    newcomer: str
    size: int
    seed: int
    arm: str
    f1: float
    selection: float | None = None
    setting: str = ""
    sentences: int = 0


@dataclass(frozen=True, slots=True)
class PartnerTask:
    """Joint trainings that run as one stack."""

    arm: str
    is_btc: bool
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """A name for its files."""
        domain = "btc" if self.is_btc else "medical"
        return f"{self.arm}-{domain}-{self.seeds[0]}-{self.seeds[-1]}"

    @property
    def newcomers(self) -> tuple[str, ...]:
        """Whose partners train."""
        return tuple(each for each in NEWCOMERS if (each in BTC) == self.is_btc)


# What a joint training is like, by the arm that needs it; "own" ones train with the newcomer.
_TOGETHER: dict[str, dict[str, Any]] = {
    "received": {},
    "placebo": {"variant": PLACEBO},
    "random vectors": {"vectors": "random"},
    "private heads": {"head": "private"},
    "taking part": {},
    "centralized": {"weighting": "size"},
    "weighting size": {"weighting": "size"},
    "weighting equal": {"weighting": "equal"},
    "taking part size": {"weighting": "size"},
    "taking part equal": {"weighting": "equal"},
}
_WITH_OWN = ("taking part", "centralized", "taking part size", "taking part equal")


def partner_tasks() -> list[PartnerTask]:
    """Return all joint trainings, the most important first."""
    found = []
    for arm in _TOGETHER:
        groups = [SEEDS]
        if arm == "received":
            groups = [SEEDS, MORE_SEEDS]
        elif arm.startswith("weighting") or arm in ("taking part size", "taking part equal"):
            groups = [FEW_SEEDS]
        found += [PartnerTask(arm, is_btc, seeds) for seeds in groups for is_btc in (False, True)]
    return found


def run_partners(world: World, task: PartnerTask, folder: Path) -> None:
    """Train the partners of a task and store what they share."""
    jobs = []
    for newcomer in task.newcomers:
        for seed in task.seeds:
            own = None
            if task.arm in _WITH_OWN:
                own = own_and_test(world, newcomer, seed)[0][:MIDDLE]
            given = {"weighting": WEIGHTING} | _TOGETHER[task.arm]
            jobs.append(Together(newcomer, seed, own=own, **given))
    members = train_together(
        world,
        FREE if task.arm == "private heads" else DESCRIBED,
        jobs,
        steps=PARTNER_STEPS,
        batch_size=PARTNER_BATCH,
        learning_rate=PARTNER_RATE,
        dropout=PARTNER_DROPOUT,
    )
    for job, member in zip(jobs, members, strict=True):
        kept = {name: each.cpu() for name, each in member.items() if "/" not in name}
        path = member_path(folder, task.arm, job.newcomer, job.seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(path, kept, KIND, VERSION)


def member_path(folder: Path, arm: str, newcomer: str, seed: int) -> Path:
    """Return where what the partners share is stored."""
    return folder / "partners" / f"{arm.replace(' ', '-')}-{newcomer}-{seed}.safetensors"


def received(world: World, folder: Path, arm: str, newcomer: str, seed: int) -> Member:
    """Return what a newcomer receives."""
    tensors, _ = read_tensors(member_path(folder, arm, newcomer, seed), KIND, VERSION)
    return {name: each.to(world.device) for name, each in tensors.items()}


def own_and_test(world: World, newcomer: str, seed: int) -> tuple[Indices, Indices]:
    """Return own sentences in their order and the test part, by global number."""
    own, test = world.corpora[newcomer].parts(seed)
    return world.numbers(newcomer, own), world.numbers(newcomer, test)


@dataclass(frozen=True, slots=True)
class CellTask:
    """Newcomers of one size and seed: alone, joined, and at the middle size all other arms."""

    newcomers: tuple[str, ...]
    size: int
    seed: int

    @property
    def name(self) -> str:
        """A name for its files."""
        size = "all" if self.size == ALL else str(self.size)
        return f"{'+'.join(self.newcomers)}-{size}-{self.seed}"


def cell_tasks() -> list[CellTask]:
    """Return all cells, the most important first."""
    found = [CellTask(NEWCOMERS, MIDDLE, seed) for seed in (*SEEDS, *MORE_SEEDS)]
    found += [
        CellTask(NEWCOMERS, size, seed)
        for size in (25, 0)
        for seed in SEEDS
    ]
    found += [CellTask(NEWCOMERS, size, seed) for size in (400, 50, 200) for seed in SEEDS]
    by_cost = ("btc-e", "twimed", "ade", "psytar", "bc5cdr")
    found += [CellTask((newcomer,), ALL, seed) for newcomer in by_cost for seed in SEEDS]
    return [replace(task, newcomers=_large_enough(task)) for task in found]


def _large_enough(task: CellTask) -> tuple[str, ...]:
    """Return the newcomers that have so many sentences: BTC-e has 160."""
    return tuple(each for each in task.newcomers if each != "btc-e" or task.size <= MIDDLE)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A way to train, with the setting that cross-validation chose."""

    kind: Kind
    setting: Setting
    selection: float
    by_fold: tuple[Trained, ...]


def run_cells(world: World, task: CellTask, folder: Path) -> list[Point]:
    """Return what came of all newcomers of a task."""
    if task.size == 0:
        return _without_sentences(world, task, folder)
    return [*_alone_and_joined(world, task, folder), *_other_arms(world, task, folder)]


def _without_sentences(world: World, task: CellTask, folder: Path) -> list[Point]:
    points = []
    arms = ["received", "placebo", "random vectors"]
    if task.seed in FEW_SEEDS:
        arms += ["weighting size", "weighting equal"]
    for arm in arms:
        jobs = []
        for newcomer in task.newcomers:
            _, test = own_and_test(world, newcomer, task.seed)
            jobs.append(
                Alone(
                    newcomer,
                    test[:1],
                    test,
                    1e-3,
                    task.seed,
                    received(world, folder, arm, newcomer, task.seed),
                    vectors=_own_vectors(world, newcomer, task.seed, arm),
                )
            )
        found = train_alone(world, DESCRIBED, jobs, epochs=0, batch_size=8)
        points += [
            Point(job.newcomer, 0, task.seed, _called(arm), each.f1)
            for job, each in zip(jobs, found, strict=True)
        ]
    return points


def _called(arm: str) -> str:
    return "joined" if arm == "received" else arm


def _own_vectors(world: World, newcomer: str, seed: int, arm: str) -> torch.Tensor | None:
    if arm != "random vectors":
        return None
    return type_vectors(world, newcomer, Together(newcomer, seed, vectors="random"))


def _alone_and_joined(world: World, task: CellTask, folder: Path) -> list[Point]:
    """Return the points of local-only, joined, their average, and what would be kept."""
    gifts = {each: received(world, folder, "received", each, task.seed) for each in task.newcomers}
    described = _selected(world, task, DESCRIBED, DESCRIBED_GRID, {})
    published = _selected(world, task, PUBLISHED, PUBLISHED_GRID, {})
    joined = _selected(world, task, DESCRIBED, JOINED_GRID, gifts)
    finals = {
        name: _final(world, task, chosen, gifts if name == "joined" else {})
        for name, chosen in (("described", described), ("ELMoNER", published), ("joined", joined))
    }
    points = []
    for place, newcomer in enumerate(task.newcomers):
        options = {
            "described alone": (described[place], finals["described"][place]),
            "ELMoNER alone": (published[place], finals["ELMoNER"][place]),
        }
        better = max(options, key=lambda name: options[name][0].selection)
        chosen_alone, alone = options[better]
        chosen_joined, with_others = joined[place], finals["joined"][place]
        average, average_f1 = _averaged(
            world, task, newcomer, (chosen_alone, alone), (chosen_joined, with_others)
        )
        found = {
            **options,
            "local-only": (chosen_alone, alone),
            "joined": (chosen_joined, with_others),
        }
        count = len(_own(world, newcomer, task))
        points += [
            Point(
                newcomer,
                task.size,
                task.seed,
                arm,
                each.f1,
                chosen.selection,
                f"{chosen.kind.name} {chosen.setting.learning_rate:g} {chosen.setting.pull:g}",
                count,
            )
            for arm, (chosen, each) in found.items()
        ]
        points.append(
            Point(newcomer, task.size, task.seed, "averaged", average_f1, average, "", count)
        )
        kept = max(
            (chosen_joined.selection, 2, with_others.f1, "joined"),
            (average, 1, average_f1, "averaged"),
            (chosen_alone.selection, 0, alone.f1, "local-only"),
        )
        points.append(
            Point(newcomer, task.size, task.seed, "kept", kept[2], kept[0], kept[3], count)
        )
    return points


def _own(world: World, newcomer: str, task: CellTask) -> Indices:
    own, _ = own_and_test(world, newcomer, task.seed)
    return own if task.size == ALL else own[: task.size]


def _selected(
    world: World,
    task: CellTask,
    kind: Kind,
    grid: Sequence[Setting],
    gifts: dict[str, Member],
    vectors: dict[str, torch.Tensor | None] | None = None,
) -> list[_Chosen]:
    """Return the best setting of each newcomer by cross-validation on its own sentences."""
    jobs, places = [], []
    for newcomer in task.newcomers:
        for setting in grid:
            for train_part, held in folds(_own(world, newcomer, task), NUM_FOLDS):
                jobs.append(
                    Alone(
                        newcomer,
                        train_part,
                        held,
                        setting.learning_rate,
                        task.seed,
                        gifts.get(newcomer),
                        setting.pull,
                        (vectors or {}).get(newcomer),
                    )
                )
                places.append((newcomer, setting))
    epochs, batch_size = schedule(_sentences(world, task))
    trained = train_alone(world, kind, jobs, epochs=epochs, batch_size=batch_size)
    found = []
    for newcomer in task.newcomers:
        best: _Chosen | None = None
        for setting in grid:
            by_fold = tuple(
                each
                for each, place in zip(trained, places, strict=True)
                if place == (newcomer, setting)
            )
            selection = _pooled(each.counts for each in by_fold)
            if best is None or selection > best.selection:
                best = _Chosen(kind, setting, selection, by_fold)
        if best is not None:
            found.append(best)
    return found


def _sentences(world: World, task: CellTask) -> int:
    return max(len(_own(world, each, task)) for each in task.newcomers)


def _pooled(counts: Iterator[tuple[int, int, int]]) -> float:
    right, found, gold = np.sum(list(counts), axis=0)
    return float(200.0 * right / max(1, found + gold))


def _final(
    world: World,
    task: CellTask,
    chosen: Sequence[_Chosen],
    gifts: dict[str, Member],
    vectors: dict[str, torch.Tensor | None] | None = None,
) -> list[Trained]:
    """Train with the chosen settings on all own sentences, and score on the test part."""
    jobs = []
    for newcomer, each in zip(task.newcomers, chosen, strict=True):
        _, test = own_and_test(world, newcomer, task.seed)
        jobs.append(
            Alone(
                newcomer,
                _own(world, newcomer, task),
                test,
                each.setting.learning_rate,
                task.seed,
                gifts.get(newcomer),
                each.setting.pull,
                (vectors or {}).get(newcomer),
            )
        )
    epochs, batch_size = schedule(_sentences(world, task))
    return train_alone(world, chosen[0].kind, jobs, epochs=epochs, batch_size=batch_size)


def _averaged(
    world: World,
    task: CellTask,
    newcomer: str,
    alone: tuple[_Chosen, Trained],
    joined: tuple[_Chosen, Trained],
) -> tuple[float, float]:
    """Return selection score and test F1 of the average of both taggers' emissions."""
    own, test = _own(world, newcomer, task), own_and_test(world, newcomer, task.seed)[1]
    held = [part for _, part in folds(own, NUM_FOLDS)]
    jobs = [Alone(newcomer, own, each, 0.0, task.seed) for each in (*held, test)]
    members = [
        (chosen.kind, [*(each.weights for each in chosen.by_fold), final.weights])
        for chosen, final in (alone, joined)
    ]
    counts = score_averaged(world, members, jobs)
    return _pooled(iter(counts[:-1])), _pooled(iter(counts[-1:]))


_Arm = tuple[
    str, Kind, tuple[Setting, ...], dict[str, Member], dict[str, torch.Tensor | None]
]


def _other_arms(world: World, task: CellTask, folder: Path) -> list[Point]:
    """Return the points of all other arms: at the middle size and the first seeds."""
    if task.size != MIDDLE or task.seed not in SEEDS:
        return []
    points = []
    encoder_only = {
        each: {
            name: weight
            for name, weight in received(world, folder, "received", each, task.seed).items()
            if name.startswith("bilstm.")
        }
        for each in task.newcomers
    }
    arms: list[_Arm] = [("fresh head", DESCRIBED, FRESH_GRID, encoder_only, {})]
    for arm, kind, grid in (
        ("placebo", DESCRIBED, JOINED_GRID),
        ("random vectors", DESCRIBED, JOINED_GRID),
        ("private heads", FREE, FRESH_GRID),
    ):
        gifts = {each: received(world, folder, arm, each, task.seed) for each in task.newcomers}
        vectors = {each: _own_vectors(world, each, task.seed, arm) for each in task.newcomers}
        arms.append((arm, kind, grid, gifts, vectors))
    for arm, kind, grid, gifts, vectors in arms:
        chosen = _selected(world, task, kind, grid, gifts, vectors)
        points += _points(task, arm, chosen, _final(world, task, chosen, gifts, vectors))
    return [*points, *_taking_part(world, task, folder)]


def _points(
    task: CellTask, arm: str, chosen: Sequence[_Chosen | None], found: Sequence[Trained]
) -> list[Point]:
    return [
        Point(
            newcomer,
            task.size,
            task.seed,
            arm,
            each.f1,
            None if one is None else one.selection,
            "" if one is None else f"{one.setting.learning_rate:g} {one.setting.pull:g}",
            task.size,
        )
        for newcomer, one, each in zip(task.newcomers, chosen, found, strict=True)
    ]


def _taking_part(world: World, task: CellTask, folder: Path) -> list[Point]:
    """Return the points of newcomers whose sentences are in the joint training itself.

    Cross-validation would meet sentences that the joint training has seen, so the setting is one
    for all: in the middle of the grid.
    """
    points = []
    setting = JOINED_GRID[len(JOINED_GRID) // 2 - 1]
    epochs, batch_size = schedule(task.size)
    arms = [("taking part", epochs), ("centralized", 0)]
    if task.seed in FEW_SEEDS:
        arms += [("taking part size", epochs), ("taking part equal", epochs)]
        arms += [(arm, epochs) for arm in ("weighting size", "weighting equal", "received")]
    for arm, own_epochs in arms:
        jobs = []
        for newcomer in task.newcomers:
            own, test = own_and_test(world, newcomer, task.seed)
            gift = received(world, folder, arm, newcomer, task.seed)
            jobs.append(
                Alone(
                    newcomer,
                    own[: task.size],
                    test,
                    setting.learning_rate,
                    task.seed,
                    gift,
                    setting.pull,
                )
            )
        found = train_alone(world, DESCRIBED, jobs, epochs=own_epochs, batch_size=batch_size)
        called = f"weighting {WEIGHTING}" if arm == "received" else arm
        points += _points(task, called, [None] * len(jobs), found)
    return points


def platforms() -> tuple[str, ...]:
    """Return all platforms of the study."""
    found: dict[str, None] = {}
    for newcomer in NEWCOMERS:
        found |= dict.fromkeys((newcomer, *partners_of(newcomer)))
    return tuple(found)
