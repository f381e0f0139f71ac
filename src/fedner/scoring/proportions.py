"""How sure a share of rare events is, where events come in groups such as documents.

Korn and Graubard (1998): the exact interval of Clopper and Pearson (1934) with the number of
independent mentions that the grouped ones are worth. What differs: where fewer than ten groups hold
an event, the estimate of how much the members of a group resemble each other is blended with the
worst case, in which a group is one event. Without any event that worst case alone counts.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

from fedner.scoring.intervals import CONFIDENCE, Interval

_ENOUGH_GROUPS = 10  # with events in so many groups their resemblance is measured, not assumed
_HALVINGS = 60


def grouped_share(
    events: Sequence[int], sizes: Sequence[int], confidence: float = CONFIDENCE
) -> Interval:
    """Return the share of members with an event, and its interval.

    >>> found = grouped_share([0, 1, 0, 0], [1, 1, 1, 1])
    >>> round(found.value, 2), round(found.low, 3) < 0.01, round(found.high, 1)
    (0.25, True, 0.9)

    Args:
        events: How many members of each group have the event.
        sizes: How many members each group has; groups without members do not count.
        confidence: How often such intervals shall hold the truth.
    """
    groups = [(found, size) for found, size in zip(events, sizes, strict=True) if size]
    total = sum(size for _, size in groups)
    if not total:
        return Interval(0.0, 0.0, 1.0, confidence)
    share = sum(found for found, _ in groups) / total
    worth = total / _design_effect(groups, share) * _few_groups(len(groups), confidence)
    low, high = exact_interval(share * worth, worth, confidence)
    return Interval(share, min(low, share), max(high, share), confidence)


def _design_effect(groups: Sequence[tuple[int, int]], share: float) -> float:
    """Return how many grouped members are worth one independent member."""
    total = sum(size for _, size in groups)
    worst = sum(size * size for _, size in groups) / total
    if share in (0.0, 1.0) or len(groups) < 2:
        return worst
    spread = sum((found - share * size) ** 2 for found, size in groups)
    variance = len(groups) / (len(groups) - 1) * spread / total**2
    measured = min(max(1.0, variance / (share * (1 - share) / total)), worst)
    with_events = sum(1 for found, _ in groups if found)
    trust = min(1.0, with_events / _ENOUGH_GROUPS)
    return trust * measured + (1 - trust) * worst


def _few_groups(num_groups: int, confidence: float) -> float:
    """Return the square of the normal quantile over that of Student's t (Korn and Graubard)."""
    if num_groups < 2:
        return 1.0
    z, v = NormalDist().inv_cdf((1 + confidence) / 2), num_groups - 1
    t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v * v)
    return (z / t) ** 2


def exact_interval(events: float, total: float, confidence: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson; numbers need not be whole."""
    tail = (1 - confidence) / 2
    low = 0.0 if events <= 0 else _beta_quantile(tail, events, total - events + 1)
    high = 1.0 if events >= total else _beta_quantile(1 - tail, events + 1, total - events)
    return low, high


def _beta_quantile(share: float, a: float, b: float) -> float:
    """Return where the beta distribution reaches a share, by halving."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _beta_below(middle, a, b) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_below(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function (Lentz's continued fraction)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta_below(1 - x, b, a)
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return math.exp(log_front) / a * _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for numerator in (even, odd):
            d = 1 + numerator * d
            c = 1 + numerator / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1) < 1e-13:
            break
    return value
