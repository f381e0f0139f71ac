"""Intervals of grouped shares: against scipy, and in a simulation in which the truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.scoring.proportions import exact_interval, grouped_share

DRAWS = 400


@given(st.floats(0.5, 5_000), st.floats(0, 1), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_exact_interval_is_that_of_scipy(total: float, share: float, confidence: float) -> None:
    beta = pytest.importorskip("scipy.stats").beta
    events, tail = share * total, (1 - confidence) / 2
    low, high = exact_interval(events, total, confidence)
    if 1e-6 < events < total - 1e-6:
        assert low == pytest.approx(beta.ppf(tail, events, total - events + 1), abs=1e-7)
        assert high == pytest.approx(beta.ppf(1 - tail, events + 1, total - events), abs=1e-7)
    assert 0 <= low <= high <= 1


@pytest.mark.parametrize(
    ("num_groups", "mean_size"), [(60, 5), pytest.param(200, 10, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("share", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("likeness", [pytest.param(0.0, marks=pytest.mark.slow), 0.4, 0.8])
def test_the_interval_holds_the_truth_as_often_as_it_says(
    num_groups: int, mean_size: int, share: float, likeness: float
) -> None:
    """Groups in which events come together; 93.5 % is 95 % less the error of 400 draws."""
    random = np.random.default_rng(3)
    held = 0
    for _ in range(DRAWS):
        sizes = random.geometric(1 / mean_size, num_groups)
        own = np.full(num_groups, share)
        if likeness:
            weight = (1 - likeness) / likeness
            own = random.beta(share * weight, (1 - share) * weight, num_groups)
        found = grouped_share(random.binomial(sizes, own).tolist(), sizes.tolist())
        held += found.low <= share <= found.high
    assert held >= 0.935 * DRAWS


def test_groups_count_not_members() -> None:
    """Ten misses in one document say less than ten misses in ten documents."""
    sizes = [10] * 100
    together = grouped_share([10] + [0] * 99, sizes)
    apart = grouped_share([1] * 10 + [0] * 90, sizes)
    assert together.value == apart.value == 0.01
    assert together.high > 1.5 * apart.high
    assert together.low < apart.low


def test_no_event_is_no_certainty_and_no_member_is_none_at_all() -> None:
    alone, grouped = grouped_share([0] * 300, [1] * 300), grouped_share([0] * 30, [10] * 30)
    assert alone.value == grouped.value == alone.low == 0
    assert alone.high == pytest.approx(0.0122, abs=3e-4), "the rule of three, two-sided"
    assert grouped.high > 5 * alone.high
    empty = grouped_share([0, 0], [0, 0])
    assert (empty.low, empty.high) == (0, 1)
