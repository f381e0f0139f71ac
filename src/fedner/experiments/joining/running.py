"""The study from one command, in resumable steps, several processes side by side.

What is found stands in OUT/points.jsonl; a study that is stopped goes on where it stood. At the end
of every call the tables of all that is there are printed and the picture is drawn.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch

from fedner.durable import write_text
from fedner.experiments.joining import cells, picture, report, study, world, zero_shot
from fedner.experiments.joining.study import CellTask, PartnerTask, Point
from fedner.experiments.joining.zero_shot import UnseenType

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

POINTS, UNSEEN, PICTURE = "points.jsonl", "unseen.jsonl", "joining.svg"
UNSEEN_SEEDS = (1, 2)
INTERRUPTED = 130  # the exit status of a command that Ctrl-C stopped

Task = TypeVar("Task")
Record = TypeVar("Record")
_world: list[world.World] = []  # of a process of the pool


def open_world(options: argparse.Namespace, platforms: Sequence[str] | None = None) -> world.World:
    """Read corpora, vectors and encoder that the options name.

    Args:
        options: Of the command line.
        platforms: Whose corpora; None for those of the study.
    """
    torch.backends.cuda.matmul.allow_tf32 = True
    return world.build(
        options.data,
        options.words,
        options.context,
        study.platforms() if platforms is None else platforms,
        options.device,
        options.out / "features",
    )


def main(
    arguments: Sequence[str] | None = None,
    opened: Callable[[argparse.Namespace], world.World] = open_world,
) -> int:
    """Run what is missing, as long as there is time, and report.

    Args:
        arguments: Of the command line.
        opened: Opens the world in each process.
    """
    options = options_of(arguments, "Does joining pay?")
    missing = _missing_inputs(options) if opened is open_world else []
    if missing:
        print(f"not there: {', '.join(missing)}; see docs/results.md", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    status = 0
    try:
        _run_missing(Run(options, opened, time.monotonic()))
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr, flush=True)
        status = INTERRUPTED
    points = stored(options.out / POINTS, Point)
    print(report.tables(points, stored(options.out / UNSEEN, UnseenType)))
    if points and not options.no_picture:
        picture.draw(points, options.out / PICTURE)
    return status


def options_of(arguments: Sequence[str] | None, question: str) -> argparse.Namespace:
    """Return the options of a study of the development corpora."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--data", type=Path, required=True, help="development corpora")
    parser.add_argument("--words", type=Path, required=True, help="word vectors")
    parser.add_argument("--context", type=Path, required=True, help="frozen encoder")
    parser.add_argument("--out", type=Path, default=Path("runs/joining"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=6, help="processes side by side")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing after so long")
    parser.add_argument("--no-picture", action="store_true")
    return parser.parse_args(arguments)


def _missing_inputs(options: argparse.Namespace) -> list[str]:
    """Return all inputs that are not there, before any process starts."""
    named = {"--data": options.data, "--words": options.words, "--context": options.context}
    return [f"{option} {path}" for option, path in named.items() if not path.exists()]


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the command.

    Attributes:
        options: Of the command line.
        opened: Opens the world in each process.
        begun: When it began.
    """

    options: argparse.Namespace
    opened: Callable[[argparse.Namespace], world.World]
    begun: float

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.begun

    @property
    def has_time(self) -> bool:
        """Whether something may still begin."""
        return self.seconds < float(self.options.seconds)

    def say(self, text: str) -> None:
        """Print a line of progress."""
        print(f"{self.seconds:7.0f} s  {text}", flush=True)


def _run_missing(run: Run) -> None:
    out = run.options.out
    points, unseen = stored(out / POINTS, Point), stored(out / UNSEEN, UnseenType)
    lacking = [(task, cells.missing_arms(task, points)) for task in study.cell_tasks()]
    tasks = [each for each in lacking if each[1]]
    partners = [each for each in needed_partners(tasks) if not _has_members(each, out)]
    seeds = sorted(set(UNSEEN_SEEDS) - {each.seed for each in unseen})
    counts = f"{len(partners)} joint trainings, {len(seeds)} of unseen types, {len(tasks)} of cells"
    run.say(f"to do: {counts}")
    if not (tasks or partners or seeds):
        return
    with _pool(run) as pool:
        for task, _ in _finished(pool, run_partners, partners, run):
            run.say(f"trained together: {task.name}")
        for seed, found in _finished(pool, run_unseen, seeds, run):
            add(out / UNSEEN, found)
            run.say(f"unseen types, seed {seed}: {len(found)} scores")
        for (cell, arms), fresh in _finished(pool, run_cells, tasks, run):
            _add_points(out / POINTS, fresh)
            run.say(f"{cell.name}: {len(fresh)} points of {len(arms)} arms")


def needed_partners(tasks: Sequence[tuple[CellTask, tuple[str, ...]]]) -> list[PartnerTask]:
    """Return the joint trainings that the missing arms of cells receive, in the study's order."""
    needed = {
        (cells.joint_training(arm), newcomer, task.seed)
        for task, arms in tasks
        for arm in arms
        for newcomer in task.newcomers
    }
    return [
        each
        for each in study.partner_tasks()
        if any((each.arm, name, seed) in needed for name in each.newcomers for seed in each.seeds)
    ]


def stored(path: Path, kind: Callable[..., Record]) -> list[Record]:
    """Return the records that a file of lines holds."""
    if not path.is_file():
        return []
    return [kind(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def add(path: Path, records: "Sequence[DataclassInstance]") -> None:
    """Add records to a file of lines, all or none; they are on the disk when this returns."""
    before = path.read_text("utf-8") if path.is_file() else ""
    write_text(path, before + "".join(f"{json.dumps(asdict(each))}\n" for each in records))


def _add_points(path: Path, points: Sequence[Point]) -> None:
    """Add the points that are not there yet."""

    def cell(point: Point) -> tuple[str, int, int, str]:
        return point.newcomer, point.size, point.seed, point.arm

    held = {cell(each) for each in stored(path, Point)}
    add(path, [each for each in points if cell(each) not in held])


def _has_members(task: PartnerTask, out: Path) -> bool:
    return all(
        study.member_path(out, task.arm, newcomer, seed).is_file()
        for newcomer in task.newcomers
        for seed in task.seeds
    )


@contextmanager
def _pool(run: Run) -> Iterator[ProcessPoolExecutor]:
    """Open a pool for the block; where that is left early, its processes end at once."""
    with _uninterrupted():
        pool = ProcessPoolExecutor(
            run.options.jobs,
            mp_context=get_context("spawn"),
            initializer=_open,
            initargs=(run.options, run.opened),
        )
    try:
        yield pool
    except BaseException:  # Ctrl-C, and a caller that wants no more of a generator
        _end(pool)
        raise
    finally:
        pool.shutdown()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block: a process that is half begun cannot be ended.

    Processes that begin in the block inherit that, and hear of Ctrl-C never.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _open(options: argparse.Namespace, opened: Callable[[argparse.Namespace], world.World]) -> None:
    """Open the world once in every process; the first computes features, the others read them."""
    torch.set_num_threads(1)
    _world.append(opened(options))


def run_partners(task: PartnerTask, out: Path) -> None:
    """Train the partners of a task, in a process of the pool."""
    study.run_partners(_world[0], task, out)
    torch.cuda.empty_cache()


def run_unseen(seed: int, _out: Path) -> list[UnseenType]:
    """Score types that no partner annotated, in a process of the pool."""
    return zero_shot.leave_one_out(_world[0], seed)


def run_cells(task: tuple[CellTask, tuple[str, ...]], out: Path) -> list[Point]:
    """Run the missing arms of a task, in a process of the pool."""
    found = cells.run_cells(_world[0], task[0], out, task[1])
    torch.cuda.empty_cache()
    return found


def _finished(
    pool: ProcessPoolExecutor,
    work: Callable[[Task, Path], Record],
    tasks: Sequence[Task],
    run: Run,
) -> Iterator[tuple[Task, Record]]:
    """Yield every task with what came of it, as they end; begin none when the time is over."""
    waiting = list(tasks)
    running: dict[Future[Record], Task] = {}
    while running or (waiting and run.has_time):
        while waiting and len(running) < run.options.jobs and run.has_time:
            task = waiting.pop(0)
            with _uninterrupted():  # it may begin a process
                running[pool.submit(work, task, run.options.out)] = task
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for each in done:
            yield running.pop(each), each.result()


def worked_off(
    run: Run, work: Callable[[Task, Path], Record], tasks: Sequence[Task]
) -> Iterator[tuple[Task, Record]]:
    """Yield every task with what came of it, from a pool of its own."""
    if not tasks:
        return
    with _pool(run) as pool:
        yield from _finished(pool, work, tasks, run)


def opened_world() -> world.World:
    """Return the world of this process of a pool."""
    return _world[0]


def _end(pool: ProcessPoolExecutor) -> None:
    """End the processes of the pool at once: what they work on is done again another time."""
    for process in list((pool._processes or {}).values()):  # a pool that broke has none
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)
