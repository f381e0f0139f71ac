"""What does an encoder cost to train together? The whole of it against low-rank adapters.

    python -m fedner.experiments.adapters FEDERATION.toml --seeds 3 --out FOLDER

The file has a recipe that trains its encoder. Every seed is run twice: as the file says, and with
adapters, so that only they travel. The table has the strict F1 on every platform's test part, and
what went over the wire: the bytes of tensors, as the record of every round has them.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedner.errors import FednerError
from fedner.experiments.jobs import FederationJob, add_options, add_seeds, gathered, seeds_of
from fedner.federated.algorithms import ALGORITHMS
from fedner.runs.blueprint import sized_recipe
from fedner.runs.checks import read_settings
from fedner.runs.folder import FEDERATED, RunFolder
from fedner.runs.simulation import train_run
from fedner.scoring import mean_interval

WHOLE, ADAPTED = "whole encoder", "adapters"


@dataclass(frozen=True, slots=True)
class Point:
    """One platform in one run.

    Attributes:
        way: What was trained.
        seed: The seed of the run.
        platform: The platform.
        strict: Its strict F1, in percent.
        relaxed: Its relaxed F1, in percent.
        rounds: In how many rounds it took part.
        up: Bytes that it transmitted in all.
        down: Bytes that it received in all.
        seconds: How long the run took, all platforms together; what was resumed is not in it.
    """

    way: str
    seed: int
    platform: str
    strict: float
    relaxed: float
    rounds: int
    up: int
    down: int
    seconds: float


def run(job: FederationJob) -> list[Point]:
    """Train one federation; a run that is already there is taken up again.

    Raises:
        FednerError: The file's recipe trains no encoder.
    """
    began = time.perf_counter()
    settings = job.settings()
    if not sized_recipe(settings.model).trains_encoder:
        raise FednerError(
            f"{job.federation}: recipe {settings.model.recipe} trains no encoder",
            "Set recipe = 'transformer' in [model].",
        )
    scores = train_run(settings, job.folder, resume=job.folder.exists())
    seconds = time.perf_counter() - began
    print(f"{job.folder.name}: {seconds:.0f} s", flush=True)
    rounds = RunFolder(job.folder).rounds()
    return [
        Point(
            job.way,
            job.seed,
            platform,
            100 * record.methods[FEDERATED].strict_micro.f1,
            100 * record.methods[FEDERATED].relaxed_micro.f1,
            sum(platform in each.bytes_up for each in rounds),
            sum(each.bytes_up.get(platform, 0) for each in rounds),
            sum(each.bytes_down.get(platform, 0) for each in rounds),
            seconds,
        )
        for platform, record in scores.platforms.items()
    ]


def adapted_settings(
    federation: Path, assignments: Sequence[str], adapter: str, learning_rate: float
) -> tuple[str, ...]:
    """Return what is set for adapters: the table, and their learning rate at every step of them.

    Args:
        federation: The federation file.
        assignments: What is set for both ways.
        adapter: The table `model.adapter`, as TOML writes it.
        learning_rate: Few and fresh numbers take a higher one than pretrained ones.
    """
    chosen = read_settings(federation, tuple(assignments)).algorithm
    stepped = ALGORITHMS[chosen.name].steps_shared
    return (
        f"model.adapter={adapter}",
        f"algorithm.{stepped}.learning_rate={learning_rate}",
        f"local_optimizer.encoder_learning_rate={learning_rate}",
    )


def table(points: Sequence[Point]) -> str:
    """Return two Markdown tables: strict F1 by platform, and bytes for a platform and in all."""
    platforms = sorted({point.platform for point in points})
    ways = list(dict.fromkeys(point.way for point in points))
    lines = [
        "| trained and sent | " + " | ".join((*platforms, "mean")) + " |",
        "|---" * (len(platforms) + 2) + "|",
    ]
    for way in ways:
        cells = [_f1(points, way, platform) for platform in (*platforms, "mean")]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    lines += ["", _BYTES_HEAD, "|---" * 6 + "|"]
    lines += [_bytes_row(points, way) for way in ways]
    return "\n".join(lines)


_BYTES_HEAD = (
    "| trained and sent | rounds | up, platform and round | down, platform and round | up in all | "
    "down in all |"
)


def _f1(points: Sequence[Point], way: str, platform: str) -> str:
    by_seed: dict[int, list[float]] = {}
    for point in points:
        if point.way == way and platform in (point.platform, "mean"):
            by_seed.setdefault(point.seed, []).append(point.strict)
    means = [sum(values) / len(values) for values in by_seed.values()]
    if len(means) < 2:
        return f"{means[0]:.2f}"
    interval = mean_interval(means)
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _bytes_row(points: Sequence[Point], way: str) -> str:
    own = [point for point in points if point.way == way]
    turns, seeds = sum(point.rounds for point in own), len({point.seed for point in own})
    up, down = sum(point.up for point in own), sum(point.down for point in own)
    rounds = max(point.rounds for point in own)
    cells = [up / turns, down / turns, up / seeds, down / seeds]
    return f"| {way} | {rounds:,} | " + " | ".join(map(shown, cells)) + " |"


def shown(size: float) -> str:
    """Return bytes as people read them, in powers of ten.

    >>> shown(90_261_504), shown(294_912)
    ('90.3 MB', '295 kB')
    """
    for unit, bytes_ in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_:
            return f"{size / bytes_:.3g} {unit}"
    return f"{size:.0f} B"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all jobs, several at a time where asked, and print the tables."""
    options = _options(arguments)
    adapted = adapted_settings(
        options.federation, options.set, options.adapter, options.adapter_learning_rate
    )
    own = {WHOLE: (), ADAPTED: adapted}
    jobs = [
        FederationJob(
            options.federation,
            seed,
            options.share,
            options.out / f"{way.replace(' ', '-')}-seed-{seed}",
            (*assignments, *options.set),
            way,
        )
        for seed in seeds_of(options)
        for way, assignments in own.items()
    ]
    print(table(gathered(run, jobs, options)))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The whole encoder, or adapters alone?")
    add_options(parser, "runs/adapters")
    add_seeds(parser, 3)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--adapter", default="{ rank = 8, alpha = 16.0 }", metavar="TABLE")
    parser.add_argument("--adapter-learning-rate", type=float, default=3e-3)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
