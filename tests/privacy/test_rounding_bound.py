"""Both roundings of the discrete bound against their worst inputs, found by search.

Rounding at random (`rounding_slack`): every outcome is written out, without Poisson summation. The
bound is reached as the Gaussian before it gets narrow and the outcome lies far out, so a search
that goes there rejects nine tenths of it. Rounding to the nearest (`sensitivity`): reached where a
unit points along the diagonal and both sums lie at a half.
"""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp

from fedner.privacy.accountant import pld_epsilon
from fedner.privacy.discrete_bound import SMOOTHING, DiscreteNoise, rounding_slack
from fedner.privacy.mechanisms.distributed import rounded

Row = NDArray[np.float64]
LATTICE = np.arange(-220.0, 221.0)
CENTRES = (0.0, 0.1, 0.25, 0.4, 0.5)
WIDTHS = (0.05, 0.1, 0.3, 1.0, 3.0)
TIGHT = 0.9  # so much of the bound is reached by the worst input


def log_weights(at: Row, centre: Row | float, deviation: float) -> Row:
    return -((at - centre) ** 2) / (2 * deviation**2)


def from_smoothed(x: Row, centre: float, width: float, smoothing: float) -> Row:
    """Log law of x: a Gaussian around the centre, then a discrete one around what it gave."""
    # The peak of the integrand lies between the centre and x; both tails are in the range.
    to = centre + (x - centre) * width**2 / (width**2 + smoothing**2)
    y = np.arange(min(to.min(), centre) - 10 * width, max(to.max(), centre) + 10 * width, width / 8)
    y = y[:, None]
    normal = log_weights(y, centre, width) + math.log(1 / 8 / math.sqrt(math.tau))
    outcomes = logsumexp(log_weights(LATTICE, y, smoothing), axis=1, keepdims=True)
    return np.asarray(logsumexp(normal + log_weights(x, y, smoothing) - outcomes, axis=0))


def discrete(x: Row, centre: float, deviation: float) -> Row:
    return log_weights(x, centre, deviation) - logsumexp(log_weights(LATTICE, centre, deviation))


@cache
def extremes(smoothing: float) -> tuple[float, float]:
    """The least and the largest logarithm of the ratio of both laws, over all inputs."""
    found = []
    for centre, width in product(CENTRES, WIDTHS):
        whole = math.hypot(width, smoothing)
        # From the centre to where the narrow Gaussian is pulled one whole number away.
        x = np.arange(-1.0, min(math.ceil((whole / width) ** 2) + 1, 130))
        smoothed = from_smoothed(x, centre, width, smoothing)
        found.append(smoothed - discrete(x, centre, whole))
    ratios = np.concatenate(found)
    return float(ratios.min()), float(ratios.max())


@pytest.mark.parametrize("smoothing", [0.4, 0.5])
def test_a_gaussian_rounded_at_random_is_as_near_to_a_discrete_one_as_stated(
    smoothing: float,
) -> None:
    low, high = extremes(smoothing)
    bound = rounding_slack(smoothing)
    assert -bound <= low < -TIGHT * bound
    assert TIGHT * bound < high <= bound


def test_in_two_dimensions_it_is_twice_that() -> None:
    """Over pairs of outcomes and a Gaussian in the plane; its worst is the worst of both."""
    smoothing, width = 0.5, 0.1
    whole, spread = math.hypot(width, smoothing), np.arange(-1.0, 2.0, width / 4)
    y = np.stack(np.meshgrid(spread, spread), -1).reshape(-1, 1, 2)
    near = np.stack(np.meshgrid(np.arange(-5.0, 6), np.arange(-5.0, 6)), -1).reshape(1, -1, 2)
    outcomes = logsumexp(log_weights(near, y, smoothing).sum(-1), axis=1)

    def log_ratio(x: tuple[int, int]) -> float:
        density = log_weights(y, 0.0, width).sum((-1, -2)) - math.log(16 * math.tau)
        rounded_to = log_weights(np.array(x), y, smoothing).sum((-1, -2)) - outcomes
        stated = log_weights(np.array(x), 0.0, whole).sum()
        stated -= logsumexp(log_weights(near, 0.0, whole).sum(-1))
        return float(logsumexp(density + rounded_to) - stated)

    far = range(0, 27, 13)  # at 13 the narrow Gaussian is pulled half a number away
    worst = max(abs(log_ratio(x)) for x in product(far, far))
    noise = DiscreteNoise(1.0, 4, 1, coordinates=2)
    assert noise.slack == 2 * rounding_slack(SMOOTHING)
    assert 1.6 * rounding_slack(smoothing) < worst <= 2 * rounding_slack(smoothing)


def furthest_moved(norm: float, coordinates: int) -> float:
    """How far a unit of a norm moves the nearest whole numbers, at most: by search."""
    inside = [each / 16 for each in range(-8, 9)] + [0.5 - 1e-9, -0.5 + 1e-9]
    starts = torch.tensor(list(product(inside, repeat=coordinates)), dtype=torch.float64)
    angles = torch.linspace(0, math.tau, 33, dtype=torch.float64)[:-1]
    unit = torch.stack([angles.cos(), angles.sin()], 1)[:, :coordinates] * norm * (1 + 1e-12)
    before = rounded(starts, 1.0, 10**9)[None]
    after = rounded(starts[None] + unit[:, None], 1.0, 10**9)
    return float((after - before).double().norm(dim=-1).max())


@pytest.mark.parametrize(
    ("coordinates", "norm"), [(1, 1.0), (1, 7.0), (2, math.sqrt(2)), (2, 5 * math.sqrt(2))]
)
def test_the_worst_unit_moves_rounded_sums_by_the_whole_sensitivity(
    coordinates: int, norm: float
) -> None:
    noise = DiscreteNoise(1.0, 0, 1, coordinates)
    worst = furthest_moved(norm, coordinates)
    assert worst <= noise.sensitivity(norm) * (1 + 1e-9)
    assert worst >= noise.sensitivity(norm) * (1 - 1e-9)


@pytest.mark.parametrize("coordinates", [1, 2])
def test_epsilon_covers_the_worst_rounding(coordinates: int) -> None:
    """The exact epsilon of sums moved so far, against what the accountant is told."""
    deviation, norm, delta = 16, 4 * math.sqrt(coordinates), 1e-5
    each = int(furthest_moved(norm, coordinates) / math.sqrt(coordinates))
    numbers = np.arange(-200.0, 201.0)
    left, right = (discrete(numbers, centre, deviation) for centre in (0.0, float(each)))
    if coordinates == 2:
        left, right = ((law[:, None] + law).ravel() for law in (left, right))
    told = pld_epsilon(
        {(DiscreteNoise(1.0, deviation, 1, coordinates).multiplier(norm), 1.0): 1}, delta
    )
    unrounded = pld_epsilon({(deviation / norm, 1.0): 1}, delta)

    def excess(epsilon: float) -> float:
        return float(np.maximum(np.exp(left) - np.exp(epsilon + right), 0).sum())

    assert excess(told) <= delta < excess(unrounded)
    assert excess(0.95 * told) > delta, "nor is much too much charged"
