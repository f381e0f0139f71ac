"""The gain of the demo over seeds: every seed is shown, and what is finished is not run again."""

from pathlib import Path

import pytest

from fedner.experiments import demo_gain
from fedner.experiments.demo_gain import Gain, GainJob, run, table
from few_settings import few_settings

FOUND = [
    Gain(11, 30.0, 20.0, 45.0, 45.0, "joined", 80.0),
    Gain(12, 30.0, 40.0, 35.0, 40.0, "local-only", 90.0),
    Gain(13, 30.0, 20.0, 40.0, 38.0, "average", 85.0),
]


def test_the_table_has_every_seed_the_mean_and_the_worst() -> None:
    told = table(FOUND)
    assert "| 11 | 30.0 | 20.0 | 45.0 | 45.0 (joined) | +25.0 |" in told
    assert "| 12 | 30.0 | 40.0 | 35.0 | 40.0 (local-only) | +0.0 |" in told
    assert "kept against alone: +14.3 (95 % interval" in told
    assert "worst seed +0.0" in told
    assert "joined against alone: +13.3 (95 % interval" in told
    assert "worst seed -5.0" in told
    assert "at most 90 s" in told


def test_a_finished_seed_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = GainJob(901, tmp_path, num_sentences=40, rounds=2, epochs=1)
    with few_settings():
        (first,) = run(job)
    assert first.seed == 901
    assert 0 <= first.alone <= 100
    assert first.kept == {"joined": first.joined, "local-only": first.alone}.get(
        first.method, first.kept
    )
    monkeypatch.setattr(demo_gain, "train_together", None)
    assert run(job) == [first]
