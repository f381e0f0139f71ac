"""Rows of numbers, encrypted: a platform encrypts, the server adds, platforms decrypt.

A row travels as its ciphertexts one after the other, each behind its length. Whoever reads them
holds every ciphertext against the public parameters first: how many there are, their scale, their
size. What is decrypted is rounded to whole numbers in here, before anybody sees it (`parameters`
says why).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedner.errors import FednerError
from fedner.federated.encrypted.keys import KeylessContext, RunKey
from fedner.federated.encrypted.parameters import CkksParameters
from fedner.federated.grid import OutOfRangeError
from fedner.federated.secure.wire import packed, unpacked
from fedner.federated.tensor_bytes import NotFiniteError

Row = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
_HEADER_BYTES = 512  # of one ciphertext, at most


class DecryptionError(FednerError):
    """What was decrypted is no sum of whole numbers: another key, or altered bytes.

    Its key must not be used again: a server that sees whether bytes that it altered are refused
    learns something of the noise, once (`platform_side`).
    """


@dataclass(frozen=True, slots=True)
class Ciphertexts:
    """An encrypted row, or the sum of some.

    Attributes:
        num_numbers: How many numbers it has.
        data: The ciphertexts in bytes.
    """

    num_numbers: int
    data: bytes


def encrypt(key: RunKey, values: npt.ArrayLike, share: float) -> Ciphertexts:
    """Return a row of numbers, rounded and encrypted.

    Args:
        key: The key of the run.
        values: The numbers, in one row.
        share: Which part of the range is the platform's: its weight among all.

    Raises:
        NotFiniteError: If a number is not finite.
        OutOfRangeError: If the sum could leave its range.
    """
    import tenseal

    found = key.parameters
    counts = rounded_counts(found, values, share)
    parts = (
        tenseal.ckks_vector(key.context, each.tolist(), found.scale).serialize()
        for each in _pieces(counts, found.slots)
    )
    return Ciphertexts(counts.size, packed(*parts))


def rounded_counts(parameters: CkksParameters, values: npt.ArrayLike, share: float) -> Row:
    """Return numbers as whole multiples of the step, if they are within a share of the range.

    Raises:
        NotFiniteError: If a number is not finite.
        OutOfRangeError: If one is outside of the share.
    """
    if not 0 < share <= 1:
        raise FednerError(f"encrypted sum: a share of {share!r}; expected above 0, at most 1")
    with np.errstate(over="ignore"):  # infinity is refused below
        counts = np.multiply(values, 1 / parameters.step, dtype=np.float64)
    np.rint(counts, out=counts)
    if counts.ndim != 1:
        raise FednerError(f"encrypted sum: numbers of {counts.ndim} dimensions; expected one row")
    largest = float(np.abs(counts).max()) if counts.size else 0.0
    if not math.isfinite(largest):
        raise NotFiniteError("numbers refused before they are encrypted: some are not finite")
    if largest > math.floor(share * parameters.largest_count):
        raise OutOfRangeError(
            f"numbers refused before they are encrypted: some are larger than "
            f"{share * parameters.largest:g}, this platform's share of the range",
            "Lower the learning rate or max_grad_norm: no sound update is that large.",
        )
    return counts


def _pieces(row: Row, length: int) -> Iterable[Row]:
    return (row[begin : begin + length] for begin in range(0, row.size, length))


class RunningSum:
    """The server's sum of encrypted rows: one is in memory beside it at a time."""

    def __init__(self, keyless: KeylessContext, num_numbers: int) -> None:
        """Make an empty sum.

        Args:
            keyless: Public parameters.
            num_numbers: How many numbers each row has.
        """
        self._keyless, self._num_numbers = keyless, num_numbers
        self._total: list[Any] = []
        self.num_summands = 0

    def add(self, row: Ciphertexts) -> None:
        """Add a row; one that is not sound leaves the sum as it was.

        Raises:
            FednerError: If it is not of the parameters, or there are too many.
        """
        parameters = self._keyless.parameters
        if self.num_summands >= parameters.num_summands:
            raise FednerError(
                f"encrypted sum: more rows than {parameters.num_summands}, which its noise allows"
            )
        vectors = read_vectors(self._keyless.context, parameters, row, self._num_numbers)
        if not self._total:
            self._total = vectors
        else:
            for total, vector in zip(self._total, vectors, strict=True):
                total += vector
        self.num_summands += 1

    def total(self) -> Ciphertexts:
        """Return the sum.

        Raises:
            FednerError: If nothing was added.
        """
        if not self.num_summands:
            raise FednerError("encrypted sum: no row was added")
        return Ciphertexts(self._num_numbers, packed(*(each.serialize() for each in self._total)))


def decrypt_counts(key: RunKey, total: Ciphertexts, num_numbers: int) -> Counts:
    """Return a decrypted sum as whole multiples of the step: exact, and without the noise.

    Raises:
        FednerError: If the ciphertexts are not of the parameters.
        DecryptionError: If they hold no whole numbers: do not use the key again.
    """
    vectors = read_vectors(key.context, key.parameters, total, num_numbers)
    numbers = np.empty(num_numbers, np.float64)
    begin = 0
    for vector in vectors:
        piece = vector.decrypt()
        numbers[begin : begin + len(piece)] = piece
        begin += len(piece)
    whole = np.rint(numbers)
    is_sound = np.abs(numbers - whole) <= key.parameters.most_noise
    is_sound &= np.abs(whole) <= key.parameters.largest_count
    if not is_sound.all():
        raise DecryptionError(
            "the encrypted sum does not decrypt to whole numbers: another key, or altered bytes",
            "The run cannot go on with its key. Ask who runs the server what happened, then begin "
            "another run.",
        )
    return whole.astype(np.int64)


def decrypt(key: RunKey, total: Ciphertexts, num_numbers: int) -> Row:
    """Return a decrypted sum, rounded: bit for bit the same at every platform.

    Raises:
        FednerError: If the ciphertexts are not of the parameters.
        DecryptionError: If they hold no whole numbers: do not use the key again.
    """
    numbers: Row = decrypt_counts(key, total, num_numbers) * np.float64(key.parameters.step)
    return numbers


def read_vectors(
    context: Any, parameters: CkksParameters, row: Ciphertexts, num_numbers: int
) -> list[Any]:
    """Return the ciphertexts of a row, each held against the parameters.

    Raises:
        FednerError: If they are others.
    """
    import tenseal

    lengths = _lengths(num_numbers, parameters.slots)
    if row.num_numbers != num_numbers:
        raise FednerError(
            f"encrypted sum: a row of {row.num_numbers} numbers; expected {num_numbers}"
        )
    parts = unpacked(row.data, len(lengths))
    vectors = []
    for data, length in zip(parts, lengths, strict=True):
        if len(data) > 2 * parameters.degree * 8 + _HEADER_BYTES:
            raise FednerError(f"encrypted sum: a ciphertext of {len(data)} bytes")
        try:
            vector = tenseal.ckks_vector_from(context, data)
        except Exception as error:
            raise FednerError("encrypted sum: a ciphertext that cannot be read") from error
        if not _is_fresh(vector, parameters, length):
            raise FednerError("encrypted sum: a ciphertext of other parameters")
        vectors.append(vector)
    return vectors


def _lengths(num_numbers: int, slots: int) -> Sequence[int]:
    return [min(slots, num_numbers - begin) for begin in range(0, num_numbers, slots)]


def _is_fresh(vector: Any, parameters: CkksParameters, length: int) -> bool:
    """Whether a ciphertext is one of `encrypt`, or a sum of such.

    Its ring and its modulus are those of the context: SEAL reads no other.
    """
    held = vector.ciphertext()
    return bool(
        len(held) == 1
        and held[0].size() == 2
        and held[0].scale == parameters.scale
        and vector.size() == length
    )
