"""Means over seeds: Student's t intervals, paired or not, for the few runs that people make."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedner.errors import FednerError
from fedner.scoring.intervals import CONFIDENCE, Interval, check_confidence


@dataclass(frozen=True, slots=True)
class PairedMeans:
    """Two ways of training, compared over the same seeds.

    Attributes:
        first: The mean of the first.
        second: The mean of the second.
        difference: The mean of second minus first, with its t interval over the seeds.
        p_value: Of the two-sided paired t test.
    """

    first: float
    second: float
    difference: Interval
    p_value: float


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of independent runs with its Student t interval.

    Args:
        values: One score per seed, two at least: a single run says nothing about its spread.
        confidence: The share of such intervals that hold the true mean.
    """
    check_confidence(confidence)
    mean, error = _mean_and_error(values)
    half = t_quantile((1 + confidence) / 2, len(values) - 1) * error
    return Interval(mean, mean - half, mean + half, confidence)


def paired_means(
    first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE
) -> PairedMeans:
    """Compare two ways of training run by run: the same seed gave `first[i]` and `second[i]`.

    Without any spread among the differences, p is 1 if they are 0 and 0 otherwise.
    """
    if len(first) != len(second):
        raise FednerError(
            f"paired means: {len(first)} runs of the first, {len(second)} of the second",
            "Run both with the same seeds, in the same order.",
        )
    differences = [after - before for before, after in zip(first, second, strict=True)]
    difference = mean_interval(differences, confidence)
    mean, error = _mean_and_error(differences)
    if error == 0:
        p_value = 1.0 if mean == 0 else 0.0
    else:
        p_value = 2 * t_cdf(-abs(mean) / error, len(differences) - 1)
    return PairedMeans(
        math.fsum(first) / len(first), math.fsum(second) / len(second), difference, p_value
    )


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard error."""
    count = len(values)
    if count < 2 or not all(map(math.isfinite, values)):
        raise FednerError(
            f"mean over seeds: found {list(values)!r}; expected at least two finite values",
            "Run more seeds, or report the single value without an interval.",
        )
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, math.sqrt(variance / count)


def t_cdf(t: float, degrees: float) -> float:
    """Return the probability that Student's t with `degrees` of freedom is at most `t`."""
    square = t * t
    # I_x(a, b) = 1 - I_{1-x}(b, a): both arguments are formed without cancellation.
    tail = 0.5 * _incomplete_beta(
        degrees / 2, 0.5, degrees / (degrees + square), square / (degrees + square)
    )
    return tail if t < 0 else 1 - tail


def t_quantile(probability: float, degrees: float) -> float:
    """Return the t below which Student's distribution has `probability`, by bisection."""
    if not (0 < probability < 1 and degrees > 0):
        raise FednerError(
            f"t quantile: probability {probability}, degrees of freedom {degrees}; expected a "
            "probability between 0 and 1 and degrees above 0",
        )
    if probability == 0.5:
        return 0.0
    # The lower tail is the accurate one; the distribution is symmetric.
    lower = min(probability, 1 - probability)
    near, far = 0.0, 1.0
    while t_cdf(-far, degrees) > lower:
        near, far = far, far * 2
    while True:
        middle = (near + far) / 2
        if middle in (near, far):
            return -far if probability < 0.5 else far
        near, far = (middle, far) if t_cdf(-middle, degrees) > lower else (near, middle)


def _incomplete_beta(a: float, b: float, x: float, complement: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), with `complement` = 1 - x."""
    if x <= 0 or complement <= 0:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log(complement)
    )
    # The continued fraction converges fast on this side of the mean only.
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(a, b, x) / a
    return 1 - front * _beta_fraction(b, a, complement) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction of I_x(a, b) (DLMF 8.17.22) by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1), tiny)
    result = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for numerator in (even, odd):
            d = 1 / _away_from_zero(1 + numerator * d, tiny)
            c = _away_from_zero(1 + numerator / c, tiny)
            change = c * d
            result *= change
        if abs(change - 1) < 1e-15:
            break
    return result


def _away_from_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
