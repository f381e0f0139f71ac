"""The bound on discrete noise against brute force: laws written out number by number."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedner.errors import FednerError
from fedner.privacy.accountant import pld_epsilon, rdp_epsilon
from fedner.privacy.discrete_bound import (
    SMOOTHING,
    DiscreteNoise,
    rounding_slack,
    share_deviation,
    sum_slack,
)
from fedner.privacy.events import GaussianRelease, from_json, to_json
from fedner.privacy.noise_shares import JointSum, largest_count
from fedner.privacy.sum_terms import SumTerms

Law = NDArray[np.float64]
DELTA = 1e-5


def largest_factor(variance: float) -> float:
    """The accountant's epsilon over the exact one: s^2 = 4 is what the bound gives away."""
    return 1.002 + 7 / variance


def one_share(deviation: float, reach: int) -> Law:
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * deviation**2))
    return weights / weights.sum()


def sum_of_shares(deviation: float, shares: int) -> Law:
    """The law of the sum, by convolution; its middle is 0."""
    law = one_share(deviation, math.ceil(9 * deviation))
    total = law
    for _ in range(shares - 1):
        total = np.convolve(total, law)
    return total


def pair(law: Law, by: int, probability: float) -> tuple[Law, Law]:
    """What is seen without and with the unit, which takes part with a probability."""
    without = np.pad(law, abs(by))
    return without, (1 - probability) * without + probability * np.roll(without, by)


def exact_epsilon(left: Law, right: Law, delta: float) -> float:
    """The least epsilon by bisection: mass of left above exp(epsilon) times right."""

    def excess(epsilon: float) -> float:
        return float(np.maximum(left - np.exp(epsilon) * right, 0).sum())

    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return high


def both_ways(without: Law, with_it: Law, delta: float = DELTA) -> float:
    """Adding or removing the unit, whichever is worse."""
    return max(exact_epsilon(without, with_it, delta), exact_epsilon(with_it, without, delta))


def twice(law: Law) -> Law:
    return np.outer(law, law).ravel()


def noise_of(deviation: int, shares: int, coordinates: int = 1) -> DiscreteNoise:
    return DiscreteNoise(1.0, deviation, shares, coordinates)


CASES = [  # deviation, shares, shift, probability, steps
    (8, 2, 9, 1.0, 1), (8, 2, 9, 0.1, 2), (8, 2, 5, 0.01, 1), (8, 3, 20, 0.3, 2),
    (16, 2, 12, 0.05, 2), (16, 4, 40, 0.5, 1), (60, 3, 100, 0.1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("deviation", "shares", "shift", "probability", "steps"), CASES)
def test_epsilon_is_above_the_exact_one_and_not_far(
    deviation: int, shares: int, shift: int, probability: float, steps: int
) -> None:
    without, with_it = pair(sum_of_shares(deviation, shares), shift, probability)
    if steps == 2:
        without, with_it = twice(without), twice(with_it)
    exact = both_ways(without, with_it)
    noise = noise_of(deviation, shares)
    # The bound on the norm that makes the sensitivity this very shift.
    multiplier = noise.multiplier(shift - 1.0)
    found = {(multiplier, probability): steps}
    assert exact <= pld_epsilon(found, DELTA) + 2 * steps * noise.slack
    assert pld_epsilon(found, DELTA) <= largest_factor(shares * deviation**2) * exact
    assert exact <= rdp_epsilon(found, DELTA)


@pytest.mark.parametrize("shift", [(5, 0), (3, 4), (4, 3)])
def test_it_holds_for_vectors_in_every_direction(shift: tuple[int, int]) -> None:
    law, probability = sum_of_shares(4, 2), 0.2
    pads = [np.pad(law, 5) for _ in shift]
    without = np.outer(*pads)
    moved = np.outer(*(np.roll(each, by) for each, by in zip(pads, shift, strict=True)))
    exact = both_ways(without, (1 - probability) * without + probability * moved)
    noise = noise_of(4, 2, coordinates=2)
    multiplier = noise.multiplier(math.hypot(*shift) - math.sqrt(2))
    found = pld_epsilon({(multiplier, probability): 1}, DELTA)
    assert exact <= found + 2 * noise.slack
    assert found <= largest_factor(32) * exact


@pytest.mark.parametrize(
    ("deviation", "shares"), [(0.6, 2), (0.6, 5), (0.8, 2), (1.0, 3), (1.3, 2)]
)
def test_a_sum_of_discrete_gaussians_is_as_near_to_one_as_stated(
    deviation: float, shares: int
) -> None:
    total = sum_of_shares(deviation, shares)
    middle, reach = len(total) // 2, math.ceil(3 * deviation * math.sqrt(shares))
    one = one_share(deviation * math.sqrt(shares), middle)
    near = slice(middle - reach, middle + reach + 1)
    furthest = float(np.abs(np.log(total[near] / one[near])).max())
    assert 1e-13 < furthest <= sum_slack(deviation, shares)
    # It is a bound on something real: for two shares a tenth of it would be wrong.
    assert shares > 2 or furthest > sum_slack(deviation, shares) / 10


@pytest.mark.parametrize("order", [2, 3, 7])
def test_moments_of_a_subsampled_discrete_gaussian_are_those_of_the_gaussian(order: int) -> None:
    deviation, shift, probability = 3.0, 4, 0.3
    both = pair(one_share(deviation, 90), shift, probability)
    without, with_it = (np.log(law[2 * shift : -2 * shift]) for law in both)
    moment = float(np.exp(order * with_it - (order - 1) * without).sum())
    gaussian = sum(
        math.comb(order, k)
        * (1 - probability) ** (order - k)
        * probability**k
        * math.exp(k * (k - 1) * shift**2 / (2 * deviation**2))
        for k in range(order + 1)
    )
    assert moment == pytest.approx(gaussian, rel=1e-9)
    # And the other way round it is no larger.
    assert float(np.exp(order * without - (order - 1) * with_it).sum()) <= gaussian


@given(
    multiplier=st.floats(0.05, 50),
    max_norm=st.floats(1e-3, 1e3),
    coordinates=st.integers(1, 10**8),
    num_platforms=st.integers(3, 60),
    data=st.data(),
)
def test_shares_make_up_the_multiplier_that_is_charged(
    multiplier: float, max_norm: float, coordinates: int, num_platforms: int, data: st.DataObject
) -> None:
    colluding = data.draw(st.integers(0, num_platforms - 2))
    quorum = data.draw(st.none() | st.integers(1, num_platforms))
    joint = JointSum(SumTerms(num_platforms, colluding, quorum), coordinates)
    noise = joint.noise(max_norm, multiplier)
    assert noise.shares == joint.terms.least_honest
    assert noise.multiplier(max_norm) >= multiplier
    if noise.deviation > 4:
        lower = replace(noise, deviation=noise.deviation - 1)
        assert lower.multiplier(max_norm) < multiplier * (1 + 1e-9)
    # Rounding moves a sum by a thousandth of the bound at most, up to 16 million numbers.
    rounding = noise.sensitivity(max_norm) * noise.step / max_norm - 1
    assert rounding <= 2**-10 * max(1, coordinates / 2**24) ** 0.5 * (1 + 1e-9)
    assert num_platforms * largest_count(noise, max_norm) < 2**63


def test_fewer_survivors_and_more_colluders_need_more_noise() -> None:
    def deviation(colluding: int, quorum: int | None) -> int:
        return JointSum(SumTerms(6, colluding, quorum), 100).noise(1.0, 1.0).deviation

    assert deviation(0, None) < deviation(1, None) < deviation(2, None)
    assert deviation(1, None) < deviation(1, 5) < deviation(1, 4)


@pytest.mark.parametrize("multiplier", [1.0, 2.0, 3.7])
@pytest.mark.parametrize("sensitivity", [4.0, 5.5, 9.0])
@pytest.mark.parametrize("shares", [1, 2, 3])
def test_small_deviations_make_up_for_the_smoothing(
    multiplier: float, sensitivity: float, shares: int
) -> None:
    deviation = share_deviation(multiplier, sensitivity, shares)
    assert noise_of(deviation, shares).multiplier(sensitivity - 1.0) >= multiplier


def test_noise_of_more_steps_than_can_be_drawn_is_refused() -> None:
    with pytest.raises(FednerError, match=r"needs a deviation of [\d,]+ steps; expected at most"):
        JointSum(SumTerms(3), 10).noise(1.0, 1e5)


def test_no_noise_has_no_multiplier() -> None:
    joint = JointSum(SumTerms(3), 10)
    noise = joint.noise(1.0, 0.0)
    assert (noise.deviation, noise.multiplier(1.0), noise.slack) == (0, 0.0, 0.0)
    assert share_deviation(0.0, 10.0, 2) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": 0.3}, {"step": 0.0}, {"step": math.inf}, {"deviation": -1}, {"shares": 0},
        {"coordinates": -1}, {"deviation": 3}, {"coordinates": 10**23},
    ],
)  # fmt: skip
def test_noise_that_no_bound_covers_is_refused(wrong: dict[str, float]) -> None:
    assert DiscreteNoise(0.25, 10, 2, 5)
    with pytest.raises(FednerError, match="discrete noise"):
        DiscreteNoise(**{"step": 0.25, "deviation": 10, "shares": 2, "coordinates": 5, **wrong})  # type: ignore[arg-type]


def release(multiplier: float, **facts: float) -> GaussianRelease:
    noise = JointSum(SumTerms(4), 50).noise(2.0, 1.5)
    given_ = {"steps": 1, **facts}
    return GaussianRelease(
        multiplier, 0.1, "sentence", 2.0, 100, discrete=noise, **given_,  # type: ignore[arg-type]
    )  # fmt: skip


def test_an_event_says_which_discrete_noise_it_was() -> None:
    event = release(1.5)
    assert event.effective_multiplier == 1.5
    assert from_json(to_json(event)) == event
    plain = replace(event, discrete=None)
    assert "discrete" not in to_json(plain), "ledgers of other noise stay as they were"
    assert from_json(to_json(plain)) == plain
    with pytest.raises(FednerError, match="discrete noise of multiplier"):
        release(1.6)
    with pytest.raises(FednerError, match="too many for its bound"):
        release(1.5, steps=10**20)


@pytest.mark.parametrize(
    "facts",
    [{}, {"step": 0.5}, "text", [1], {"step": 1, "deviation": 9, "shares": 2, "coordinates": 1},
     {"step": 1.0, "deviation": True, "shares": 2, "coordinates": 1},
     {"step": 1.0, "deviation": 9, "shares": 2, "coordinates": 1, "more": 1}],
)  # fmt: skip
def test_an_event_with_unsound_discrete_noise_is_refused(facts: object) -> None:
    with pytest.raises(FednerError):
        from_json({**to_json(release(1.5)), "discrete": facts})


def test_smoothing_leaves_nothing_to_be_seen() -> None:
    assert rounding_slack(SMOOTHING) < 1e-33
    assert all(noise_of(4, shares).slack < 1e-30 for shares in (1, 2, 100))
