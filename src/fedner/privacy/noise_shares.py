"""How much noise each platform adds when nobody adds all of it, and on which grid: public facts.

The sum that is opened has the noise of every platform in it. How many these are at least, the
platforms must be sure of before they mask: else nothing is opened (`sum_terms`). Those of them that
collude with the server tell their own noise, so the shares of the others must be enough: each share
has 1 / least_honest of the variance. If more survive there is more noise than needed, never less:
whoever lets platforms drop out pays with noise.
"""

import math
from dataclasses import dataclass, replace

from fedner.errors import FednerError
from fedner.privacy.discrete_bound import DiscreteNoise, share_deviation
from fedner.privacy.discrete_noise import MOST_DEVIATION
from fedner.privacy.sum_terms import SumTerms

# A clipping bound has so many steps, or up to twice as many. Rounding then costs sqrt(coordinates)
# over it: a thousandth of the noise for 16 million numbers.
_STEPS_IN_BOUND = 2.0**22
# No coordinate of a platform's sum is larger than so many units that all point the same way.
_MOST_UNITS = 2.0**16
_TAIL = 40  # deviations; the mass beyond is below 1e-340


@dataclass(frozen=True, slots=True)
class JointSum:
    """The sum that platforms make together: public facts.

    Attributes:
        terms: How many platforms are in an opened sum at least, and how many of them may collude.
        coordinates: How many numbers each of them sends.
    """

    terms: SumTerms
    coordinates: int

    def noise(self, max_norm: float, multiplier: float) -> DiscreteNoise:
        """Return the noise on the sum for a clipping bound and a noise multiplier.

        Raises:
            FednerError: If it needs more steps than can be drawn.
        """
        plain = DiscreteNoise(grid_step(max_norm), 0, self.terms.least_honest, self.coordinates)
        deviation = share_deviation(
            multiplier, plain.sensitivity(max_norm), self.terms.least_honest
        )
        if deviation > MOST_DEVIATION:
            raise FednerError(
                f"noise multiplier {multiplier:g} on {self.coordinates:,} numbers needs a "
                f"deviation of {deviation:,} steps; expected at most {MOST_DEVIATION:,}",
                "Use less noise: a smaller batch, or a larger epsilon.",
            )
        return replace(plain, deviation=deviation)


def grid_step(max_norm: float) -> float:
    """Return the step of the grid for a clipping bound: a power of two."""
    return float(2.0 ** math.floor(math.log2(max_norm)) / _STEPS_IN_BOUND)


def box(max_norm: float) -> int:
    """Return the largest number of steps of a coordinate of a platform's sum, before its noise."""
    return int(_MOST_UNITS * max_norm / grid_step(max_norm))


def largest_count(noise: DiscreteNoise, max_norm: float) -> int:
    """Return the largest number of steps that a platform puts into a sum, its noise included."""
    return box(max_norm) + _TAIL * noise.deviation
