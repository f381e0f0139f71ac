"""`joining`: its cells, what they need of partners, and earlier points."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from beyond_rehearsal import Rehearsed, figure_named, rehearse, table_named

from fedner.errors import FednerError
from fedner.experiments.joining import study
from fedner.experiments.joining.cells import missing_arms
from fedner.experiments.joining.study import ALL, MIDDLE, NEWCOMERS, CellTask, Point
from fedner.reproduce.bench import Bench
from fedner.reproduce.beyond.earlier import import_points
from fedner.reproduce.beyond.joining import (
    JOINING,
    JOINING_STUDY,
    PARTNERS,
    UNSEEN,
    cell_of,
    newcomer_cells,
    partner_cells,
    partner_tasks,
    points_of,
    seeds_of,
    tasks,
)
from fedner.reproduce.store import begin, read_cells


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(JOINING_STUDY, tmp_path_factory.mktemp("joining"))


def test_a_rehearsal_has_every_table_and_every_curve(rehearsed: Rehearsed) -> None:
    names = [each.name for each in rehearsed.shown.tables]
    assert names == [
        "joining-gains", "joining-newcomers", "joining-arms", "joining-worth", "joining-unseen",
    ]  # fmt: skip
    sizes = [row[0] for row in table_named(rehearsed.shown, "joining-gains").rows]
    assert sizes == ["25", "50", "100", "200", "400", "all"]
    arms = [row[0] for row in table_named(rehearsed.shown, "joining-arms").rows]
    assert len(arms) == 16, "all but local-only itself"
    panels = figure_named(rehearsed.shown, "joining").panels
    assert [len(each.marks) for each in panels] == [7, 7, 7, 7, 5], "BTC-e has no 200 and 400"
    for panel in panels:
        joined, alone = panel.series
        assert all(point is not None for point in joined.points)
        assert [point is None for point in alone.points] == [True] + [False] * (
            len(panel.marks) - 1
        )
    assert not any("missing" in note for note in rehearsed.shown.notes)


def test_every_arm_of_every_newcomer_is_there(rehearsed: Rehearsed) -> None:
    points = points_of(rehearsed.rows)
    assert not any(missing_arms(task, points) for task in tasks(rehearsed.inputs))
    parts = {cell.factors["part"] for cell in rehearsed.cells}
    assert parts == {PARTNERS, JOINING, UNSEEN}


def test_partners_train_for_what_is_missing_alone(rehearsed: Rehearsed) -> None:
    assert partner_cells(rehearsed.inputs, rehearsed.rows) == []
    without = [row for row in rehearsed.rows if row.factors.get("size") != MIDDLE]
    arms = {cell.factors["arm"] for cell in partner_cells(rehearsed.inputs, without)}
    assert {"received", "placebo", "taking part"} <= arms
    few = [CellTask(("ade",), 25, 1)]
    assert [each.name for each in partner_tasks(rehearsed.inputs, few)] == ["received-medical-1-1"]


def test_repeats_are_the_first_seeds_of_the_study(rehearsed: Rehearsed) -> None:
    few, all_ = (replace(rehearsed.inputs, repeats=number) for number in (2, 5))
    assert seeds_of(few) == (1, 2)
    assert seeds_of(all_) == tuple(range(1, 11))
    assert len(tasks(all_)) == len(study.cell_tasks())
    assert {cell.factors["repeat"] for cell in newcomer_cells(few, [])} == {1, 2}


def test_an_emptied_cache_is_filled_again(rehearsed: Rehearsed) -> None:
    task = next(each for each in tasks(rehearsed.inputs) if each.size == 0)
    member = study.member_path(rehearsed.inputs.out / "cache" / "joining", "received", "ade", 1)
    member.unlink()
    again = JOINING_STUDY.run(cell_of(task), Bench(rehearsed.inputs))
    assert member.is_file()
    before = [row for row in rehearsed.rows if row.factors.get("size") == 0]
    assert [row.measures for row in again] == [row.measures for row in before]


def test_without_corpora_it_says_what_to_get(rehearsed: Rehearsed) -> None:
    with pytest.raises(FednerError, match="no corpora"):
        partner_cells(replace(rehearsed.inputs, is_rehearsal=False, root=None), [])


def test_earlier_points_become_whole_cells(rehearsed: Rehearsed, tmp_path: Path) -> None:
    task = CellTask(NEWCOMERS, 25, 1)
    arms = ("described alone", "ELMoNER alone", "local-only", "joined", "averaged", "kept")
    points = [
        Point(newcomer, 25, 1, arm, 50.0, 51.0, "0.004 3", 25)
        for newcomer in task.newcomers
        for arm in arms
    ]
    torn = [Point("ade", ALL, 1, "joined", 50.0)]
    path = tmp_path / "points.jsonl"
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in (*points, *torn)))
    out = tmp_path / "out"
    begin(out, {"study": "joining"}, {"repeats": 1}, {}, resume=False)
    assert import_points(out, path, "an H200") == 1, "a cell without all its arms is run again"
    stored = read_cells(out)
    assert list(stored) == [cell_of(task).key]
    found = points_of(stored[cell_of(task).key].rows)
    assert sorted(map(str, found)) == sorted(map(str, points))
    (tmp_path / "none.jsonl").write_text("{}\n")
    with pytest.raises(FednerError, match="holds no points"):
        import_points(out, tmp_path / "none.jsonl", "")
