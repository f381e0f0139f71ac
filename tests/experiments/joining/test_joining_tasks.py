"""What the real study consists of: which cells, which arms, and the partners that they need."""

from collections import Counter

from fedner.experiments.joining import cells, study
from fedner.experiments.joining.cells import MAIN_ARMS
from fedner.experiments.joining.study import ALL, MORE_SEEDS, SEEDS, CellTask


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
