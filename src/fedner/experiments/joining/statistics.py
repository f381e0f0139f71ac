"""Paired gains of the study with intervals: newcomers and seeds are both resampled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedner.experiments.joining.study import Point
from fedner.seeds import seeded

RESAMPLES = 10_000
_TAILS = (2.5, 97.5)

Cells = Mapping[tuple[str, int], float]  # by newcomer and seed


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better one arm is than another, in points of strict F1.

    Attributes:
        value: The mean over newcomers of the mean over their seeds.
        low: The lower end of the 95 % interval.
        high: The upper end.
        p: The two-sided probability of a gain of the other sign, by the same resampling.
        by_newcomer: The mean gain of each.
        losses: In which cells it was below zero, and by how much.
        num_cells: Pairs of newcomer and seed.
    """

    value: float
    low: float
    high: float
    p: float
    by_newcomer: Mapping[str, float]
    losses: Mapping[tuple[str, int], float]
    num_cells: int


def cells(points: Sequence[Point], size: int, arm: str) -> dict[tuple[str, int], float]:
    """Return the scores of one arm at one size."""
    return {
        (each.newcomer, each.seed): each.f1
        for each in points
        if each.size == size and each.arm == arm
    }


def gain(one: Cells, other: Cells, resamples: int = RESAMPLES) -> Gain | None:
    """Return by how much `other` is better than `one`, in the cells that both have."""
    both = sorted(set(one) & set(other))
    if not both:
        return None
    differences = {cell: other[cell] - one[cell] for cell in both}
    newcomers = sorted({name for name, _ in both})
    by_newcomer = {
        name: np.asarray([value for cell, value in differences.items() if cell[0] == name])
        for name in newcomers
    }
    means = _resampled_means(list(by_newcomer.values()), resamples)
    low, high = np.percentile(means, _TAILS)
    below = (1 + np.sum(means <= 0)) / (1 + len(means))
    above = (1 + np.sum(means >= 0)) / (1 + len(means))
    return Gain(
        float(np.mean([values.mean() for values in by_newcomer.values()])),
        float(low),
        float(high),
        float(min(1.0, 2 * min(below, above))),
        {name: float(values.mean()) for name, values in by_newcomer.items()},
        {cell: value for cell, value in differences.items() if value < 0},
        len(both),
    )


def _resampled_means(groups: Sequence[np.ndarray], number: int) -> np.ndarray:
    """Return means over resampled newcomers, each with resampled seeds."""
    generator = seeded(0, "joining", "bootstrap")
    means = np.empty(number)
    for row in range(number):
        chosen = generator.integers(0, len(groups), len(groups))
        means[row] = np.mean(
            [
                groups[place][generator.integers(0, len(groups[place]), len(groups[place]))].mean()
                for place in chosen
            ]
        )
    return means


def holm(probabilities: Mapping[int, float]) -> dict[int, float]:
    """Return the probabilities corrected for being several (Holm 1979)."""
    corrected: dict[int, float] = {}
    highest = 0.0
    for rank, key in enumerate(sorted(probabilities, key=lambda each: probabilities[each])):
        highest = max(highest, (len(probabilities) - rank) * probabilities[key])
        corrected[key] = min(1.0, highest)
    return corrected


def worth(curve: Mapping[int, float], score: float) -> float | None:
    """Return at how many own sentences the local curve reaches a score; None where it does not.

    Linear in the logarithm of the number of sentences between the points of the curve; a curve that
    falls between two sizes counts as flat there.
    """
    sizes = sorted(curve)
    best = np.maximum.accumulate([curve[size] for size in sizes])
    if score > best[-1]:
        return None
    place = int(np.searchsorted(best, score))
    if place == 0:
        return float(sizes[0])
    low, high = best[place - 1], best[place]
    share = (score - low) / (high - low)
    return float(np.exp(np.log(sizes[place - 1]) * (1 - share) + np.log(sizes[place]) * share))
