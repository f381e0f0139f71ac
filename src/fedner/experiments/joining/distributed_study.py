"""What noise costs by who adds it: each platform, all of them together, or a trusted server.

    python -m fedner.experiments.joining.distributed_study --data D --words W --context C --out O

The released models of `private_study` from a public model (medical federation and BTC, sentences
protected, delta 1e-5, three splits, five seeds of noise) with the same noise multiplier:

central      the server adds the noise to the sum (`unit-central`)
local        each platform adds the same noise to its own part (`unit-local`)
distributed  each platform rounds its part to a grid and adds a share of discrete noise
             (`distributed`), for a secure sum with so many colluding platforms and so many that
             must survive: the shares of all platforms are in the sum, as when nobody drops out

Points are stored in OUT/distributed.jsonl; central ones are taken from OUT/dp.jsonl where the study
of `private_study` left them there. What was stopped goes on with what is missing.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from fedner.experiments.joining import private, private_study, running
from fedner.experiments.joining.private import PrivateJob
from fedner.experiments.joining.private_study import (
    DP_POINTS,
    FEDERATIONS,
    FROM_PUBLIC,
    NOISE_SEEDS,
    SPLITS,
    DpPoint,
    open_world,
)
from fedner.experiments.joining.world import World
from fedner.privacy.sum_terms import SumTerms
from fedner.settings.policy import NoisePlace

POINTS = "distributed.jsonl"
ORDER = (3.0, 1.0, 8.0)


@dataclass(frozen=True, slots=True)
class Arm:
    """Who adds the noise, under which terms.

    Attributes:
        name: In the points and the table.
        place: Who adds it.
        colluding: How many platforms may collude with the server.
        may_drop: Whether as many platforms may drop out as a secure sum allows at all.
    """

    name: str
    place: NoisePlace
    colluding: int = 1
    may_drop: bool = False

    def terms(self, num_platforms: int) -> SumTerms | None:
        """Return the terms of the secure sum; None where there is none."""
        if self.place != "distributed":
            return None
        terms = SumTerms(num_platforms, self.colluding)
        least = terms.least_quorum if self.may_drop else None
        return SumTerms(num_platforms, self.colluding, least)


CENTRAL, LOCAL = Arm("central", "central"), Arm("local", "local")
TOGETHER = Arm("distributed, 1 colluding", "distributed")
OTHER_TERMS = (
    Arm("distributed, 0 colluding", "distributed", 0),
    Arm("distributed, 1 colluding, drop-outs", "distributed", 1, True),
)
FIRST, LATER = NOISE_SEEDS[:2], NOISE_SEEDS[2:]


@dataclass(frozen=True, slots=True)
class NoisePoint:
    """What one model came to: strict F1 over all test parts of a split."""

    federation: str
    arm: str
    epsilon: float
    split: int
    noise_seed: int
    f1: float


@dataclass(frozen=True, slots=True)
class NoiseTask:
    """Models of one split: one stack, a model for each seed of noise."""

    federation: str
    arm: Arm
    epsilon: float
    split: int
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """The task in words."""
        seeds = ", ".join(map(str, self.seeds))
        where = f"split {self.split} noise {seeds}"
        return f"{self.federation} {self.arm.name} epsilon {self.epsilon:g} {where}"

    def is_done(self, points: Iterable[NoisePoint]) -> bool:
        """Whether all its points are there."""
        own = (self.federation, self.arm.name, self.epsilon, self.split)
        found = {
            each.noise_seed
            for each in points
            if (each.federation, each.arm, each.epsilon, each.split) == own
        }
        return found >= set(self.seeds)


def tasks() -> list[NoiseTask]:
    """Return all tasks: what the bar needs, then the price of local noise, then more seeds."""
    wanted: list[tuple[Arm, Sequence[float], tuple[int, ...]]] = [
        (TOGETHER, ORDER, FIRST),
        (CENTRAL, ORDER, FIRST),
        (LOCAL, ORDER, FIRST),
        (TOGETHER, ORDER, LATER),
        (CENTRAL, ORDER, LATER),
        *((arm, ORDER[:2], FIRST) for arm in OTHER_TERMS),
        (LOCAL, ORDER, LATER),
    ]
    return [
        NoiseTask(federation, arm, epsilon, split, seeds)
        for arm, epsilons, seeds in wanted
        for epsilon in epsilons
        for federation in FEDERATIONS
        for split in SPLITS
    ]


def run_task(world: World, task: NoiseTask, folder: Path) -> list[NoisePoint]:
    """Train and score the models of a task.

    Args:
        world: The platforms.
        task: The models.
        folder: Where the public models stand, once they are trained.
    """
    arm, names = task.arm, FEDERATIONS[task.federation]
    split = private.split_of(world, names, task.split)
    how = private_study.needed_strength(task.epsilon, sum(map(len, split.own)), FROM_PUBLIC)
    rate = FROM_PUBLIC.learning_rate
    members = private.train_privately(
        world,
        [PrivateJob(split, how.noise_multiplier, seed, rate) for seed in task.seeds],
        how,
        initial=private_study.public_model(world, task.federation, folder),
        ema_decay=FROM_PUBLIC.ema_decay,
        place=arm.place,
        terms=arm.terms(len(names)),
    )
    found = private.scores(world, members, [split] * len(members))
    return [
        NoisePoint(task.federation, arm.name, task.epsilon, task.split, seed, row["all"])
        for seed, row in zip(task.seeds, found, strict=True)
    ]


def central_points(out: Path) -> list[NoisePoint]:
    """Return the points of `private_study` that are those of the central arm."""
    return [
        NoisePoint(
            each.federation, CENTRAL.name, each.epsilon, each.split, each.noise_seed, each.f1
        )
        for each in running.stored(out / DP_POINTS, DpPoint)
        if (each.study, each.start) == ("released", "public") and each.epsilon in ORDER
    ]


def table(points: Sequence[NoisePoint]) -> str:
    """Return Markdown: every arm, and how far it lies from central noise on the same seeds."""
    groups: dict[tuple[str, float, str], dict[tuple[int, int], float]] = {}
    for each in points:
        cell = (each.split, each.noise_seed)
        groups.setdefault((each.federation, each.epsilon, each.arm), {})[cell] = each.f1
    head = ("federation", "epsilon", "noise", "F1", "beside central", "runs")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for (federation, epsilon, arm), values in sorted(groups.items()):
        central = groups.get((federation, epsilon, CENTRAL.name), {})
        both = [values[cell] - central[cell] for cell in values if cell in central]
        said = f"{fmean(both):+.2f}" if both and arm != CENTRAL.name else ""
        several = list(values.values())
        score = f"{fmean(several):.2f}" + (f" ± {stdev(several):.2f}" if several[1:] else "")
        cells = (federation, f"{epsilon:g}", arm, score, said, str(len(values)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def run_in_pool(task: NoiseTask, out: Path) -> list[NoisePoint]:
    """Run a task in a process of the pool."""
    return run_task(running.opened_world(), task, out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, as long as there is time, and print the table."""
    options: argparse.Namespace = running.options_of(arguments, "Who adds the noise?")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / POINTS
    points = [*running.stored(path, NoisePoint), *central_points(options.out)]
    missing = [each for each in tasks() if not each.is_done(points)]
    run = running.Run(options, open_world, time.monotonic())
    for task, found in running.worked_off(run, run_in_pool, missing):
        running.add(path, found)
        run.say(f"{task.name}: {fmean(each.f1 for each in found):.2f}")
    print(table([*running.stored(path, NoisePoint), *central_points(options.out)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
