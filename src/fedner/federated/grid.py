"""Numbers as whole multiples of a step, modulo a power of two: what masks are added to.

Floats cannot be masked: their sums are rounded, so masks would not cancel. On a grid with step s
and b bits a number x travels as the word

    k mod 2**b,   k = the whole number nearest to x / s

and words are added modulo 2**b, which is exact. The sum of n words is read as a signed number and
multiplied by s. b is 32 or 64, the width of a word: in a wider word than the modulus the sum would
also tell how many of the numbers are below 0. Stated for n summands:

    range    each |k| is at most (2**(b - 1) - 1) // n, so that no sum can wrap around
    error    at most n * s / 2 in all, nothing for numbers that are multiples of s

A number outside the range, or one that is not finite, is refused before anything is masked. The
step is a power of two: then x / s and k * s are exact in float64 as far as its 53 bits go.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedner.errors import FednerError
from fedner.federated.tensor_bytes import NotFiniteError

Words = npt.NDArray[Any]
_WIDTHS = (32, 64)


class OutOfRangeError(FednerError):
    """A number that does not fit a grid."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A step, and how many bits a sum has.

    Attributes:
        step: What words count; a power of two.
        bits: 32 or 64: sums are taken modulo 2**bits.
    """

    step: float
    bits: int = 64

    def __post_init__(self) -> None:
        """Refuse a step or a width that would not be exact."""
        is_power = self.step > 0 and math.isfinite(self.step) and math.frexp(self.step)[0] == 0.5
        if not is_power or not 2.0**-500 <= self.step <= 2.0**500:
            raise FednerError(
                f"grid: found the step {self.step!r}; expected a power of two",
                "With any other step, numbers would be rounded twice.",
            )
        if self.bits not in _WIDTHS:
            raise FednerError(f"grid: found {self.bits!r} bits; expected 32 or 64")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a word."""
        return np.dtype(np.uint32 if self.bits == 32 else np.uint64)

    def largest_count(self, num_summands: int) -> int:
        """Return the largest |k| of which so many can be added."""
        if num_summands < 1:
            raise FednerError(f"grid: found {num_summands} summands; expected at least 1")
        return ((1 << (self.bits - 1)) - 1) // num_summands

    def largest(self, num_summands: int) -> float:
        """Return the largest absolute value of which so many can be added."""
        count = self.largest_count(num_summands)
        whole = float(count)  # may be rounded up
        return (whole if int(whole) <= count else math.nextafter(whole, 0.0)) * self.step

    def largest_error(self, num_summands: int) -> float:
        """Return how far the decoded sum of so many may lie from the sum of the numbers."""
        return num_summands * self.step / 2

    def encode(self, values: npt.ArrayLike, num_summands: int) -> Words:
        """Return numbers as words, each the nearest multiple of the step.

        Args:
            values: float32 or float64, of any shape.
            num_summands: How many such arrays are added up at most.

        Raises:
            NotFiniteError: If a number is not finite.
            OutOfRangeError: If the sum could wrap around.
        """
        with np.errstate(over="ignore"):  # infinity is refused below
            counts = np.multiply(values, 1 / self.step, dtype=np.float64)
        np.rint(counts, out=counts)
        if not counts.size:
            return counts.astype(self.dtype)
        least, most = float(counts.min()), float(counts.max())
        if not (math.isfinite(least) and math.isfinite(most)):
            raise NotFiniteError("numbers refused before they are masked: some are not finite")
        self._require_range(int(least), int(most), num_summands)
        return self._wrapped(counts.astype(np.int64))

    def encode_counts(self, counts: npt.NDArray[np.int64], num_summands: int) -> Words:
        """Return numbers that are given as whole multiples of the step.

        Raises:
            OutOfRangeError: If the sum could wrap around.
        """
        if counts.dtype != np.int64:
            raise FednerError(f"grid: found counts of type {counts.dtype}; expected int64")
        if counts.size:
            self._require_range(int(counts.min()), int(counts.max()), num_summands)
        return self._wrapped(counts)

    def decode(self, total: Words) -> npt.NDArray[np.float64]:
        """Return the numbers that a sum of words stands for."""
        return self.decode_counts(total) * np.float64(self.step)

    def decode_counts(self, total: Words) -> npt.NDArray[np.int64]:
        """Return a sum of words as signed multiples of the step."""
        if total.dtype != self.dtype:
            raise FednerError(f"grid: found words of type {total.dtype}; expected {self.dtype}")
        counts: npt.NDArray[np.int64] = total.view(f"i{total.itemsize}").astype(np.int64)
        return counts

    def _wrapped(self, counts: npt.NDArray[np.int64]) -> Words:
        return counts.view(np.uint64).astype(self.dtype)

    def _require_range(self, least: int, most: int, num_summands: int) -> None:
        largest = self.largest_count(num_summands)
        if max(-least, most) <= largest:
            return
        # The number itself is not told: it is a platform's own.
        limit = f"{self.largest(num_summands):g}"
        raise OutOfRangeError(
            f"numbers refused before they are masked: some are larger than {limit}, of which "
            f"{num_summands} can be added in {self.bits} bits with step {self.step:g}",
            "Lower the learning rate or max_grad_norm: no sound update is that large.",
        )
