"""Three platforms over FLARE come to the bits of the same study in one process."""

import json
from pathlib import Path

import pytest
from live import (
    NAMES,
    RUN,
    Live,
    assert_same_tensors,
    live,
    losses,
    reference,
    tiny_settings,
    until,
)

pytestmark = pytest.mark.deployment


def test_same_tensors_records_and_results_at_home(tmp_path: Path) -> None:
    training = {"rounds": 4, "batch_size": 16, "evaluate_every": 2}
    training |= {"baselines": ["local-only"], "baseline_epochs": 2}
    settings = tiny_settings(training=training)
    with live(tmp_path, settings) as federation:
        federation.start()
        federation.wait_connected()
        federation.submit()
        jobs = federation.wait_done()
        assert len(jobs) == 1
        expected = reference(federation, tmp_path / "reference")
        assert_same_tensors(federation, expected)
        run = federation.homes.server.runs / RUN
        assert losses(run) == losses(expected)
        _same_reports(run, expected)
        _results_stay_at_home(federation, run)
        until(lambda: not any(map(federation.job_pids, NAMES)), 30, "the jobs' processes ended")


def _same_reports(run: Path, expected: Path) -> None:
    found, other = (
        json.loads((each / "score_reports.json").read_text()) for each in (run, expected)
    )
    assert found | {"seconds": 0} == other | {"seconds": 0}


def _results_stay_at_home(federation: Live, run: Path) -> None:
    for home in federation.homes.platforms.values():
        own = home.runs / RUN
        for name in ("scores.json", "MODEL_CARD.md", "report.html", "disclosure.json"):
            assert (own / name).is_file()
        assert (own / "taggers" / "local-only").exists()
    assert not list(run.rglob("taggers"))
    assert not list(run.rglob("MODEL_CARD.md"))
