r"""What a sum of discrete Gaussians costs: no more than a Gaussian of almost the same deviation.

m platforms each add an own discrete Gaussian N_Z(0, sigma^2) to every one of d whole numbers; a
unit moves the d numbers by a whole vector v, |v| <= D. dp-accounting knows no such event. Here it
is brought back to the Poisson-subsampled Gaussian, which both accountants know, in three steps:

1. A sum of discrete Gaussians is nearly one: for X, Y of variances a, b >= 1/4, at every integer

       |log P(X + Y = x) / N_Z(0, a + b)(x)| <= 5 exp(-2 pi^2 / (1/a + 1/b))

   (Kairouz, Liu and Steinke 2021, "The distributed discrete Gaussian mechanism", on convolutions;
   by Poisson summation, as in step 2), so that for m shares it is at most
   tau / 2 = 5 sum over k < m of exp(-2 pi^2 sigma^2 k / (k + 1)).
2. A discrete Gaussian is nearly a Gaussian that was rounded at random: Y from N(c, t^2), then X
   from the discrete Gaussian N_Z(Y, s^2) around it, has at every integer x

       |log P(X = x) / N_Z(c, t^2 + s^2)(x)| <= log((1 + theta) / (1 - theta)),
       theta = 2 sum over k >= 1 of exp(-2 pi^2 s^2 k^2)

   for every centre c: Poisson summation keeps the sums over integers that both laws are divided by
   within s sqrt(2 pi) (1 +- theta) (the convolution theorem of Peikert 2010, "An efficient and
   parallel Gaussian sampler for lattices", in one dimension).
3. Rounding at random knows nothing of the data: post-processing. So what is released is within
   exp(+-T), T = d (tau / 2 + log((1 + theta) / (1 - theta))) for each step, of a function of the
   Gaussian mechanism with deviation sqrt(m sigma^2 - s^2), for every sample of units. Mixtures over
   samples (Poisson) and products over steps (composition, adaptive too) keep such factors. With
   P <= exp(T) P', Q >= exp(-T) Q' over all steps, for every event E

       P(E) - exp(e) Q(E) <= exp(T) (P'(E) - exp(e - 2 T) Q'(E)) <= exp(T) delta'(e - 2 T):

   epsilon grows by 2 T and delta by the factor exp(T) over those of the subsampled Gaussian with
   multiplier sqrt(m sigma^2 - s^2) / D.

With s = 2 theta is 1.02e-34. A release whose T is above `MOST_SLACK` is refused, so that nothing of
it can be seen in an epsilon. The bound is tight where sigma is not small: a brute-force convolution
in one and two dimensions (`tests/privacy/test_discrete_bound.py`) stays below it, by at most 6 % at
m sigma^2 = 128. Step 2 for all t, and the rounding of sums, have inputs that reach nine tenths of
their bounds and more (`tests/privacy/test_rounding_bound.py`). At integer orders the Renyi
divergences of one subsampled discrete Gaussian are even those of the Gaussian, to the letter
(Mironov, Talwar and Zhang 2019: only the moments of a shift enter, and those of a whole shift are
the same); the tests check that, too.

Why not Skellam noise (Agarwal, Kairouz and Liu 2021): its sums are Skellam again, but its bound has
a term in the l1 norm of v, and no step like 2, so that PLD would need a new accountant.
"""

import math
from dataclasses import dataclass

from fedner.errors import FednerError

SMOOTHING = 2.0  # s
MOST_SLACK = 1e-12
_LEAST_DEVIATION = 4  # tau is below 1e-60 for any number of shares


@dataclass(frozen=True, slots=True)
class DiscreteNoise:
    """The discrete noise on a sum of whole numbers: public facts.

    Attributes:
        step: What the numbers count; a power of two.
        deviation: Sigma of one share, in steps; 0 is no noise.
        shares: How many shares are in every sum that is opened, at least, and unknown to whoever
            looks on.
        coordinates: How many numbers there are.
    """

    step: float
    deviation: int
    shares: int
    coordinates: int

    def __post_init__(self) -> None:
        are_counts = self.shares >= 1 and self.coordinates >= 0 and self.deviation >= 0
        is_step = math.isfinite(self.step) and math.frexp(self.step)[0] == 0.5
        if not (are_counts and is_step):
            raise FednerError(
                f"discrete noise of {self.shares} shares on {self.coordinates} numbers, deviation "
                f"{self.deviation} steps of {self.step}; expected counts, and a power of two"
            )
        if 0 < self.deviation < _LEAST_DEVIATION or self.slack > MOST_SLACK:
            raise FednerError(
                f"discrete noise of deviation {self.deviation} steps on {self.coordinates} "
                "numbers: too few steps for its bound",
                "Take a finer grid.",
            )

    @property
    def slack(self) -> float:
        """T of one step: how far logarithms of probabilities lie from those of the bound."""
        if not self.deviation:
            return 0.0
        return self.coordinates * (
            sum_slack(self.deviation, self.shares) + rounding_slack(SMOOTHING)
        )

    def sensitivity(self, max_norm: float) -> float:
        """Return how far a unit moves the whole numbers, at most, in steps.

        Its own norm, and what rounding both sums to the nearest whole numbers may add: half a step
        for each number and each of the two.
        """
        return max_norm / self.step + math.sqrt(self.coordinates)

    def multiplier(self, max_norm: float) -> float:
        """Return the noise multiplier of the Gaussian that costs no less."""
        variance = self.shares * self.deviation**2 - SMOOTHING**2
        return math.sqrt(max(variance, 0.0)) / self.sensitivity(max_norm)


def sum_slack(deviation: float, shares: int) -> float:
    """Return tau / 2: how far a sum of discrete Gaussians lies from one of them, in logarithms."""
    if shares == 1:
        return 0.0
    # The first term is the largest; one number for all keeps this cheap for many shares.
    return 5 * (shares - 1) * math.exp(-min(math.pi**2 * deviation**2, 700.0))


def rounding_slack(smoothing: float) -> float:
    """Return how far a rounded Gaussian lies from a discrete one, in logarithms."""
    theta = 2 * sum(math.exp(-2 * math.pi**2 * smoothing**2 * k * k) for k in range(1, 6))
    return math.log1p(theta) - math.log1p(-theta)


def share_deviation(multiplier: float, sensitivity: float, shares: int) -> int:
    """Return the least deviation of a share, in steps, whose sum costs what a multiplier says.

    Args:
        multiplier: The noise multiplier that the accountant is told.
        sensitivity: How far a unit moves the numbers, in steps.
        shares: How many shares are in every sum at least.
    """
    if multiplier == 0:
        return 0
    wanted = math.sqrt((multiplier * sensitivity) ** 2 + SMOOTHING**2)
    return max(_LEAST_DEVIATION, math.ceil(wanted / math.sqrt(shares) * (1 + 1e-12)))
