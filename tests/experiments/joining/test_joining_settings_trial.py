"""The trial of settings, tiny: a point of every setting and seed, and the best stand first."""

import pytest
import tiny_study

from fedner.experiments.joining import settings_trial, study
from fedner.experiments.joining.settings_trial import Partners, SettingPoint
from fedner.experiments.joining.study import Setting


def test_newcomers_and_seeds_are_not_those_of_the_study() -> None:
    assert not set(settings_trial.NEWCOMERS) & set(study.NEWCOMERS)
    assert not set(settings_trial.SEEDS) & {*study.SEEDS, *study.MORE_SEEDS}


def test_a_trial_scores_all_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_study.shrink(monkeypatch)
    monkeypatch.setattr(settings_trial, "SIZES", (6,))
    monkeypatch.setattr(settings_trial, "SEEDS", (1, 2))
    monkeypatch.setattr(settings_trial, "GRID", (Setting(0.01), Setting(0.02, 1.0)))
    monkeypatch.setattr(settings_trial, "schedule", tiny_study.schedule)
    found = settings_trial.run_trial(Partners("ade", steps=2), tiny_study.tiny_world())
    assert {(each.size, each.seed, each.learning_rate, each.pull) for each in found} == {
        (6, seed, *setting) for seed in (1, 2) for setting in ((0.01, 0.0), (0.02, 1.0))
    }
    assert all(0 <= each.f1 <= 100 for each in found)


def test_the_best_setting_of_a_newcomer_stands_first() -> None:
    points = [
        SettingPoint("ncbi", 0.002, 0.3, 25, seed, rate, 0.0, score)
        for rate, score in ((0.001, 50.0), (0.002, 60.0))
        for seed in (1, 2)
    ]
    lines = settings_trial.table(points).splitlines()
    assert lines[2] == "| ncbi | 25 | 0.002 | 0.3 | 0.002 | 0 | 60.0 | 2 |"
    assert lines[3].endswith("| 50.0 | 2 |")
