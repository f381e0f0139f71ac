"""Numbers that attacks are judged by: areas, rates, intervals, and the one-run bound of epsilon."""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from fedner.errors import FednerError

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
_HALVINGS = 60
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571)  # of 1 to 5 degrees of freedom
_LARGEST_EPSILON = 100.0


def auc(members: Floats, others: Floats) -> float:
    """Return how often a member's score is above another's; a tie counts half.

    >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    if not (len(members) and len(others)):
        raise FednerError("an area needs scores of members and of others", "Draw more sentences.")
    ordered = np.sort(others)
    below = np.searchsorted(ordered, members, side="left")
    up_to = np.searchsorted(ordered, members, side="right")
    return float((below + up_to).mean() / 2.0 / len(others))


def tpr_at_fpr(members: Floats, others: Floats, fpr: float = 0.01) -> float:
    """Return the share of members that are told apart while at most `fpr` of others are not.

    >>> tpr_at_fpr(np.array([1.0, 5.0]), np.array([0.0, 2.0]), 0.01)
    0.5
    """
    allowed = math.floor(fpr * len(others) + 1e-9)
    threshold = np.sort(others)[::-1][allowed] if allowed < len(others) else -math.inf
    return float((members > threshold).mean())


def share_interval(values: Sequence[float] | Floats) -> tuple[float, float, float]:
    """Return the mean of shares (0 to 1) of independent trials, and its 95 % interval.

    Raises:
        FednerError: There are fewer than two trials.
    """
    every = np.asarray(values, dtype=np.float64)
    if len(every) < 2:
        raise FednerError(
            f"{len(every)} trial of an attack; expected at least 2",
            "One trial has no interval: raise the number of trials.",
        )
    mean = float(every.mean())
    error = float(every.std(ddof=1)) / math.sqrt(len(every))
    half = _student(len(every) - 1) * error
    return mean, max(0.0, mean - half), min(1.0, mean + half)


def _student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t: few trials have wide intervals."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    first = (z**3 + z) / (4 * freedom)
    return z + first + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)  # Abramowitz 26.7.5


def allowed_auc(epsilon: float, delta: float) -> float:
    """Return the largest area that (epsilon, delta)-DP leaves to an attacker on members.

    DP bounds both error rates at every threshold (Kairouz et al. 2015, theorem 2.1); this is the
    area over that bound. It holds for the mean over many units too, since it does for each.

    >>> allowed_auc(0.0, 0.0)
    0.5
    """
    unlikely = math.exp(-epsilon) / (1.0 + math.exp(-epsilon))
    return 1.0 - (1.0 - delta) ** 2 * unlikely


def bootstrap_interval(
    statistic: Callable[[NDArray[np.int64]], float], size: int, seed: int, repeats: int = 200
) -> tuple[float, float]:
    """Return the 95 % interval of a statistic over resampled units.

    Args:
        statistic: Gets the indices of the drawn units.
        size: How many units there are.
        seed: Of the draws.
        repeats: How many draws.
    """
    draw = np.random.default_rng(seed)
    drawn = [statistic(draw.integers(0, size, size)) for _ in range(repeats)]
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    return float(low), float(high)


def one_run_epsilon(
    num_canaries: int, num_guesses: int, num_right: int, delta: float, doubt: float = 0.05
) -> float:
    """Return the lower bound of epsilon from the guesses of one run.

    Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run", theorem 5.2:
    of r guesses which of m canaries took part, each drawn by a fair coin, an (epsilon, delta)-DP
    algorithm lets v or more be right with a probability of at most

        P[B >= v] + 2 m delta max_i P[v > B >= v - i] / i,     B ~ Binomial(r, 1 / (1 + e^-epsilon))

    The bound is the largest epsilon at which that is still at most `doubt`.

    Args:
        num_canaries: m.
        num_guesses: r, fixed before the scores are seen.
        num_right: v.
        delta: The delta of the promise.
        doubt: How likely the bound may be too large.

    Raises:
        FednerError: The counts do not fit each other.
    """
    if not 0 <= num_right <= num_guesses <= num_canaries:
        raise FednerError(
            f"{num_right} right of {num_guesses} guesses on {num_canaries} canaries; expected "
            "numbers that do not grow in this order"
        )
    if _likelihood(num_canaries, num_guesses, num_right, delta, 0.0) > doubt:
        return 0.0
    low, high = 0.0, _LARGEST_EPSILON
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        is_refuted = _likelihood(num_canaries, num_guesses, num_right, delta, middle) <= doubt
        low, high = (middle, high) if is_refuted else (low, middle)
    return low


def _likelihood(canaries: int, guesses: int, right: int, delta: float, epsilon: float) -> float:
    """Return how likely so many right guesses are at most under (epsilon, delta)-DP."""
    masses = _binomial(guesses, 1.0 / (1.0 + math.exp(-epsilon)))
    at_least = float(masses[right:].sum())
    if not right:
        return 1.0
    below = np.cumsum(masses[:right][::-1]) / np.arange(1, right + 1)
    return min(1.0, at_least + 2.0 * canaries * delta * float(below.max()))


def _binomial(count: int, probability: float) -> Floats:
    """Return the probability of each number of successes from 0 to `count`."""
    # As a logarithm: 1 - p is too small to be told from 0 long before e^-epsilon is.
    lost = math.log1p(-probability) if probability < 1.0 else -math.inf
    won = math.log(probability)
    numbers = range(count + 1)
    logs = [
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) + k * won
        + ((count - k) * lost if k < count else 0.0)
        for k in numbers
    ]  # fmt: skip
    masses: Floats = np.exp(np.asarray(logs))
    return masses
