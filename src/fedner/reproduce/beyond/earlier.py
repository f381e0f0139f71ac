"""Points that were measured before `fedner reproduce` was there, as cells of its studies.

    fedner reproduce communication --data DATA --context MINILM --out OUT --plan
    python -m scripts.import_points OUT points.json "one H200, torch 2.11, 2026-11-16"
    fedner reproduce communication --data DATA --context MINILM --out OUT --resume

What was imported is said on the page of the study, with who ran it where.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fedner.durable import write_text
from fedner.errors import FednerError
from fedner.experiments.joining.cells import missing_arms
from fedner.experiments.joining.study import Point, cell_tasks
from fedner.experiments.joining.zero_shot import UnseenType
from fedner.reproduce.beyond.communication import PROBE, PROBED_SEED, STEPS, TAGGER, Way
from fedner.reproduce.beyond.joining import cell_of, point_rows, unseen_cell, unseen_rows
from fedner.reproduce.beyond.plans import MEAN
from fedner.reproduce.privacy_utility import earlier_cells
from fedner.reproduce.reproduction import Cell, Row
from fedner.reproduce.store import STUDY, add_cell, read_cells, read_study

_TAKEN = ("fedavg",)  # the former study also had Algorithm 1 with local steps
Found = tuple[Cell, Sequence[Row], float]


def import_points(out: Path, path: Path, where: str) -> int:
    """Add the cells of earlier points to a study that was begun; return how many were new.

    Args:
        out: The folder of the study.
        path: The earlier points.
        where: Machine, versions and date of the earlier points, for the page.

    Raises:
        FednerError: The study takes no earlier points, or the file is none.
    """
    study = read_study(out)
    name = str(study["identity"]["study"])
    if name not in _SOURCES:
        raise FednerError(
            f"{name} has no earlier points", f"These studies have: {', '.join(sorted(_SOURCES))}."
        )
    stored = read_cells(out)
    fresh = [each for each in _SOURCES[name](path) if each[0].key not in stored]
    for cell, rows, seconds in fresh:
        add_cell(out, cell, rows, seconds)
    if fresh:
        words = f"{len(fresh):,} cells measured before this study: {where}"
        session = {
            "date": "earlier",
            "command": f"import {path.name}",
            "device": "",
            "versions": {},
        }
        study["sessions"].append({**session, "machine": words})
        write_text(out / STUDY, json.dumps(study, indent=2) + "\n")
    return len(fresh)


def slow_link_cells(path: Path) -> Iterator[Found]:
    """Yield the cells of points.json of the former study of slow links; FedAvg alone."""
    for each in _points(path):
        if each["algorithm"] not in _TAKEN or each["steps"] != STEPS:
            continue
        part = PROBE if each["seed"] == PROBED_SEED else TAGGER
        way = Way(each["local_steps"], each["encoding"], each["learning_rate"])
        cell = way.cell(part, each["seed"], 1.0)
        measures = {
            "strict_f1": each["strict"],
            "rounds": each["rounds"],
            "bytes_up": each["up"],
            "bytes_down": each["down"],
        }
        yield cell, [Row({**cell.factors, "platform": MEAN}, measures)], each["seconds"]


def _points(path: Path) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["points"]
    except (OSError, ValueError, KeyError, TypeError):
        raise FednerError(
            f"{path} holds no points", "Name points.json of the former study of slow links."
        ) from None
    return found


def joining_cells(path: Path) -> Iterator[Found]:
    """Yield the whole cells of points.jsonl and unseen.jsonl of the former study of joining.

    Raises:
        FednerError: The file holds no such points.
    """
    held = _lines(path)
    if held and "group" in held[0]:
        yield from _unseen_cells([UnseenType(**each) for each in held])
        return
    points = [Point(**each) for each in held]
    for task in cell_tasks():
        own = [
            each
            for each in points
            if each.newcomer in task.newcomers and (each.size, each.seed) == (task.size, task.seed)
        ]
        if own and not missing_arms(task, own):
            cell = cell_of(task)
            yield cell, point_rows(cell, own), 0.0


def _unseen_cells(found: Sequence[UnseenType]) -> Iterator[Found]:
    for seed in sorted({each.seed for each in found}):
        cell = unseen_cell(seed)
        yield cell, unseen_rows(cell, [each for each in found if each.seed == seed]), 0.0


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        if not all({"seed", "f1"} <= each.keys() for each in found):
            raise ValueError
    except (OSError, ValueError, AttributeError):
        raise FednerError(
            f"{path} holds no points",
            "Name points.jsonl or unseen.jsonl of the former study of joining.",
        ) from None
    return found


_SOURCES: dict[str, Callable[[Path], Iterator[Found]]] = {
    "communication": slow_link_cells,
    "joining": joining_cells,
    "privacy-utility": earlier_cells,
}
