"""Several trainings at a time on one machine, each in a process of its own."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from queue import Empty
from threading import Thread
from typing import Any, TypeVar

import torch

from fedner.engines.workers import safe_method
from fedner.errors import FednerError

POLL_SECONDS = 0.2
Point = TypeVar("Point")
Work = Callable[[str, Callable[[Point], None]], None]


def side_by_side(
    work: Work[Point], loads: Mapping[str, int], workers: int, on_point: Callable[[Point], None]
) -> None:
    """Do every piece of work, `workers` at a time, the heaviest first.

    Args:
        work: What is done for a name (a platform, a training); where processes are spawned and not
            forked it must be picklable.
        loads: How much work each name is.
        workers: How many processes.
        on_point: Called, in this process, with what they report.

    Raises:
        FednerError: A process has died.
    """
    context = get_context(safe_method())
    points = context.Queue()
    with _ending_children(), ProcessPoolExecutor(workers, context, _start, (work, points)) as pool:
        # The largest first: it decides when all are done.
        order = sorted(loads, key=lambda name: -loads[name])
        waiting: set[Future[None]] = {pool.submit(_work, name) for name in order}
        while waiting:
            done, waiting = wait(waiting, POLL_SECONDS, FIRST_COMPLETED)
            _drain(points, on_point)
            _require_alive(done)


def _require_alive(done: Sequence[Future[None]] | set[Future[None]]) -> None:
    try:
        for each in done:
            each.result()
    except BrokenProcessPool as error:
        raise FednerError(
            "a process that trains beside this one has died",
            "The machine may be out of memory: go on with fewer workers (engine.workers, "
            "--workers).",
        ) from error


@contextmanager
def _ending_children() -> Iterator[None]:
    """End what was begun when the block is left by an error, as on Ctrl-C."""
    before = set(active_children())
    try:
        yield
    except BaseException:
        for process in set(active_children()) - before:
            process.terminate()
        raise


_here: dict[str, Any] = {}


def _start(work: Work[Any], points: Any) -> None:
    """Begin a process: Ctrl-C is the parent's to answer, one thread as in the federation."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    _here.update(work=work, points=points)


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: nobody else would, after a kill -9."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)


def _work(name: str) -> None:
    _here["work"](name, _here["points"].put)


def _drain(points: Any, on_point: Callable[[Point], None]) -> None:
    while True:
        try:
            on_point(points.get_nowait())
        except Empty:
            return
