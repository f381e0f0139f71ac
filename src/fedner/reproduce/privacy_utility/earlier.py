"""Points that were measured before `fedner reproduce` was there, as cells of this study.

They are lines of JSON: dp.jsonl has released models under central noise and newcomers, and
distributed.jsonl released models by who adds the noise.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedner.errors import FednerError
from fedner.experiments.joining.private_study import ARMS, CENTRAL, SCRATCH
from fedner.reproduce.privacy_utility.cells import (
    ALL,
    ALONE,
    NEWCOMER,
    RELEASED,
    alone_cell,
    newcomer_cell,
    newcomer_rows,
    released_cell,
    released_rows,
)
from fedner.reproduce.reproduction import Cell, Row

_STARTS = {"scratch": SCRATCH.name, "public": CENTRAL.name}
Found = tuple[Cell, Sequence[Row], float]


def earlier_cells(path: Path) -> Iterator[Found]:
    """Yield the cells of earlier points; how long they took was not noted.

    Raises:
        FednerError: The file holds no such points.
    """
    points = _points(path)
    try:
        yield from _released(points)
        yield from _newcomers(points)
    except KeyError as error:
        raise FednerError(f"{path}: a point without {error}", _HINT) from None


_HINT = "Name dp.jsonl or distributed.jsonl of the former studies."


def _points(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError):
        raise FednerError(f"{path} holds no points", _HINT) from None


def _released(points: Sequence[dict[str, Any]]) -> Iterator[Found]:
    groups: dict[tuple[str, str, float, int], dict[int, dict[str, float]]] = {}
    for each in points:
        arm = each["arm"] if "arm" in each else _STARTS.get(each["start"])
        if each.get("study", RELEASED) == RELEASED and arm in ARMS:
            key = (each["federation"], arm, each["epsilon"], each["split"])
            groups.setdefault(key, {})[each["noise_seed"]] = {ALL: each["f1"]}
    for key, by_seed in groups.items():
        cell = released_cell(*key)
        yield cell, released_rows(cell, by_seed), 0.0


def _newcomers(points: Sequence[dict[str, Any]]) -> Iterator[Found]:
    groups: dict[tuple[str, str, float], dict[tuple[int, int], float]] = {}
    for each in points:
        if each.get("study") == NEWCOMER:
            key = (each["federation"], each["start"], each["epsilon"])
            groups.setdefault(key, {})[each["split"], each["noise_seed"]] = each["f1"]
        elif each.get("study") == ALONE:
            cell = alone_cell(each["federation"], each["split"])
            yield cell, newcomer_rows(cell, {(each["split"], 0): each["f1"]}), 0.0
    for key, by_split in groups.items():
        cell = newcomer_cell(*key, sorted({split for split, _ in by_split}))
        yield cell, newcomer_rows(cell, by_split), 0.0
