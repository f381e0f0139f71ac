"""`dp-settings`: every way to train has its row, with the best of its learning rates."""

from pathlib import Path

import pytest
from beyond_rehearsal import Rehearsed, assert_whole, mean_of, rehearse, table_named

from fedner.experiments.joining.private_trial import SPLIT, TRIALS
from fedner.reproduce.privacy_utility import PRIVACY_UTILITY
from fedner.reproduce.privacy_utility.settings_trial import DP_SETTINGS, cells, show
from fedner.reproduce.reproduction import Inputs, Row


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(DP_SETTINGS, tmp_path_factory.mktemp("dp-settings"))


def test_a_rehearsal_has_a_row_of_every_way_to_train(rehearsed: Rehearsed) -> None:
    assert_whole(rehearsed.shown)
    assert sum(len(each.rows) for each in rehearsed.shown.tables) == len(TRIALS)
    for trial in TRIALS:
        own = [row for row in rehearsed.rows if row.factors["trial"] == trial.name]
        rates = tuple(row.factors["learning_rate"] for row in own)
        noises = {row.measures["noise_multiplier"] for row in own}
        assert rates == (trial.learning_rates if trial.epochs else (0.002,))
        assert all(noises) if trial.epochs else noises == {0.0}


def test_without_noise_there_is_one_seed(tmp_path: Path) -> None:
    inputs = Inputs((), "hashed", "none", tmp_path, repeats=2, first_seed=4, is_rehearsal=True)
    plain = {each.name for each in TRIALS if not each.epochs}
    found = [(str(each.factors["trial"]), each.factors["repeat"]) for each in cells(inputs, [])]
    assert found == [(each.name, 4) for each in TRIALS] + [
        (each.name, 5) for each in TRIALS if each.epochs
    ]
    assert plain
    assert len(found) == len({each.key for each in cells(inputs, [])})


def test_the_split_is_none_of_the_study() -> None:
    assert SPLIT not in range(1, PRIVACY_UTILITY.repeats + 1)


def test_the_best_learning_rate_stands_for_a_way_to_train(tmp_path: Path) -> None:
    name = TRIALS[0].name
    scores = {0.001: (50.0, 58.0), 0.002: (55.0, 57.0)}
    rows = [
        Row({"trial": name, "repeat": seed, "learning_rate": rate}, {"strict_f1": f1})
        for rate, both in scores.items()
        for seed, f1 in enumerate(both, 1)
    ]
    shown = show(rows, Inputs((), "hashed", "none", tmp_path))
    first, second, *_ = table_named(shown, "dp-settings-medical").rows
    assert (mean_of(first[2]), first[3]) == (56.0, "0.002")
    assert second[2:] == (None, None)
