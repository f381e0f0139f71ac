"""Intervals and tests: coverage, symmetry, the level of the test, t against tables and scipy."""

import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from fedner.errors import FednerError
from fedner.scoring import (
    Counts,
    RelaxedCounts,
    bootstrap_interval,
    mean_interval,
    paired_means,
    paired_test,
)
from fedner.scoring.seed_means import t_cdf, t_quantile

# A population of sentences; its F1 is 2 tp / (2 tp + fp + fn) of the mean counts.
POPULATION = [Counts(0, 0, 0), Counts(1, 0, 0), Counts(2, 1, 0), Counts(1, 1, 1), Counts(0, 1, 2)]
SHARES = (0.4, 0.25, 0.15, 0.12, 0.08)


def draw(rng: np.random.Generator, size: int) -> list[Counts]:
    return [POPULATION[at] for at in rng.choice(len(POPULATION), size=size, p=SHARES)]


def true_f1() -> float:
    tp, fp, fn = (
        sum(share * getattr(each, name) for share, each in zip(SHARES, POPULATION, strict=True))
        for name in ("tp", "fp", "fn")
    )
    return 2 * tp / (2 * tp + fp + fn)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    truth, trials = true_f1(), 400
    covered = {0.95: 0, 0.6: 0}
    for trial in range(trials):
        units = draw(rng, 150)
        for confidence in covered:
            found = bootstrap_interval(units, seed=trial, num_resamples=400, confidence=confidence)
            covered[confidence] += found.low <= truth <= found.high
    # Three standard errors of 400 trials, and one point for what a percentile interval falls short.
    assert 0.91 <= covered[0.95] / trials <= 0.985
    assert 0.51 <= covered[0.6] / trials <= 0.68


def test_drawing_kinds_is_drawing_units() -> None:
    units = draw(np.random.default_rng(1), 60)
    rng = random.Random(3)
    one_by_one = sorted(sum(rng.choices(units, k=len(units)), Counts()).f1 for _ in range(4_000))
    found = bootstrap_interval(units, seed=0, num_resamples=4_000)
    assert found.value == pytest.approx(sum(units, Counts()).f1)
    assert found.low == pytest.approx(one_by_one[100], abs=0.01)
    assert found.high == pytest.approx(one_by_one[3_900], abs=0.01)


def test_interval_is_seeded_and_blind_to_order() -> None:
    units = draw(np.random.default_rng(2), 80)
    one = bootstrap_interval(units, seed=4)
    assert bootstrap_interval(units[::-1], seed=4) == one
    assert bootstrap_interval(units, seed=5) != one
    assert one.low < one.value < one.high


def test_relaxed_counts_have_intervals_too() -> None:
    units = [RelaxedCounts(3, 2, 2, 2), RelaxedCounts(1, 0, 2, 0), RelaxedCounts(1, 1, 1, 1)] * 30
    found = bootstrap_interval(units, seed=1)
    assert found.value == pytest.approx(sum(units, RelaxedCounts()).f1)
    assert found.low < found.value < found.high


def test_tagger_that_finds_nothing() -> None:
    found = bootstrap_interval([Counts(fn=1), Counts()], seed=1)
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_many_units_in_little_memory() -> None:
    rng = np.random.default_rng(0)
    units = [Counts(*row) for row in rng.integers(0, 30, size=(20_000, 3)).tolist()]
    found = bootstrap_interval(units, seed=0, num_resamples=500)
    assert found.high - found.low < 0.01


def tagger(rng: np.random.Generator, quality: float, mentions: list[int]) -> list[Counts]:
    right = rng.binomial(mentions, quality).tolist()
    return [Counts(tp, all_ - tp, all_ - tp) for tp, all_ in zip(right, mentions, strict=True)]


def test_identical_taggers() -> None:
    units = draw(np.random.default_rng(3), 50)
    found = paired_test(units, list(units), seed=1)
    assert found.p_value == 1
    assert (found.difference.low, found.difference.value, found.difference.high) == (0, 0, 0)


def test_clearly_better_tagger() -> None:
    rng = np.random.default_rng(4)
    mentions = rng.integers(0, 4, size=300).tolist()
    worse, better = tagger(rng, 0.6, mentions), tagger(rng, 0.8, mentions)
    found = paired_test(worse, better, seed=1)
    assert found.p_value == pytest.approx(1 / 2001)
    assert 0 < found.difference.low < found.difference.value < found.difference.high
    assert found.difference.value == pytest.approx(found.second - found.first)


unit_lists = st.lists(
    st.tuples(*[st.builds(Counts, *[st.integers(0, 3)] * 3)] * 2), min_size=1, max_size=20
)


@settings(max_examples=50)
@given(unit_lists, st.booleans())
def test_exchanging_the_taggers_only_changes_the_sign(
    pairs: list[tuple[Counts, Counts]], mirrored: bool
) -> None:
    if mirrored:  # the same pairs either way round: nothing says which tagger comes first
        pairs = pairs + [(b, a) for a, b in pairs]
    first, second = (list(side) for side in zip(*pairs, strict=True))
    one = paired_test(first, second, seed=2, num_resamples=200)
    other = paired_test(second, first, seed=2, num_resamples=200)
    assert one.p_value == other.p_value
    assert (one.first, one.second) == (other.second, other.first)
    assert one.difference.value == -other.difference.value
    assert one.difference.low == pytest.approx(-other.difference.high)
    assert one.difference.high == pytest.approx(-other.difference.low)


def test_equal_taggers_are_told_apart_as_seldom_as_promised() -> None:
    rng = np.random.default_rng(6)
    mentions = rng.integers(0, 4, size=120).tolist()
    p_values = [
        paired_test(
            tagger(rng, 0.7, mentions), tagger(rng, 0.7, mentions), seed=trial, num_resamples=300
        ).p_value
        for trial in range(400)
    ]
    assert 0.02 <= np.mean([p <= 0.05 for p in p_values]) <= 0.085
    assert 0.42 <= np.mean([p <= 0.5 for p in p_values]) <= 0.58


def test_randomisation_equals_enumeration() -> None:
    first = [Counts(1, 0, 0), Counts(0, 1, 1), Counts(2, 1, 0), Counts(0, 0, 1), Counts(1, 1, 1)]
    second = [Counts(1, 1, 0), Counts(1, 0, 0), Counts(2, 0, 0), Counts(1, 0, 0), Counts(1, 0, 1)]
    observed = abs(sum(second, Counts()).f1 - sum(first, Counts()).f1)
    hits = 0
    for code in range(2**5):
        pairs = [
            (b, a) if code >> at & 1 else (a, b)
            for at, (a, b) in enumerate(zip(first, second, strict=True))
        ]
        one, other = (sum(side, Counts()) for side in zip(*pairs, strict=True))
        hits += abs(other.f1 - one.f1) >= observed - 1e-12
    found = paired_test(first, second, seed=0, num_resamples=20_000)
    assert found.p_value == pytest.approx(hits / 2**5, abs=0.015)


def test_impossible_requests_are_refused() -> None:
    units = [Counts(1)]
    with pytest.raises(FednerError, match="no units"):
        bootstrap_interval([], seed=1)
    with pytest.raises(FednerError, match="confidence is 95"):
        bootstrap_interval(units, seed=1, confidence=95)
    with pytest.raises(FednerError, match="num_resamples is 0"):
        bootstrap_interval(units, seed=1, num_resamples=0)
    with pytest.raises(FednerError, match="1 units of the first tagger, 2 of the second"):
        paired_test(units, units * 2, seed=1)


# ------------------------------------------------------------- means over seeds


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [  # the usual printed tables
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 4, 2.776),
        (0.975, 9, 2.262),
        (0.975, 30, 2.042),
        (0.95, 5, 2.015),
        (0.995, 10, 3.169),
        (0.9995, 3, 12.924),
    ],
)
def test_t_quantiles_of_the_tables(probability: float, degrees: int, expected: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(expected, abs=5e-4)
    assert t_quantile(1 - probability, degrees) == pytest.approx(-expected, abs=5e-4)


@given(st.floats(0.001, 0.999), st.integers(1, 500))
def test_t_equals_scipy(probability: float, degrees: int) -> None:
    found = t_quantile(probability, degrees)
    assert found == pytest.approx(stats.t.ppf(probability, degrees), rel=1e-8, abs=1e-9)
    assert t_cdf(found, degrees) == pytest.approx(probability, rel=1e-9)


def test_mean_interval_of_known_values() -> None:
    found = mean_interval([70.1, 70.9, 71.1])
    # mean 70.7, deviation 0.52915, t 4.30265: half width 1.31448
    assert (found.value, found.low, found.high) == pytest.approx((70.7, 69.38552, 72.01448))
    flat = mean_interval([0.5, 0.5])
    assert (flat.value, flat.low, flat.high) == (0.5, 0.5, 0.5)


@given(st.lists(st.tuples(*[st.floats(0, 1)] * 2), min_size=2, max_size=10))
def test_paired_means_equal_scipy(pairs: list[tuple[float, float]]) -> None:
    first, second = (list(side) for side in zip(*pairs, strict=True))
    differences = [b - a for a, b in pairs]
    assume(max(differences) - min(differences) > 1e-6)  # scipy warns of lost digits
    found = paired_means(first, second)
    expected = stats.ttest_rel(second, first)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    interval = expected.confidence_interval(0.95)
    assert (found.difference.low, found.difference.high) == pytest.approx(interval, abs=1e-9)


def test_differences_without_spread() -> None:
    assert paired_means([1.0, 2.0], [1.0, 2.0]).p_value == 1
    assert paired_means([1.0, 2.0], [2.0, 3.0]).p_value == 0


@pytest.mark.parametrize("values", [[], [0.5], [0.5, float("nan")], [0.5, float("inf")]])
def test_too_few_or_broken_values_are_refused(values: list[float]) -> None:
    with pytest.raises(FednerError, match="at least two finite values"):
        mean_interval(values)


def test_unpaired_runs_are_refused() -> None:
    with pytest.raises(FednerError, match="2 runs of the first, 3 of the second"):
        paired_means([1, 2], [1, 2, 3])


def test_a_seed_gives_the_same_interval_in_years_to_come() -> None:
    first = [Counts(tp=at % 3, fp=at % 2, fn=(at + 1) % 2) for at in range(12)]
    second = [Counts(tp=(at + 1) % 3, fp=0, fn=at % 2) for at in range(12)]
    interval = bootstrap_interval(first, seed=4, num_resamples=200)
    assert (interval.low, interval.high) == pytest.approx((0.5375, 0.7394021739))
    found = paired_test(first, second, seed=4, num_resamples=200)
    ends = (found.difference.low, found.difference.high)
    assert ends == pytest.approx((-0.0435817805, 0.3233115983))
    assert found.p_value == pytest.approx(37 / 201)


@pytest.mark.parametrize("confidence", [-0.1, 0.0, 1.0, 1.5])
def test_a_confidence_that_is_no_share_is_refused(confidence: float) -> None:
    units = [Counts(tp=1), Counts(fp=1)]
    with pytest.raises(FednerError, match=f"confidence is {confidence}; expected a share"):
        bootstrap_interval(units, seed=1, confidence=confidence)
    with pytest.raises(FednerError, match=f"confidence is {confidence}; expected a share"):
        paired_test(units, units, seed=1, confidence=confidence)


@pytest.mark.parametrize(
    ("probability", "degrees"), [(0.0, 3.0), (1.0, 3.0), (1.5, 3.0), (-0.5, 3.0), (0.9, 0.0)]
)
def test_a_quantile_that_does_not_exist_is_refused(probability: float, degrees: float) -> None:
    with pytest.raises(FednerError, match=f"probability {probability}, degrees of .* {degrees};"):
        t_quantile(probability, degrees)
