"""Areas, rates and bounds against slow, obvious versions and known answers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.audit.finding import DEFENCES, Finding, absent, unchanged
from fedner.audit.statistics import (
    allowed_auc,
    auc,
    bootstrap_interval,
    one_run_epsilon,
    share_interval,
    tpr_at_fpr,
)
from fedner.errors import FednerError

SCORES = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=9)


@given(SCORES, SCORES)
def test_an_area_is_the_share_of_pairs(members: list[float], others: list[float]) -> None:
    pairs = [(a > b) + 0.5 * (a == b) for a in members for b in others]
    assert auc(np.array(members), np.array(others)) == pytest.approx(sum(pairs) / len(pairs))


def test_no_scores_have_no_area() -> None:
    with pytest.raises(FednerError, match="members"):
        auc(np.array([]), np.array([1.0]))


def test_true_positives_at_one_percent() -> None:
    others = np.arange(200.0)
    # Two of 200 may be wrong: the threshold is the third largest.
    assert tpr_at_fpr(np.array([196.0, 197.0, 197.5, 300.0]), others) == 0.5
    assert tpr_at_fpr(np.array([5.0]), np.array([1.0, 2.0]), 1.0) == 1.0


def test_intervals() -> None:
    mean, low, high = share_interval([0.49, 0.51])  # the error of the mean is 0.01
    assert (mean, low, high) == pytest.approx((0.5, 0.5 - 0.12706, 0.5 + 0.12706))
    assert share_interval([0.0, 1.0]) == (0.5, 0.0, 1.0)  # shares stay shares
    spread = [0.0, 1.0] * 15  # Student's t of 29 degrees of freedom is 2.0452
    half = 2.0452 * np.std(spread, ddof=1) / math.sqrt(30)
    assert share_interval(spread)[2] == pytest.approx(0.5 + half, abs=1e-4)
    six = [0.4, 0.6] * 3  # of 5: 2.5706
    assert share_interval(six)[2] == pytest.approx(0.5 + 2.5706 * math.sqrt(0.012 / 6), abs=1e-3)
    with pytest.raises(FednerError, match="1 trial"):
        share_interval([4.0])
    values = np.random.default_rng(1).normal(5.0, 1.0, 400)
    low, high = bootstrap_interval(lambda at: float(values[at].mean()), 400, 1)
    assert low < values.mean() < high
    assert high - low == pytest.approx(4 * 0.05, rel=0.2)


def test_the_area_that_dp_allows_is_that_of_randomised_response() -> None:
    """A bit that is true with e^eps / (1 + e^eps) is the best that pure DP leaves an attacker."""
    for epsilon in (0.1, 1.0, 4.0):
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        # Right in both: p^2; one of two tied: half.
        best = p * p + 0.5 * 2 * p * (1 - p)
        assert allowed_auc(epsilon, 0.0) == pytest.approx(best)
    # With delta the member is shown as he is: then every pair is right.
    assert allowed_auc(0.0, 0.1) == pytest.approx(1 - 0.9**2 / 2)
    assert allowed_auc(800.0, 0.0) == 1.0


def test_the_one_run_bound_has_its_closed_form_where_all_guesses_are_right() -> None:
    # p^100 = 0.05 at p = 1 / (1 + e^-epsilon)
    p = 0.05 ** (1 / 100)
    assert one_run_epsilon(100, 100, 100, 0.0) == pytest.approx(math.log(p / (1 - p)), rel=1e-6)
    assert one_run_epsilon(100, 100, 50, 0.0) == 0.0
    assert one_run_epsilon(100, 100, 0, 0.0) == 0.0
    assert one_run_epsilon(100, 100, 100, 1e-5) < one_run_epsilon(100, 100, 100, 0.0)
    with pytest.raises(FednerError, match="101 right"):
        one_run_epsilon(100, 100, 101, 0.0)


@pytest.mark.parametrize(("right", "delta"), [(70, 0.0), (80, 1e-5), (95, 1e-4)])
def test_the_one_run_bound_is_where_the_theorem_reaches_the_doubt(right: int, delta: float) -> None:
    """Theorem 5.2 once more, summed term by term."""
    found = one_run_epsilon(120, 100, right, delta)

    def likely(epsilon: float) -> float:
        p = 1 / (1 + math.exp(-epsilon))
        mass = [math.comb(100, k) * p**k * (1 - p) ** (100 - k) for k in range(101)]
        alpha = max(sum(mass[right - i : right]) / i for i in range(1, right + 1))
        return sum(mass[right:]) + alpha * 2 * 120 * delta

    assert likely(found) == pytest.approx(0.05, rel=1e-6)


def test_the_one_run_bound_holds_for_randomised_response() -> None:
    """An epsilon-DP answer about each of 200 canaries: the bound is too large in 5 % at most."""
    draw, epsilon = np.random.default_rng(7), 1.0
    p = 1 / (1 + math.exp(-epsilon))
    right = draw.binomial(200, p, size=400)
    bounds = {each: one_run_epsilon(200, 200, each, 0.0) for each in sorted(set(right.tolist()))}
    too_large = np.mean([bounds[each] > epsilon for each in right.tolist()])
    assert too_large <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    assert np.mean([bounds[each] for each in right.tolist()]) > 0.5  # and it is worth something


def test_a_finding_never_says_safe() -> None:
    cells = [
        Finding("a", "none", "m", result=0.9, lower=0.8, chance=0.5, power_on_planted_leak=1.0),
        Finding("a", "none", "m", result=0.5, lower=0.4, chance=0.5, power_on_planted_leak=1.0),
        Finding("a", "none", "m", result=0.5, lower=0.4, chance=0.5, power_on_planted_leak=0.4),
        Finding("a", "none", "m", result=0.5, lower=0.4, chance=0.5),
        Finding("a", "none", "m", result=0.5, lower=0.4, chance=0.5,
                power_on_planted_leak=math.nan),
        Finding("a", "none", "m", result=0.9, lower=0.8, chance=0.5, power_on_planted_leak=0.0),
        Finding("a", "none", "m", result=2.0, lower=2.0, chance=0.0, promised=3.0,
                power_on_planted_leak=1.0),
        Finding("a", "none", "m", result=4.0, lower=4.0, chance=0.0, promised=3.0,
                power_on_planted_leak=1.0),
        unchanged("a", "central", "m", "none", "why"),
    ]  # fmt: skip
    assert [each.verdict for each in cells] == [
        "leak", "no leak found", "inconclusive", "inconclusive", "inconclusive", "inconclusive",
        "within epsilon", "leak", "as none",
    ]  # fmt: skip
    assert not cells[-1].is_inconclusive  # not run, and it says so
    stated = cells[2].as_dict()
    assert stated["is_inconclusive"] is True
    assert stated["verdict"] == "inconclusive"
    assert [each.defence for each in absent("a", "m", "why")] == list(DEFENCES)
