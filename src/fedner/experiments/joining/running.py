"""The study from one command, in resumable steps, several processes side by side.

What is found stands in OUT/points.jsonl; a study that is stopped goes on where it stood. When all is
there, the tables are printed and the picture is drawn.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from fedner.experiments.joining import study, world, zero_shot
from fedner.experiments.joining.study import CellTask, PartnerTask, Point

POINTS, UNSEEN = "points.jsonl", "unseen.jsonl"
_world: list[world.World] = []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, as long as there is time, and report."""
    options = _options(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.seconds
    path = options.out / POINTS
    points = stored(path)
    tasks = [each for each in study.cell_tasks() if not _is_done(each, points)]
    partners = [each for each in study.partner_tasks() if not _has_members(each, options.out)]
    if tasks:
        with _pool(options) as pool:
            for task, _ in _finished(pool, run_partners, partners, options, deadline):
                print(f"trained together: {task.name}", flush=True)
            if not (options.out / UNSEEN).is_file():
                for _, found in _finished(pool, run_unseen, [1, 2], options, deadline):
                    _append(options.out / UNSEEN, found)
            for task, found in _finished(pool, run_cells, tasks, options, deadline):
                _append(path, found)
                print(f"{task.name}: {len(found)} points", flush=True)
    from fedner.experiments.joining import report

    print(report.tables(stored(path)))
    if not options.no_picture:
        report.picture(stored(path), options.out / "joining.svg")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Does joining pay?")
    parser.add_argument("--data", type=Path, required=True, help="development corpora")
    parser.add_argument("--words", type=Path, required=True, help="word vectors")
    parser.add_argument("--context", type=Path, required=True, help="frozen encoder")
    parser.add_argument("--out", type=Path, default=Path("runs/joining"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=6, help="processes side by side")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing after so long")
    parser.add_argument("--no-picture", action="store_true")
    return parser.parse_args(arguments)


def stored(path: Path) -> list[Point]:
    """Return the points that there are."""
    if not path.is_file():
        return []
    return [Point(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def _append(path: Path, records: Sequence[Any]) -> None:
    """Add records to a file of lines; they are on the disk when this returns."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(each)) + "\n" for each in records)
        file.flush()
        os.fsync(file.fileno())


def _is_done(task: CellTask, points: Sequence[Point]) -> bool:
    wanted = {(each, task.size, task.seed) for each in task.newcomers}
    return wanted <= {(each.newcomer, each.size, each.seed) for each in points}


def _has_members(task: PartnerTask, out: Path) -> bool:
    return all(
        study.member_path(out, task.arm, newcomer, seed).is_file()
        for newcomer in task.newcomers
        for seed in task.seeds
    )


def _pool(options: argparse.Namespace) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        options.jobs, mp_context=get_context("spawn"), initializer=_open, initargs=(options,)
    )


def _open(options: argparse.Namespace) -> None:
    """Build the world once in every process; the first computes features, the others read them."""
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    found = world.build(
        options.data,
        options.words,
        options.context,
        study.platforms(),
        options.device,
        options.out / "features",
    )
    _world.append(found)


def run_partners(task: PartnerTask, out: Path) -> None:
    """Train the partners of a task, in a process of the pool."""
    study.run_partners(_world[0], task, out)
    torch.cuda.empty_cache()


def run_unseen(seed: int, _out: Path) -> list[zero_shot.UnseenType]:
    """Score types that no partner annotated, in a process of the pool."""
    return zero_shot.leave_one_out(_world[0], seed)


def run_cells(task: CellTask, out: Path) -> list[Point]:
    """Run the cells of a task, in a process of the pool."""
    found = study.run_cells(_world[0], task, out)
    torch.cuda.empty_cache()
    return found


def _finished(
    pool: ProcessPoolExecutor,
    run: Callable[[Any, Path], Any],
    tasks: Sequence[Any],
    options: argparse.Namespace,
    deadline: float,
) -> Iterator[tuple[Any, Any]]:
    """Yield every task with what came of it, as they end; begin none after the deadline."""
    waiting, running = list(tasks), dict[Future[Any], Any]()
    while running or (waiting and time.monotonic() < deadline):
        while waiting and len(running) < options.jobs and time.monotonic() < deadline:
            task = waiting.pop(0)
            running[pool.submit(run, task, options.out)] = task
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for each in done:
            yield running.pop(each), each.result()
