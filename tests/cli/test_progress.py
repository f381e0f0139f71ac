"""The lines of a run that nobody watches: which measure, with or without noise, which units."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fedner.cli.output import console
from fedner.cli.progress import LiveProgress, duration
from fedner.federated.record import RoundRecord
from fedner.privacy.events import GaussianRelease
from fedner.privacy.scores import NoisedScores
from fedner.runs.checks import checked
from fedner.runs.simulation import open_sites
from fedner.scoring import Counts, Scores
from fedner.settings import override

TABLES: dict[str, Any] = {
    "model": {"hidden": 4, "filters": 4, "character_filters": 4, "character_dimension": 4},
    "embeddings": {"dimension": 4, "buckets": 16},
    "training": {"rounds": 2, "batch_size": 4},
    "platforms": [{"name": "a", "data": "synthetic:case-reports", "public_size": 12}],
}


def line(loss: float | None, *, is_noised: bool, tmp_path: Any, **privacy: object) -> str:
    settings = checked(override({**TABLES, "privacy": privacy}, ()), tmp_path)
    scores: Scores | NoisedScores = Scores(strict={"X": Counts(1, 1, 1)})
    if is_noised:
        event = GaussianRelease(1.0, 1.0, "patient", 1.0, 12, purpose="statistics")
        scores = NoisedScores(1.0, 1.0, 1.0, 1.0, event)
    record = RoundRecord(2, 0.1, loss, {}, {}, {}, {}, scores={"a": scores})
    with console.capture() as captured:
        told = LiveProgress().callbacks()
        told.begin(open_sites(settings, tmp_path), 2)
        told.round(record)
    return captured.get()


def test_a_round_tells_loss_and_scores(tmp_path: Any) -> None:
    text = line(1.25, is_noised=False, tmp_path=tmp_path)
    assert "12 training sentences" in text
    assert "round 2: loss 1.25, strict F1 a 50.0\n" in text


def test_a_dp_round_tells_no_loss_and_calls_its_scores_noised(tmp_path: Any) -> None:
    private = {
        "mechanism": "unit-local",
        "simulation": True,
        "noise_multiplier": 1.0,
        "unit": "document",
    }
    text = line(None, is_noised=True, tmp_path=tmp_path, **private)
    assert "round 2: noised strict F1 a 50.0\n" in text
    assert "federation of 1 platform, 12 training documents" in text


@pytest.mark.parametrize("mechanism", ["unit-local", "platform"])
def test_sizes_of_platforms_count_sentences(tmp_path: Any, mechanism: str) -> None:
    private = {"mechanism": mechanism, "simulation": True, "noise_multiplier": 1.0}
    text = line(None, is_noised=False, tmp_path=tmp_path, **private)
    assert "12 training sentences" in text


def test_a_round_tells_how_long_the_rest_will_take(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100.0, 130.0, 160.0, 200.0])
    monkeypatch.setattr("fedner.cli.progress.time", SimpleNamespace(monotonic=lambda: next(clock)))
    scores = {"a": Scores(strict={"X": Counts(1, 1, 1)})}
    with console.capture() as captured:
        told = LiveProgress().callbacks()
        told.begin(open_sites(checked(TABLES, tmp_path), tmp_path), 10)
        for number in (5, 6, 10):  # a run that was resumed after round 4
            told.round(RoundRecord(number, 0.1, 1.0, {}, {}, {}, {}, scores=scores))
    lines = [each for each in captured.get().splitlines() if each.startswith("round")]
    assert lines[0].endswith(", 2 min left"), "30 s a round, five more"
    assert lines[1].endswith(", 2 min left"), "30 s a round, four more"
    assert lines[2].endswith("a 50.0")


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "1 s"), (59, "59 s"), (7500, "2 h 5 min")])
def test_durations_are_read_by_people(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_what_is_left_out_is_said_before_training(tmp_path: Any) -> None:
    platform = {
        **TABLES["platforms"][0],
        "labels": ["ADE", "Drug"],
        "label_map": {"Dosage": ""},
        "num_sentences": 60,
    }
    [site] = open_sites(checked({**TABLES, "platforms": [platform]}, tmp_path), tmp_path)
    data = replace(site.data, warnings=("look at this",))
    with console.capture() as captured:
        LiveProgress().callbacks().data([replace(site, data=data)])
    assert re.search(
        r"a: left out of training and test: \d+ Dosage by labels or label_map",
        text := captured.get(),
    )
    assert "warning: a: look at this" in text
