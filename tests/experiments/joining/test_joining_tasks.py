"""What the real study consists of: which cells, which arms, and the partners that they need."""

from collections import Counter

import pytest

from fedner.experiments.joining import cells, study
from fedner.experiments.joining.arms import Trained
from fedner.experiments.joining.cells import MAIN_ARMS
from fedner.experiments.joining.kinds import DESCRIBED, PUBLISHED, Kind
from fedner.experiments.joining.study import ALL, MORE_SEEDS, SEEDS, CellTask, Setting
from fedner.experiments.joining.world import World


def test_the_placebo_has_all_ten_seeds() -> None:
    found = [each.seeds for each in study.partner_tasks() if each.arm == "placebo"]
    assert found == [SEEDS, SEEDS, MORE_SEEDS, MORE_SEEDS]
    for seed in (*SEEDS, *MORE_SEEDS):
        assert "placebo" in cells.arms_of(CellTask(("ade",), study.MIDDLE, seed))
    assert "fresh head" not in cells.arms_of(CellTask(("ade",), study.MIDDLE, 6))


def test_every_cell_has_the_partners_that_it_needs() -> None:
    trained = {(task.arm, seed) for task in study.partner_tasks() for seed in task.seeds}
    renamed = {"joined": "received", "fresh head": "received", "weighting sqrt-size": "received"}
    for task in study.cell_tasks():
        assert ("received", task.seed) in trained
        for arm in set(cells.arms_of(task)) - (set(MAIN_ARMS) - {"joined"}):
            assert (renamed.get(arm, arm), task.seed) in trained, (task, arm)


def test_all_cells_of_the_real_study() -> None:
    found = Counter((task.size, name) for task in study.cell_tasks() for name in task.newcomers)
    for name in study.NEWCOMERS:
        wanted = {0: 5, 25: 5, 50: 5, study.MIDDLE: 10, 200: 5, 400: 5, ALL: 5}
        if name == "btc-e":
            wanted[200] = wanted[400] = 0
        assert {size: found[size, name] for size in wanted} == wanted


def test_every_grid_has_six_settings() -> None:
    """Six settings each, as the issue asks, and no setting twice."""
    for grid in (
        study.JOINED_GRID,
        study.FRESH_GRID,
        study.DESCRIBED_GRID,
        study.PUBLISHED_GRID,
    ):
        assert len(grid) == len(set(grid)) == 6


def chosen(kind: Kind, selection: float, right: int) -> cells._Chosen:
    """Return a tagger with `right` of 100 entities on the test part."""
    return cells._Chosen(kind, Setting(0.01), selection, (), Trained({}, (right, 100, 100)))


@pytest.mark.parametrize(
    ("selections", "kept"),
    [
        ((40.0, 50.0, 60.0, 55.0), "joined"),
        ((40.0, 50.0, 45.0, 55.0), "averaged"),
        ((70.0, 50.0, 45.0, 55.0), "local-only"),
        ((40.0, 50.0, 50.0, 50.0), "joined"),
        ((40.0, 50.0, 45.0, 50.0), "averaged"),
    ],
)
def test_what_is_kept_is_the_best_by_cross_validation(
    small: World,
    monkeypatch: pytest.MonkeyPatch,
    selections: tuple[float, float, float, float],
    kept: str,
) -> None:
    """The test scores rise the other way: they have no say."""
    monkeypatch.setattr(cells, "_averaged", lambda *_given: (selections[3], 30.0))
    described, published, joined = (
        chosen(kind, selection, right)
        for kind, selection, right in zip(
            (DESCRIBED, PUBLISHED, DESCRIBED), selections, (20, 10, 5), strict=False
        )
    )
    task = CellTask(("ade",), 7, 1)
    found = {
        each.arm: each
        for each in cells._main_points(small, task, "ade", described, published, joined)
    }
    assert tuple(found) == MAIN_ARMS
    alone = "described alone" if selections[0] > selections[1] else "ELMoNER alone"
    assert found["local-only"].f1 == found[alone].f1
    assert found["kept"].setting == kept
    assert found["kept"].f1 == found[kept].f1
    assert found["kept"].selection == max(selections)
    assert {each.sentences for each in found.values()} == {7}
    assert found["joined"].setting == "described head 0.01 0"
