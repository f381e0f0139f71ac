"""What differential privacy costs: models that may be released, and newcomers who receive one.

    python -m fedner.experiments.joining.private_study --data D --words W --context C --out O

(a) Federations under DP (sentences protected, delta 1e-5, noise once on the sum), as a share of
the same model without noise: from scratch, and from a public model, which was trained on corpora of
nobody in the federation and costs no epsilon.
(b) Newcomers of the joining study whose partners trained under DP: 25 own sentences, fine-tuned at
home without noise, against what the same partners give without DP. From scratch all partners of the
study train, public corpora among them, and all are noised; from a public model those of the
newcomer's federation. "public only" is the public model as it is: what of the gain is its own.

Everything is simulated: sample and noise come from a seed. Points are stored in OUT/dp.jsonl, and a
study that was stopped goes on with what is missing.
"""

import argparse
import fcntl
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

from fedner.experiments.joining import private, running, study
from fedner.experiments.joining.arms import Member
from fedner.experiments.joining.cells import score_alone, score_received
from fedner.experiments.joining.corpora import BTC
from fedner.experiments.joining.private import PrivateJob, Split, Strength
from fedner.experiments.joining.world import World
from fedner.tensor_files import read_tensors, write_tensors

DP_POINTS = "dp.jsonl"
FEDERATIONS = {"medical": ("ade", "psytar", "twimed"), "btc": BTC}
PUBLIC = {"medical": ("maccrobat", "ncbi", "bc5cdr"), "btc": ("wnut17",)}
EPSILONS = (1.0, 3.0, 8.0)
SPLITS, NOISE_SEEDS = (1, 2, 3), (1, 2, 3, 4, 5)
ALL_SPLITS = 0
NEWCOMERS = ("ade", "psytar", "twimed", "btc-e")
OWN_SENTENCES = 25
PUBLIC_ONLY = "public only"
PLAIN = 0.0  # the epsilon that stands for no DP
PLAIN_STEPS = PUBLIC_STEPS = 1_500
PLAIN_BATCH = 32
KIND, VERSION = "joining study, public model", 1


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a federation trains under DP: batch, epochs, learning rate of Adam, decay of the EMA."""

    batch_size: int
    epochs: int
    learning_rate: float
    ema_decay: float


# Chosen on split 101 by `private_trial`; the partners of newcomers have more sentences.
SCRATCH, FROM_PUBLIC = Recipe(2_048, 60, 0.005, 0.97), Recipe(4_096, 120, 0.005, 0.98)
PARTNERS = Recipe(4_096, 40, 0.007, 0.97)


@dataclass(frozen=True, slots=True)
class DpPoint:
    """What one model came to.

    Attributes:
        study: "released" for (a), "newcomer" for (b), "alone" for what (b) is compared with.
        federation: Whose model, or who joins.
        start: "scratch", "public", or "public only" where no partner trained.
        epsilon: The target; 0 without DP.
        split: The seed of the split.
        noise_seed: Of sample and noise.
        f1: Strict F1 over all test parts, or of the newcomer.
    """

    study: str
    federation: str
    start: str
    epsilon: float
    split: int
    noise_seed: int
    f1: float


@dataclass(frozen=True, slots=True)
class DpTask:
    """Models of one federation, start and epsilon: one stack.

    Attributes:
        study: As in `DpPoint`.
        federation: Likewise.
        start: Likewise.
        epsilon: Likewise.
        split: The seed of the split of a released model; newcomers meet all splits.
    """

    study: str
    federation: str
    start: str
    epsilon: float
    split: int = ALL_SPLITS

    @property
    def name(self) -> str:
        """The task in words."""
        said = "no DP" if self.epsilon == PLAIN else f"epsilon {self.epsilon:g}"
        split = "" if self.split == ALL_SPLITS else f" split {self.split}"
        return f"{self.study} {self.federation} {self.start} {said}{split}"

    def is_done(self, points: Iterable[DpPoint]) -> bool:
        """Whether points of this task are there; those of a task are stored all at once."""
        own = (self.study, self.federation, self.start, self.epsilon)
        return any(
            (each.study, each.federation, each.start, each.epsilon) == own
            and self.split in (ALL_SPLITS, each.split)
            for each in points
        )


def open_world(options: argparse.Namespace) -> World:
    """Read the platforms of the study and the public corpora."""
    public = [name for names in PUBLIC.values() for name in names]
    return running.open_world(options, tuple(dict.fromkeys((*study.platforms(), *public))))


def tasks() -> list[DpTask]:
    """Return all tasks, the bars of the issue first: what epsilon 3 costs."""
    found = [DpTask("newcomer", newcomer, PUBLIC_ONLY, PLAIN) for newcomer in NEWCOMERS]
    for epsilons in ((3.0, PLAIN), (1.0, 8.0)):
        found += _released_tasks("public", epsilons)
        found += [
            DpTask("newcomer", newcomer, start, epsilon)
            for start in ("public", "scratch")
            for epsilon in reversed(epsilons)
            for newcomer in NEWCOMERS
        ]
        found += _released_tasks("scratch", epsilons)
    return found


def _released_tasks(start: str, epsilons: Sequence[float]) -> list[DpTask]:
    return [
        DpTask("released", federation, start, epsilon, split)
        for epsilon in epsilons
        for federation in FEDERATIONS
        for split in SPLITS
    ]


@cache
def needed_strength(epsilon: float, num_sentences: int, recipe: Recipe) -> Strength:
    """Return what a target needs of a recipe."""
    return private.strength(epsilon, num_sentences, recipe.batch_size, recipe.epochs)


def run_task(world: World, task: DpTask, folder: Path) -> list[DpPoint]:
    """Train and score all models of a task.

    Args:
        world: The platforms.
        task: The models.
        folder: Where the public models stand, once they are trained.
    """
    work = _released if task.study == "released" else _newcomers
    return work(world, task, folder)


def public_model(world: World, federation: str, folder: Path) -> Member:
    """Return the public model of a federation; the first process that needs it trains it."""
    path = folder / f"public-{federation}.safetensors"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            names = FEDERATIONS[federation]
            found = private.public_model(world, PUBLIC[federation], names, PUBLIC_STEPS)
            write_tensors(path, found, KIND, VERSION)
    return read_tensors(path, KIND, VERSION)[0]


def _released(world: World, task: DpTask, folder: Path) -> list[DpPoint]:
    names = FEDERATIONS[task.federation]
    initial = public_model(world, task.federation, folder) if task.start == "public" else None
    seeds = NOISE_SEEDS if task.epsilon else NOISE_SEEDS[:1]
    split = private.split_of(world, names, task.split)
    splits = [split] * len(seeds)
    recipe = FROM_PUBLIC if initial else SCRATCH
    members = _trained(world, task.epsilon, splits, seeds, recipe, initial)
    found = private.scores(world, members, splits)
    return [
        DpPoint(
            task.study,
            task.federation,
            task.start,
            task.epsilon,
            task.split,
            seed,
            row["all"],
        )
        for seed, row in zip(seeds, found, strict=True)
    ]


def _newcomers(world: World, task: DpTask, folder: Path) -> list[DpPoint]:
    seeds = NOISE_SEEDS if task.epsilon == 3.0 else NOISE_SEEDS[: len(SPLITS)]
    members = _partners(world, task, seeds, folder)
    # Every noise seed meets a split of the newcomer: five seeds go round the three splits.
    cells = [(SPLITS[place % len(SPLITS)], noise) for place, noise in enumerate(seeds)]
    is_base = (task.start, task.epsilon) == ("scratch", PLAIN)
    alone = _alone(world, task.federation) if is_base else []
    return [
        *alone,
        *(
            DpPoint(
                task.study,
                task.federation,
                task.start,
                task.epsilon,
                *cell,
                score_received(world, task.federation, OWN_SENTENCES, cell[0], member),
            )
            for cell, member in zip(cells, members, strict=True)
        ),
    ]


def _partners(world: World, task: DpTask, seeds: Sequence[int], folder: Path) -> list[Member]:
    """Return what a newcomer receives, one model a seed."""
    if task.start == "scratch":
        split = private.partners_split(world, task.federation)
        return _trained(world, task.epsilon, [split] * len(seeds), seeds, PARTNERS, None)
    home = next(name for name, each in FEDERATIONS.items() if task.federation in each)
    initial = public_model(world, home, folder)
    if task.start == PUBLIC_ONLY:
        return [initial] * len(seeds)
    split = private.partners_split(world, task.federation, FEDERATIONS[home])
    return _trained(world, task.epsilon, [split] * len(seeds), seeds, FROM_PUBLIC, initial)


def _alone(world: World, newcomer: str) -> list[DpPoint]:
    """Return what a newcomer has by itself."""
    return [
        DpPoint(
            "alone",
            newcomer,
            "scratch",
            PLAIN,
            split,
            0,
            score_alone(world, newcomer, OWN_SENTENCES, split),
        )
        for split in SPLITS
    ]


def _trained(
    world: World,
    epsilon: float,
    splits: Sequence[Split],
    seeds: Sequence[int],
    recipe: Recipe,
    initial: Member | None,
) -> list[Member]:
    """Train under DP, or without where epsilon is 0."""
    if epsilon == PLAIN:
        return private.train_plainly(
            world, splits, seeds, steps=PLAIN_STEPS, batch_size=PLAIN_BATCH, initial=initial
        )
    # The smallest federation needs the most noise: it serves all splits.
    how = needed_strength(epsilon, min(sum(map(len, each.own)) for each in splits), recipe)
    jobs = [
        PrivateJob(split, how.noise_multiplier, seed, recipe.learning_rate)
        for split, seed in zip(splits, seeds, strict=True)
    ]
    return private.train_privately(world, jobs, how, initial=initial, ema_decay=recipe.ema_decay)


def table(points: Sequence[DpPoint]) -> str:
    """Return Markdown: every federation, start and epsilon against the same without DP.

    A split counts once, however many seeds of noise met it: splits differ more than seeds.
    """
    groups: dict[tuple[str, str, str, float], list[DpPoint]] = {}
    for each in points:
        key = (each.study, each.federation, each.start, each.epsilon)
        groups.setdefault(key, []).append(each)
    means = {key: mean_over_splits(group) for key, group in groups.items()}
    head = ("study", "federation", "start", "epsilon", "F1", "share of no DP", "runs")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for key, group in sorted(groups.items()):
        study, federation, start, epsilon = key
        said = "none" if epsilon == PLAIN else f"{epsilon:g}"
        share = _share(means, key)
        cells = (study, federation, start, said, f"{means[key]:.2f}", share, str(len(group)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def mean_over_splits(points: Iterable[DpPoint]) -> float:
    """Return the mean of the splits' means."""
    splits: dict[int, list[float]] = {}
    for each in points:
        splits.setdefault(each.split, []).append(each.f1)
    return fmean(map(fmean, splits.values()))


def _share(
    means: Mapping[tuple[str, str, str, float], float], key: tuple[str, str, str, float]
) -> str:
    """Return the score as a share of that without DP; of a newcomer, the gain as a share of it."""
    study, federation, start, _ = key
    plain = means.get((study, federation, start, PLAIN))
    alone = means.get(("alone", federation, "scratch", PLAIN), 0.0) if study == "newcomer" else 0.0
    if plain is None or study == "alone" or plain == alone:
        return ""
    of_gain = " of the gain" if alone else ""
    return f"{(means[key] - alone) / (plain - alone):.1%}{of_gain}"


def run_in_pool(task: DpTask, out: Path) -> list[DpPoint]:
    """Run a task in a process of the pool."""
    return run_task(running.opened_world(), task, out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, as long as there is time, and print the table."""
    options: argparse.Namespace = running.options_of(arguments, "What does DP cost?")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / DP_POINTS
    points = running.stored(path, DpPoint)
    missing = [each for each in tasks() if not each.is_done(points)]
    run = running.Run(options, open_world, time.monotonic())
    for task, found in running.worked_off(run, run_in_pool, missing):
        running.add(path, found)
        run.say(task.name)
    print(table(running.stored(path, DpPoint)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
