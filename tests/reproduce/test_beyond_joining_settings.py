"""`joining-settings`: every setting of every newcomer has a point; the best of rates is shown."""

from pathlib import Path

import pytest
from beyond_rehearsal import Rehearsed, assert_whole, figure_named, mean_of, rehearse, table_named

from fedner.experiments.joining import study
from fedner.experiments.joining.settings_trial import GRID, NEWCOMERS, PULLS, SIZES, WAYS
from fedner.reproduce.beyond.joining_settings import JOINING_SETTINGS, USUAL, seeds_of, show
from fedner.reproduce.reproduction import Inputs, Row


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(JOINING_SETTINGS, tmp_path_factory.mktemp("settings"), repeats=2)


def test_a_rehearsal_has_every_row_and_every_curve(rehearsed: Rehearsed) -> None:
    assert_whole(rehearsed.shown)
    assert len(table_named(rehearsed.shown, "joining-settings").rows) == 4
    assert len(table_named(rehearsed.shown, "joining-settings-partners").rows) == len(WAYS)
    panels = figure_named(rehearsed.shown, "joining-settings").panels
    assert [(len(each.series), len(each.marks)) for each in panels] == [(2, len(PULLS))] * 2


def test_every_setting_of_every_newcomer_has_a_point(rehearsed: Rehearsed) -> None:
    names = ("newcomer", "partners_rate", "partners_dropout", "size", "repeat")
    found = {
        (*(row.factors[each] for each in names), row.factors["learning_rate"], row.factors["pull"])
        for row in rehearsed.rows
    }
    assert len(found) == len(rehearsed.rows)
    assert found == {
        (newcomer, *way, size, seed, setting.learning_rate, setting.pull)
        for newcomer in NEWCOMERS
        for way in WAYS
        for size in SIZES
        for seed in (101, 102)
        for setting in GRID
    }


def test_newcomers_and_seeds_are_not_those_of_the_study(tmp_path: Path) -> None:
    inputs = Inputs((), "hashed", "none", tmp_path, repeats=JOINING_SETTINGS.repeats)
    assert not set(NEWCOMERS) & set(study.NEWCOMERS)
    assert not set(seeds_of(inputs)) & {*study.SEEDS, *study.MORE_SEEDS}


def test_the_best_learning_rate_stands_for_a_pull(tmp_path: Path) -> None:
    rows = [
        Row(
            {**factors, "newcomer": "ncbi", "size": 25, "repeat": seed, "learning_rate": rate}
            | {"pull": pull},
            {"strict_f1": f1},
        )
        for factors, more in ((USUAL, 0.0), ({"partners_rate": 4e-3, "partners_dropout": 0.3}, 9.0))
        for rate, pull, scores in (
            (0.001, 0, (50.0, 52.0)),
            (0.002, 0, (60.0, 64.0)),
            (0.004, 3, (70.0, 72.0)),
        )
        for seed, f1 in zip((101, 102), (each + more for each in scores), strict=True)
    ]
    shown = show(rows, Inputs((), "hashed", "none", tmp_path))
    first, second, *_ = table_named(shown, "joining-settings").rows
    assert (first[0], mean_of(first[1]), first[2], mean_of(first[3])) == (
        "NCBI-disease, 25", 62.0, None, 71.0,
    )  # fmt: skip
    assert first[-1] == "0.004, pull 3"
    assert second[1:] == (None,) * 7
    by_partners = {row[0]: row for row in table_named(shown, "joining-settings-partners").rows}
    usual = by_partners["0.002, dropout 0.3"]
    assert mean_of(usual[1]) == pytest.approx((50 + 52 + 60 + 64 + 70 + 72) / 6)
    assert usual[2] is None
    assert mean_of(by_partners["0.004, dropout 0.3"][3]) == pytest.approx(mean_of(usual[1]) + 9)
