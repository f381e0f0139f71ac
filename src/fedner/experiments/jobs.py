"""What the studies have in common: their options, jobs side by side, and points that are stored."""

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from fedner.durable import write_text
from fedner.runs.checks import read_settings
from fedner.settings import Settings

Job = TypeVar("Job")
Point = TypeVar("Point")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class FederationJob:
    """One run of a federation file.

    Attributes:
        federation: The federation file.
        seed: Names split, first weights and batches.
        share: How much of every platform's training part is used.
        folder: Where the run goes.
        assignments: What else is set.
        way: Which of the ways that a study compares; empty where it compares none.
    """

    federation: Path
    seed: int
    share: float
    folder: Path
    assignments: tuple[str, ...] = ()
    way: str = ""

    def settings(self, *more: str) -> Settings:
        """Return the settings of the run.

        Args:
            more: What the study sets; the job's own assignments go before it.
        """
        kept = kept_share(self.federation, self.assignments, self.share)
        seed = f"seed={self.seed}"
        return read_settings(self.federation, (seed, *more, *kept, *self.assignments))


def kept_share(federation: Path, given: Sequence[str], share: float) -> tuple[str, ...]:
    """Return the assignments that keep a share of every platform's training part."""
    number = len(read_settings(federation, tuple(given)).platforms)
    return tuple(f"platforms.{each}.split.keep={share}" for each in range(number))


def add_options(parser: ArgumentParser, out: str) -> None:
    """Add what every study of a federation file asks for."""
    parser.add_argument("federation", type=Path)
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))


def add_seeds(parser: ArgumentParser, number: int) -> None:
    """Add which seeds a study runs."""
    parser.add_argument("--seeds", type=int, default=number)
    parser.add_argument("--first-seed", type=int, default=1)


def seeds_of(options: Namespace) -> range:
    """Return the seeds that the options ask for."""
    return range(options.first_seed, options.first_seed + options.seeds)


def gathered(
    run: Callable[[Job], Sequence[Point]], jobs: Sequence[Job], options: Namespace
) -> list[Point]:
    """Run jobs, several at a time, and return their points; what there is, is stored at once."""
    options.out.mkdir(parents=True, exist_ok=True)
    points: list[Point] = []
    for found in side_by_side(run, jobs, options.jobs):
        points += found
        store(options.out / "points.json", points, vars(options))
    return points


def side_by_side(
    run: Callable[[Job], Sequence[Point]], jobs: Sequence[Job], number: int
) -> Iterator[Sequence[Point]]:
    """Yield what every job came to, in their order; one at a time runs in this process."""
    if number == 1:
        yield from map(run, jobs)
        return
    with _pool(number) as pool:
        yield from pool.map(run, jobs)


def as_they_end(
    run: Callable[[Job], Found], jobs: Sequence[Job], number: int
) -> Iterator[tuple[Job, Found]]:
    """Yield every job and what it came to, the first to end first; one at a time runs here.

    A study that is stopped loses only what was under way.
    """
    if number == 1:
        yield from ((job, run(job)) for job in jobs)
        return
    with _pool(number) as pool:
        waiting = {pool.submit(run, job): job for job in jobs}
        for ended in as_completed(waiting):
            yield waiting[ended], ended.result()


def _pool(number: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(number, mp_context=get_context("spawn"))


def store(path: Path, points: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Write all points of a study and the options that it was given."""
    record = {
        "options": {name: str(value) for name, value in options.items()},
        "points": [asdict(point) for point in points],
    }
    write_text(path, json.dumps(record, indent=2))
