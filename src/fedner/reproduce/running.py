"""Runs the cells of a study side by side; what has ended is on the disk at once.

A study that is stopped, by Ctrl-C, kill -9 or a full disk, loses only the cells that were under way
(federations even go on within theirs). The same seeds give the same rows, in any order and with any
number of processes on the same kind of machine.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context

from fedner.errors import FednerError
from fedner.reproduce.bench import Bench
from fedner.reproduce.catalogue import study_named
from fedner.reproduce.plan import Pace, Plan, planned
from fedner.reproduce.reproduction import Cell, Inputs, Reproduction, Row
from fedner.reproduce.store import StoredCell, add_cell, all_rows, read_cells, taken_over

PARENT_SECONDS = 2.0
_benches: list[Bench] = []  # of a process of the pool


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears how far a study is.

    Attributes:
        plan: A stage begins: what it runs.
        cell: A cell has ended: its key, how long it took, and how many seconds are left.
    """

    plan: Callable[[Plan], None] = _nothing
    cell: Callable[[str, float, float | None], None] = _nothing


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the command.

    Attributes:
        study: The study.
        inputs: What it runs on, corpora read.
        jobs: How many cells side by side; 1 runs them in this very process.
        seconds: After how long no cell begins any more; None for no limit.
        begun: When the call began, by the monotonic clock.
        works: Trainings of other studies that need not be run again, by their name.
    """

    study: Reproduction
    inputs: Inputs
    jobs: int = 1
    seconds: float | None = None
    begun: float = 0.0
    works: Mapping[str, StoredCell] = field(default_factory=dict)

    @property
    def has_time(self) -> bool:
        """Whether a cell may still begin."""
        return self.seconds is None or time.monotonic() - self.begun < self.seconds


def run_study(run: Run, listener: Listener | None = None) -> list[Row]:
    """Run every cell that is missing, stage by stage; return all rows.

    Raises:
        FednerError: A cell failed, or a process was killed; what has ended is stored.
    """
    tell = listener or Listener()
    for number, stage in enumerate(run.study.stages, start=1):
        stored = read_cells(run.inputs.out)
        cells = stage(run.inputs, all_rows(stored))
        _check_keys(cells)
        _take_over(run, [cell for cell in cells if cell.key not in stored])
        stored = read_cells(run.inputs.out)
        missing = [cell for cell in cells if cell.key not in stored]
        missing.sort(key=lambda cell: (cell.factors.get("repeat", 0), -cell.cost))
        pace = Pace(run.inputs.device, run.jobs)
        tell.plan(planned(number, len(run.study.stages), cells, missing, stored, pace))
        left = sum(cell.cost for cell in missing)
        pace.begin()
        for cell, rows, seconds in _ended(run, missing):
            add_cell(run.inputs.out, cell, rows, seconds, run.inputs.device)
            left -= cell.cost
            pace.note(cell.cost)
            tell.cell(cell.key, seconds, pace.seconds_for(left))
        if not run.has_time:
            break
    return all_rows(read_cells(run.inputs.out))


def _take_over(run: Run, missing: Sequence[Cell]) -> None:
    """Store the cells whose training another study has run."""
    for cell in missing:
        held = run.works.get(cell.work) if cell.work else None
        if held is not None:
            add_cell(run.inputs.out, cell, taken_over(cell, held), held.seconds, held.device)


def first_plan(run: Run) -> Plan:
    """Return what the first stage with missing cells runs, without running it."""
    stored = read_cells(run.inputs.out)
    pace = Pace(run.inputs.device, run.jobs)
    for number, stage in enumerate(run.study.stages, start=1):
        cells = stage(run.inputs, all_rows(stored))
        missing = [cell for cell in cells if cell.key not in stored]
        plan = planned(number, len(run.study.stages), cells, missing, stored, pace)
        if missing or number == len(run.study.stages):
            return plan
    raise FednerError(f"{run.study.name} has no stage")


def _check_keys(cells: Sequence[Cell]) -> None:
    keys = [cell.key for cell in cells]
    if len(set(keys)) != len(keys):
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise FednerError(f"cells of one name: {', '.join(twice)}")


def _ended(run: Run, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Sequence[Row], float]]:
    """Yield every cell with its rows, the first to end first."""
    if not cells:
        return
    if run.jobs == 1:
        bench = Bench(run.inputs)
        for cell in cells:
            if not run.has_time:
                return
            yield (cell, *_timed(run.study, cell, bench))
        return
    try:
        with _pool(run) as pool:
            yield from _pooled(pool, run, cells)
    except BrokenProcessPool:
        raise FednerError(
            "a process of the study was killed, perhaps because memory ran out",
            "Finished trainings are stored: go on with --resume and fewer --jobs.",
        ) from None


def _pooled(
    pool: ProcessPoolExecutor, run: Run, cells: Sequence[Cell]
) -> Iterator[tuple[Cell, Sequence[Row], float]]:
    waiting = list(cells)
    running: dict[Future[tuple[Sequence[Row], float]], Cell] = {}
    while running or (waiting and run.has_time):
        while waiting and len(running) < run.jobs and run.has_time:
            cell = waiting.pop(0)
            with _uninterrupted():  # it may begin a process
                running[pool.submit(run_cell, run.study.name, cell)] = cell
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for each in done:
            yield (running.pop(each), *each.result())


def run_cell(name: str, cell: Cell) -> tuple[Sequence[Row], float]:
    """Run a cell in a process of the pool."""
    return _timed(study_named(name), cell, _benches[0])


def _timed(study: Reproduction, cell: Cell, bench: Bench) -> tuple[Sequence[Row], float]:
    began = time.perf_counter()
    try:
        rows = study.run(cell, bench)
    except FednerError as error:
        raise FednerError(f"{study.name}, {cell.key}: {error.message}", error.hint) from error
    return rows, time.perf_counter() - began


@contextmanager
def _pool(run: Run) -> Iterator[ProcessPoolExecutor]:
    """Open a pool for the block; where that is left early, its processes end at once."""
    with _uninterrupted():
        pool = ProcessPoolExecutor(
            run.jobs,
            mp_context=get_context("spawn"),
            initializer=_open,
            initargs=(run.inputs, os.getpid()),
        )
    try:
        yield pool
    except BaseException:  # Ctrl-C, and a failed cell
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
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


def _open(inputs: Inputs, parent: int) -> None:
    """Open the bench once in every process."""
    import torch

    torch.set_num_threads(1)
    _benches.append(Bench(inputs))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when the one that began it was killed: nobody would read its rows."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)
