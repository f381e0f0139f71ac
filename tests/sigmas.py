"""Whether numbers have the standard deviation that noise was promised with."""

from torch import Tensor

# Noise of the system's entropy is another in every run: right noise is rejected once in 300 million
# times, two thirds and three halves of it are 50 standard errors away and more.
Z = 6.0


def accepts(values: Tensor, sigma: float) -> bool:
    """Whether the variance is that of sigma, to `Z` standard errors."""
    ratio = float(values.double().square().mean()) / sigma**2
    return abs(ratio - 1) < Z * (2 / values.numel()) ** 0.5


def only(values: Tensor, sigma: float) -> bool:
    """Whether sigma is accepted and 2/3 and 3/2 of it are rejected."""
    return accepts(values, sigma) and not any(accepts(values, sigma * f) for f in (2 / 3, 3 / 2))
