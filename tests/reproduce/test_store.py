"""The rows of a study on disk: whole cells only, the same study only."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from fedner.errors import FednerError
from fedner.reproduce.reproduction import Cell, Row
from fedner.reproduce.store import (
    ROWS,
    STUDY,
    add_cell,
    all_rows,
    as_csv,
    begin,
    read_cells,
    read_study,
    taken_over,
    works_of,
)

CELL = Cell("a/1", {"model": "a", "repeat": 1}, 2.0, "alone/a/1")
ROWS_OF_CELL = [
    Row({"platform": "x"}, {"f1": 71.25, "epsilon": None}),
    Row({"platform": "y"}, {"f1": 60.5, "epsilon": 3.0}),
]
IDENTITY = {"study": "one", "platforms": {"x": "digest"}, "first_seed": 1}
FACTS: dict[str, Any] = {"platforms": [], "repeats": 2}
SESSION = {"date": "2026-11-17", "command": "fedner reproduce one"}


def begun(folder: Path, study: str = "one", *, resume: bool = False, repeats: int = 2) -> Path:
    identity = {**IDENTITY, "study": study}
    begin(folder, identity, {**FACTS, "repeats": repeats}, SESSION, resume=resume)
    return folder


def test_cells_come_back_as_they_were_stored(tmp_path: Path) -> None:
    add_cell(tmp_path, CELL, ROWS_OF_CELL, 1.5)
    add_cell(tmp_path, Cell("b", {"repeat": 2}), ROWS_OF_CELL[:1], 0.5)
    cells = read_cells(tmp_path)
    assert list(cells) == ["a/1", "b"]
    assert cells["a/1"].seconds == 1.5
    assert cells["a/1"].work == "alone/a/1"
    assert cells["b"].work == ""
    assert cells["a/1"].rows[0].factors == {"model": "a", "repeat": 1, "platform": "x"}
    assert [row.measures["f1"] for row in all_rows(cells)] == [71.25, 60.5, 71.25]


@pytest.mark.parametrize("cut", range(1, 400, 23))
def test_a_cell_that_a_crash_cut_off_is_run_again(tmp_path: Path, cut: int) -> None:
    add_cell(tmp_path, Cell("first", {"repeat": 1}), ROWS_OF_CELL, 1.0)
    before = (tmp_path / ROWS).read_bytes()
    add_cell(tmp_path, CELL, ROWS_OF_CELL, 1.0)
    whole = (tmp_path / ROWS).read_bytes()
    (tmp_path / ROWS).write_bytes(whole[: max(len(before), len(whole) - cut)])
    assert list(read_cells(tmp_path)) == ["first"]
    add_cell(tmp_path, CELL, ROWS_OF_CELL, 2.0)
    cells = read_cells(tmp_path)
    assert list(cells) == ["first", "a/1"]
    assert cells["a/1"].seconds == 2.0
    assert len(cells["a/1"].rows) == 2


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    add_cell(tmp_path, CELL, ROWS_OF_CELL, 1.0)
    path = tmp_path / ROWS
    first, second, _ = path.read_text().split("\n")
    path.write_text(f"{first}\n{second[:-9]}\n{first}\n")
    with pytest.raises(FednerError, match="line 2"):
        read_cells(tmp_path)


def test_a_cell_without_rows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="no rows"):
        add_cell(tmp_path, CELL, [], 1.0)
    assert not (tmp_path / ROWS).exists()


def test_csv_has_a_column_for_every_factor_and_measure() -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(ROWS_OF_CELL))))
    assert lines[0] == {"platform": "x", "f1": "71.25", "epsilon": ""}
    assert float(lines[1]["epsilon"]) == 3.0


def test_a_study_goes_on_only_when_asked_and_only_as_the_same(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(FednerError, match="has a study already"):
        begun(tmp_path)
    with pytest.raises(FednerError, match="'one', now 'two'"):
        begun(tmp_path, "two", resume=True)
    begun(tmp_path, resume=True, repeats=1)
    held = read_study(tmp_path)
    assert len(held["sessions"]) == 2
    assert held["inputs"]["repeats"] == 2  # rows of a second seed are still there


def test_rows_without_a_study_are_refused(tmp_path: Path) -> None:
    add_cell(tmp_path, CELL, ROWS_OF_CELL, 1.0)
    with pytest.raises(FednerError, match=STUDY):
        begun(tmp_path, resume=True)


def test_trainings_are_taken_over_from_a_study_of_the_same_data_only(tmp_path: Path) -> None:
    one, two = begun(tmp_path / "one"), begun(tmp_path / "two", "two")
    add_cell(one, CELL, ROWS_OF_CELL, 4.0)
    works = works_of([one], read_study(two)["identity"])
    assert list(works) == ["alone/a/1"]
    cell = Cell("other", {"way": "alone", "model": "b", "repeat": 1}, 1.0, "alone/a/1")
    rows = taken_over(cell, works["alone/a/1"])
    assert rows[0].factors == {"model": "b", "repeat": 1, "platform": "x", "way": "alone"}
    held = json.loads((two / STUDY).read_text())
    held["identity"]["platforms"] = {"x": "another digest"}
    with pytest.raises(FednerError, match="another digest"):
        works_of([one], held["identity"])


def test_a_folder_that_is_no_study_is_named(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match=f"has no {STUDY}"):
        read_study(tmp_path)
