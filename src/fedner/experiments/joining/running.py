"""Trials of settings from one command each, resumable, several processes side by side."""

import argparse
import json
import signal
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
from fedner.experiments.joining import study, world

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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
    return parser.parse_args(arguments)


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


def stored(path: Path, kind: Callable[..., Record]) -> list[Record]:
    """Return the records that a file of lines holds."""
    if not path.is_file():
        return []
    return [kind(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def add(path: Path, records: "Sequence[DataclassInstance]") -> None:
    """Add records to a file of lines, all or none; they are on the disk when this returns."""
    before = path.read_text("utf-8") if path.is_file() else ""
    write_text(path, before + "".join(f"{json.dumps(asdict(each))}\n" for each in records))


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
