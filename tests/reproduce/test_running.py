"""Running a study: stages, side by side, stopped at any moment and taken up again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.reproduce.plan import Pace, Plan, planned
from fedner.reproduce.reproduction import Cell, Inputs, Reproduction, Row, Rows, Shown
from fedner.reproduce.running import Listener, Run, first_plan, run_study
from fedner.reproduce.store import StoredCell, add_cell, read_cells


def first(inputs: Inputs, _rows: Rows) -> list[Cell]:
    return [Cell(f"probe/{n}", {"way": "probe", "n": n, "repeat": 0}, float(n)) for n in (1, 2)]


def second(inputs: Inputs, rows: Rows) -> list[Cell]:
    best = max(rows, key=lambda row: row.measures["f1"] or 0).factors["n"]
    return [
        Cell(f"row/{best}/{seed}", {"way": "row", "n": best, "repeat": seed}, 4.0, f"work/{seed}")
        for seed in inputs.seeds
    ]


def run(cell: Cell, _bench: object) -> list[Row]:
    return [Row({}, {"f1": 10.0 * int(cell.factors["n"]) + int(cell.factors["repeat"])})]


def broken(cell: Cell, _bench: object) -> Sequence[Row]:
    if cell.factors["repeat"] == 2:
        raise FednerError("no such thing", "Look again.")
    return run(cell, _bench)


STUDY = Reproduction(
    "a-study",
    "beyond both papers",
    "A study",
    "own",
    (),
    (first, second),
    run,
    lambda _rows, _inputs: Shown(),
)


def inputs_at(out: Path, repeats: int = 3) -> Inputs:
    return Inputs((), "hashed", "none", out, repeats=repeats)


def test_a_later_stage_sees_the_rows_of_those_before_it(tmp_path: Path) -> None:
    plans: list[Plan] = []
    rows = run_study(Run(STUDY, inputs_at(tmp_path)), Listener(plan=plans.append))
    assert [row.measures["f1"] for row in rows] == [20.0, 10.0, 21.0, 22.0, 23.0]
    assert [(each.stage, each.num_cells, each.num_stored) for each in plans] == [
        (1, 2, 0),
        (2, 3, 0),
    ]


def test_what_is_stored_is_not_run_again(tmp_path: Path) -> None:
    run_study(Run(STUDY, inputs_at(tmp_path, 2)))
    again = replace(STUDY, run=broken)
    with pytest.raises(FednerError, match="no such thing"):  # nothing but the new repeat is run
        run_study(Run(replace(again, run=_refused), inputs_at(tmp_path, 3)))
    assert len(run_study(Run(again, inputs_at(tmp_path, 3)))) == 5


def _refused(cell: Cell, _bench: object) -> Sequence[Row]:
    raise FednerError(f"no such thing as {cell.key}")


def test_a_cell_that_fails_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match=r"a-study, row/2/2: no such thing") as raised:
        run_study(Run(replace(STUDY, run=broken), inputs_at(tmp_path)))
    assert raised.value.hint == "Look again."
    assert list(read_cells(tmp_path)) == ["probe/2", "probe/1", "row/2/1"]


def test_no_cell_begins_when_the_time_is_over(tmp_path: Path) -> None:
    rows = run_study(Run(STUDY, inputs_at(tmp_path), seconds=0.0, begun=time.monotonic() - 1))
    assert rows == []


def test_trainings_of_another_study_are_taken_over(tmp_path: Path) -> None:
    held = StoredCell((Row({"platform": "x", "n": 9}, {"f1": 99.0}),), 5.0, "work/2")
    rows = run_study(Run(STUDY, inputs_at(tmp_path), works={"work/2": held}))
    taken = [row for row in rows if row.measures["f1"] == 99.0]
    assert [row.factors["repeat"] for row in taken] == [2]
    assert taken[0].factors["n"] == 2  # the cell's own factors go before


def test_cells_of_one_name_are_an_error(tmp_path: Path) -> None:
    twice = replace(STUDY, stages=(lambda inputs, rows: first(inputs, rows) * 2,))
    with pytest.raises(FednerError, match="probe/1"):
        run_study(Run(twice, inputs_at(tmp_path)))


def test_the_plan_comes_from_measured_cells_where_there_are_any(tmp_path: Path) -> None:
    cells = [Cell(f"{n}", {"repeat": n}, 2.0) for n in range(4)]
    pace = Pace("cpu", 2)
    fresh = planned(1, 1, cells, cells, {}, pace)
    assert not fresh.is_measured
    stored = {"0": StoredCell((), 10.0)}
    known = planned(1, 1, cells, cells[1:], stored, pace)
    assert known.is_measured
    assert known.seconds == pytest.approx(3 * 10.0 / 2)
    elsewhere = planned(1, 1, cells, cells[1:], {"0": StoredCell((), 10.0, device="cuda")}, pace)
    assert not elsewhere.is_measured  # a GPU's seconds say nothing of a processor's
    assert elsewhere.seconds == pytest.approx(fresh.seconds * 3 / 4)
    add_cell(tmp_path, first(inputs_at(tmp_path), [])[0], [Row({}, {"f1": 1.0})], 1.0)
    assert first_plan(Run(STUDY, inputs_at(tmp_path))).num_stored == 1


def test_where_a_cell_was_trained_is_stored(tmp_path: Path) -> None:
    run_study(Run(STUDY, inputs_at(tmp_path)))
    assert {each.device for each in read_cells(tmp_path).values()} == {"cpu"}


def command(out: Path, *more: str) -> list[str]:
    options = ("fedner-figure4", "--built-in", "--out", str(out), "--json")
    return [sys.executable, "-m", "fedner", "reproduce", *options, *more]


def children_of(process: int) -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = each.read_text().rpartition(")")
        except OSError:
            continue
        if int(rest.split()[1]) == process:
            found.append(int(name.split()[0]))
    return found


def measures_of(out: Path) -> dict[str, list[str]]:
    return {
        key: sorted(json.dumps(row.measures) for row in cell.rows)
        for key, cell in read_cells(out).items()
    }


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_study_that_was_killed_goes_on_and_comes_to_the_same_rows(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    with subprocess.Popen(command(killed, "--jobs", "2"), stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not read_cells(killed):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        workers = children_of(process.pid)
        process.send_signal(signal.SIGKILL)
    assert 1 <= len(read_cells(killed)) < 5
    for out, more in ((killed, ("--jobs", "2", "--resume")), (whole, ("--jobs", "1"))):
        done = subprocess.run(command(out, *more), capture_output=True, check=True)
        assert json.loads(done.stdout)["study"] == "fedner-figure4"
    assert len(measures_of(whole)) == 5
    assert measures_of(killed) == measures_of(whole)
    assert not [each for each in workers if _is_alive(each)]  # nobody reads their rows


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
