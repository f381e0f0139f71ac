"""The rows of a study on disk: one JSON object a line, a cell wholly or not at all.

Every line says to which cell it belongs and how many lines that has, so that a cell which a crash
cut off is seen and run again. `study.json` says what the rows were made of: a study goes on only
with the same.
"""

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedner.durable import append_whole, write_text
from fedner.errors import FednerError
from fedner.reproduce.reproduction import Cell, Row

ROWS, STUDY = "rows.jsonl", "study.json"


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A cell that was run.

    Attributes:
        rows: What it came to.
        seconds: How long it took.
        work: Names the training, where other studies have the same one.
        device: Where it was trained; empty where that was not stored.
    """

    rows: tuple[Row, ...]
    seconds: float
    work: str = ""
    device: str = ""


def read_cells(folder: Path) -> dict[str, StoredCell]:
    """Return every whole cell that a study has stored, by its key, in the order of storing.

    Raises:
        FednerError: A line in the middle of the file is damaged.
    """
    path = folder / ROWS
    if not path.is_file():
        return {}
    lines = path.read_bytes().split(b"\n")
    parsed: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(lines[:-1], start=1):  # behind the last break: cut off by a crash
        try:
            record = json.loads(line)
            if record["row"] == 0:  # run again where a crash had cut the cell off
                parsed[record["cell"]] = []
            parsed[record["cell"]].append(record)
        except (ValueError, KeyError, TypeError):
            raise FednerError(
                f"{path}, line {number}: not a row of a study",
                "Use an undamaged copy of the file, or delete that line.",
            ) from None
    return {
        key: StoredCell(
            tuple(Row(each["factors"], each["measures"]) for each in held),
            held[0]["seconds"],
            held[0].get("work", ""),
            held[0].get("device", ""),
        )
        for key, held in parsed.items()
        if len(held) == held[0]["of"]
    }


def add_cell(
    folder: Path, cell: Cell, rows: Sequence[Row], seconds: float, device: str = ""
) -> None:
    """Append the rows of a cell; they are on the disk when this returns.

    Raises:
        FednerError: The cell came to no rows, or a row lacks the cell's factors.
    """
    if not rows:
        raise FednerError(f"cell {cell.key} came to no rows")
    lines = "".join(
        json.dumps(
            {
                "cell": cell.key,
                "row": number,
                "of": len(rows),
                "seconds": round(seconds, 3),
                **({"work": cell.work} if cell.work else {}),
                **({"device": device} if device else {}),
                "factors": {**cell.factors, **row.factors},
                "measures": dict(row.measures),
            }
        )
        + "\n"
        for number, row in enumerate(rows)
    )
    descriptor = os.open(folder / ROWS, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        _drop_cut_line(descriptor)
        append_whole(descriptor, lines.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _drop_cut_line(descriptor: int) -> None:
    """Take away the half line that a crash has left at the end."""
    size = os.fstat(descriptor).st_size
    whole = os.pread(descriptor, size, 0).rfind(b"\n") + 1
    if whole < size:
        os.ftruncate(descriptor, whole)


def all_rows(cells: Mapping[str, StoredCell]) -> list[Row]:
    """Return the rows of all cells."""
    return [row for cell in cells.values() for row in cell.rows]


def as_csv(rows: Sequence[Row]) -> str:
    """Return rows as CSV: a column for every factor, then one for every measure."""
    factors = list(dict.fromkeys(name for row in rows for name in row.factors))
    measures = list(dict.fromkeys(name for row in rows for name in row.measures))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*factors, *measures])
    for row in rows:
        found = [row.factors.get(name, "") for name in factors]
        writer.writerow([*found, *(_plain(row.measures.get(name)) for name in measures)])
    return text.getvalue()


def _plain(value: float | None) -> str:
    return "" if value is None else repr(value)


def begin(
    folder: Path,
    identity: Mapping[str, Any],
    facts: Mapping[str, Any],
    session: Mapping[str, Any],
    *,
    resume: bool,
) -> None:
    """Make the folder of a study, or check that it is the same study that goes on.

    Args:
        folder: The folder.
        identity: What the rows are made of: study, data, embeddings, seeds.
        facts: What tables and figures say of the data, so that they can be drawn without them.
        session: This call: versions, machine, date, command.
        resume: Go on with what is there.

    Raises:
        FednerError: There is a study and nobody asked to go on, or it is another one.
    """
    path = folder / STUDY
    held: dict[str, Any] = {"identity": dict(identity), "sessions": []}
    if path.is_file():
        held = json.loads(path.read_text("utf-8"))
        if not resume:
            raise FednerError(
                f"{folder} has a study already",
                "Go on with --resume, or take another --out.",
            )
        check_same(folder, held["identity"], identity)
    elif (folder / ROWS).exists():
        raise FednerError(f"{folder} has rows, but no {STUDY}", "Take another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    before = held.get("inputs", {}).get("repeats", 0)
    held["inputs"] = {**facts, "repeats": max(before, facts["repeats"])}
    held["sessions"].append(dict(session))
    write_text(path, json.dumps(held, indent=2) + "\n")


def check_same(folder: Path, held: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise where a folder holds a study of something else, and say what differs."""
    plain = json.loads(json.dumps(now))
    changed = [key for key in sorted({*held, *plain}) if held.get(key) != plain.get(key)]
    if changed:
        shown = "; ".join(f"{key}: {held.get(key)!r}, now {plain.get(key)!r}" for key in changed)
        raise FednerError(
            f"{folder} holds a study with other inputs ({shown})",
            "Name the same data and settings as before, or take another --out.",
        )


def works_of(folders: Iterable[Path], identity: Mapping[str, Any]) -> dict[str, StoredCell]:
    """Return the trainings of other studies that have the same data and embeddings, by their name.

    Args:
        folders: The folders of those studies.
        identity: What this study is made of; only its name may differ.

    Raises:
        FednerError: A folder is no study, or one of other data.
    """
    found: dict[str, StoredCell] = {}
    for folder in folders:
        other = read_study(folder)["identity"]
        check_same(folder, {**other, "study": ""}, {**identity, "study": ""})
        found |= {cell.work: cell for cell in read_cells(folder).values() if cell.work}
    return found


def taken_over(cell: Cell, held: StoredCell) -> list[Row]:
    """Return the rows of the same training in another study as rows of this one."""
    return [Row({**row.factors, **cell.factors}, row.measures) for row in held.rows]


def read_study(folder: Path) -> dict[str, Any]:
    """Return what `study.json` holds.

    Raises:
        FednerError: There is none.
    """
    path = folder / STUDY
    if not path.is_file():
        raise FednerError(f"{folder} has no {STUDY}", "Name the folder of a study.")
    held: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return held


def kept(cells: Mapping[str, StoredCell], keys: Iterable[str]) -> dict[str, StoredCell]:
    """Return the stored cells among some keys, in the order of the keys."""
    return {key: cells[key] for key in keys if key in cells}
