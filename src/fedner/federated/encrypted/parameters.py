"""Which CKKS a sum is encrypted with: how exact it is, how large its numbers may be.

Paper: Cheon et al. 2017, "Homomorphic encryption for arithmetic of approximate numbers". Decrypted
values carry the noise of the encryption, and whoever learns that noise learns the key (Li and
Micciancio 2021, "On the security of homomorphic encryption on approximate numbers"). So nothing
here is approximate: a number x is rounded to the whole number k nearest to x / step before it is
encrypted, k is encrypted with a scale that lifts it above the noise, and what is decrypted is
rounded again. With n summands, a ring of degree N and noise of standard deviation s in every
coefficient, the noise of a decrypted number has the standard deviation s * sqrt(n * N / 2) / scale.
The scale is the least whole number for which `_NUM_DEVIATIONS` of these are at most `_MOST_NOISE`:
the rounding then gives the sum of all k, the same at every platform, and nothing of the noise.

    error    at most n * step / 2 in all: the first rounding
    range    a ciphertext holds N / 2 numbers z; each coefficient of its polynomial is a mean of
             z times roots of one, so that it is at most norm(z) / sqrt(N / 2). The norms of all
             summands together are at most sqrt(N / 2) * 2**(bits of the modulus - 2) / scale steps

Sums need no multiplication: one prime is the modulus of all ciphertexts. `tenseal` wants a second
one for keys that are never used; no ciphertext has it, yet the bound on both together is that of
128 bits of security (Albrecht et al. 2018, "Homomorphic encryption standard", table 1).
"""

import math
from dataclasses import dataclass

from fedner.errors import FednerError

MOST_ERROR = 1e-6
# Ternary secrets, 128 bits of security against classical attacks: bits of all primes, by degree.
_MOST_BITS = {4096: 109, 8192: 218, 16384: 438}
_LEAST_PRIME, _MOST_PRIME = 30, 60
_LEAST_COUNT = 2**32
# Noise of a coefficient of a fresh ciphertext in SEAL, and what encoding rounds away.
_DEVIATION = math.sqrt(3.24**2 + 1 / 12)
_NUM_DEVIATIONS = 9  # exceeded with a probability of 2e-19 for a number
_MOST_NOISE = 0.45  # below a half, so that another key, or altered bytes, are noticed


@dataclass(frozen=True, slots=True)
class CkksParameters:
    """Public facts of an encrypted sum.

    Attributes:
        num_summands: How many platforms are added up at most.
        step: What whole numbers count.
        degree: N, of the ring; a ciphertext holds half as many numbers.
        modulus_bits: The bits of the prime that ciphertexts are taken modulo.
    """

    num_summands: int
    step: float = 2.0**-26
    degree: int = 4096
    modulus_bits: int = 48

    def __post_init__(self) -> None:
        """Refuse parameters that are not safe, not exact or leave no room."""
        if self.num_summands < 1:
            raise FednerError(f"encrypted sum: {self.num_summands} summands; expected at least 1")
        if not (self.step > 0 and math.isfinite(self.step)):
            raise FednerError(f"encrypted sum: step {self.step!r}; expected a number above 0")
        self._require_safe()
        if self.largest_error > MOST_ERROR:
            raise FednerError(
                f"encrypted sum: the error of {self.num_summands} summands with step "
                f"{self.step:g} is up to {self.largest_error:.2g}; expected at most {MOST_ERROR:g}",
                "Ask fewer platforms in a round (participation.sample).",
            )
        if self.largest_count < _LEAST_COUNT:
            raise FednerError(
                f"encrypted sum: with {self.num_summands} summands and {self.modulus_bits} bits "
                f"sums may have {self.largest_count} steps; expected at least {_LEAST_COUNT}"
            )

    @classmethod
    def for_range(cls, num_summands: int, largest: float) -> "CkksParameters":
        """Return those with the finest step for summands whose norms come to a number together.

        Args:
            num_summands: How many platforms are added up at most.
            largest: The largest norm of the numbers of one ciphertext.

        Raises:
            FednerError: If their error would be too large.
        """
        if not (math.isfinite(largest) and largest > 0):
            raise FednerError(f"encrypted sum: a range of {largest!r}; expected above 0")
        return cls(num_summands, largest / cls(num_summands).largest_count)

    def _require_safe(self) -> None:
        if self.degree not in _MOST_BITS:
            raise FednerError(
                f"encrypted sum: degree {self.degree}; expected one of {list(_MOST_BITS)}"
            )
        if not _LEAST_PRIME <= self.modulus_bits <= _MOST_PRIME:
            raise FednerError(
                f"encrypted sum: a modulus of {self.modulus_bits} bits; expected "
                f"{_LEAST_PRIME} to {_MOST_PRIME}"
            )
        if sum(self.prime_bits) > _MOST_BITS[self.degree]:
            raise FednerError(
                f"encrypted sum: primes of {sum(self.prime_bits)} bits with degree {self.degree}; "
                f"expected at most {_MOST_BITS[self.degree]} for 128 bits of security"
            )

    @property
    def prime_bits(self) -> tuple[int, int]:
        """The bits of the ciphertexts' prime, and of the other one."""
        return self.modulus_bits, min(self.modulus_bits + 1, _MOST_PRIME)

    @property
    def slots(self) -> int:
        """How many numbers a ciphertext holds."""
        return self.degree // 2

    @property
    def scale(self) -> float:
        """What whole numbers are multiplied by to stand above the noise."""
        noise = self._noise_deviations()
        return float(math.ceil(noise / _MOST_NOISE))

    @property
    def most_noise(self) -> float:
        """How far a decrypted sum may lie from a whole number."""
        return self._noise_deviations() / self.scale

    def _noise_deviations(self) -> float:
        deviation = _DEVIATION * math.sqrt(self.num_summands * self.degree / 2)
        return _NUM_DEVIATIONS * deviation

    @property
    def largest_error(self) -> float:
        """How far a decrypted sum may lie from the sum of the numbers."""
        return self.num_summands * self.step / 2

    @property
    def largest_count(self) -> int:
        """The largest norm of the numbers of one ciphertext, as a multiple of the step."""
        return int(math.sqrt(self.slots) * 2.0 ** (self.modulus_bits - 2) / self.scale)

    @property
    def largest(self) -> float:
        """The largest norm of the numbers of one ciphertext."""
        return self.largest_count * self.step

    def __str__(self) -> str:
        """Return them in one line: what is signed, and named in the docs."""
        return (
            f"ckks {self.num_summands} {self.step.hex()} {self.degree} {self.modulus_bits} "
            f"{int(self.scale)}"
        )
