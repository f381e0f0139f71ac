"""Noised scores: what one unit can move, the noise itself, and the form in which they travel."""

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.privacy.entropy import SeededSimulation, SystemEntropy
from fedner.privacy.events import GaussianRelease
from fedner.privacy.sampling import Units
from fedner.privacy.scores import NoisedScores, noised_scores
from fedner.scoring import Counts

EVENT = GaussianRelease(3.0, 1.0, "sentence", 2.0, 100, purpose="statistics")
# A clip far below every norm: the noise is as nothing beside the counts, so that sums can be read.
QUIET = replace(EVENT, noise_multiplier=1e-9)
SOURCE = SeededSimulation(3, ("scores",))


def units_of_sizes(sizes: list[int]) -> Units:
    members, start = [], 0
    for size in sizes:
        members.append(tuple(range(start, start + size)))
        start += size
    return Units("patient", tuple(members))


def vector(scores: NoisedScores) -> torch.Tensor:
    return torch.tensor([scores.tp, scores.fp, scores.fn], dtype=torch.float64)


counts = st.builds(Counts, tp=st.integers(0, 500), fp=st.integers(0, 500), fn=st.integers(0, 500))
patients = st.lists(st.lists(counts, min_size=1, max_size=4), min_size=1, max_size=6)


@settings(deadline=None)  # the first call loads what the noise needs
@given(patients, st.integers(0, 5), st.floats(0.1, 1000.0))
def test_one_unit_moves_the_sum_by_the_clip_at_most(
    data: list[list[Counts]], chosen: int, clip: float
) -> None:
    """All sentences of a patient gone: the sum moves by their clipped counts, never by more."""
    event = replace(QUIET, max_norm=clip)

    def released(of: list[list[Counts]]) -> torch.Tensor:
        sentences = [each for unit in of for each in unit]
        found = noised_scores(sentences, units_of_sizes([len(unit) for unit in of]), event, SOURCE)
        return vector(found)

    gone = chosen % len(data)
    moved = released(data) - released([unit for at, unit in enumerate(data) if at != gone])
    assert float(moved.norm()) <= clip * (1 + 1e-6)
    own = sum(data[gone], Counts())
    expected = torch.tensor([own.tp, own.fp, own.fn], dtype=torch.float64)
    size = float(expected.norm())
    factor = 1.0 if size <= clip else clip / size
    torch.testing.assert_close(moved, expected * factor, rtol=1e-5, atol=1e-5 * clip)


def test_without_clipping_by_unit_the_bound_would_not_hold() -> None:
    """The same sentences as units of their own move the sum further: units are clipped whole."""
    sentences = [Counts(3, 0, 0), Counts(3, 0, 0)]
    whole = noised_scores(sentences, units_of_sizes([2]), QUIET, SOURCE)
    apart = noised_scores(sentences, units_of_sizes([1, 1]), QUIET, SOURCE)
    assert whole.tp == pytest.approx(2.0, abs=1e-6)
    assert apart.tp == pytest.approx(4.0, abs=1e-6)


@pytest.mark.parametrize("source", [SystemEntropy(), SOURCE])
def test_the_noise_is_that_of_the_event(source: SystemEntropy | SeededSimulation) -> None:
    drawn = torch.cat(
        [
            vector(noised_scores([], units_of_sizes([]), EVENT, source.at("round", at)))
            for at in range(2_000)
        ]
    )
    assert noised_scores([], units_of_sizes([]), EVENT, source).standard_deviation == 6.0

    def accepts(sigma: float) -> bool:
        ratio = float(drawn.square().mean()) / sigma**2
        return abs(ratio - 1) < 6 * math.sqrt(2 / drawn.numel())

    assert accepts(6.0)
    assert not accepts(4.0)
    assert not accepts(9.0)


def test_measures_are_those_of_the_noised_counts() -> None:
    scores = NoisedScores(60.0, 20.0, 40.0, 6.0, EVENT)
    assert scores.precision == 0.75
    assert scores.recall == 0.6
    assert scores.f1 == pytest.approx(2 * 60 / 180)
    below = NoisedScores(-3.0, -2.0, 5.0, 6.0, EVENT)
    assert (below.precision, below.recall, below.f1) == (0.0, 0.0, 0.0)


def test_they_travel_as_json_and_are_called_noised() -> None:
    scores = NoisedScores(60.25, -20.5, 1 / 3, 6.0, EVENT)
    record = json.loads(json.dumps(scores.as_dict()))
    assert NoisedScores.from_dict(record) == scores
    assert record["noised"]["event"]["purpose"] == "statistics"
    assert record["strict"]["micro"]["f1"] == scores.f1
    for broken in (
        {**record, "noised": {}},
        {**record, "strict": {"micro": {"tp": float("nan"), "fp": 0, "fn": 0}}},
        {"strict": record["strict"]},
    ):
        with pytest.raises(FednerError, match="noised scores"):
            NoisedScores.from_dict(broken)


@pytest.mark.parametrize(
    "event",
    [
        replace(EVENT, purpose="training"),
        replace(EVENT, sampling_probability=0.5),
        replace(EVENT, steps=2),
    ],
)
def test_another_event_is_refused(event: GaussianRelease) -> None:
    with pytest.raises(FednerError, match="one release over all units"):
        noised_scores([Counts()], units_of_sizes([1]), event, SOURCE)


@pytest.mark.parametrize("sizes", [[1], [2, 2], []])
def test_every_sentence_belongs_to_one_unit(sizes: list[int]) -> None:
    with pytest.raises(FednerError, match="each of the 3 sentences once"):
        noised_scores([Counts()] * 3, units_of_sizes(sizes), EVENT, SOURCE)
