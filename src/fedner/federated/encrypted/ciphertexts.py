"""Rows of numbers, encrypted: a platform encrypts, the server adds, platforms decrypt.

A row travels as its ciphertexts one after the other, each behind its length. Whoever reads them
holds every ciphertext against the public parameters first: how many there are, their scale, their
size. What is decrypted is rounded to whole numbers in here, before anybody sees it (`parameters`
says why).
"""

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
    pieces = rounded_counts(found, values, share)
    parts = (
        tenseal.ckks_vector(key.context, each.tolist(), found.scale).serialize() for each in pieces
    )
    return Ciphertexts(np.size(values), packed(*parts))


def rounded_counts(parameters: CkksParameters, values: npt.ArrayLike, share: float) -> Row:
    """Return numbers as whole multiples of the step, a row for each ciphertext.

    Zeros fill up the last row; they are checked too when the sum is decrypted.

    Raises:
        NotFiniteError: If a number is not finite.
        OutOfRangeError: If the norm of a row is outside of the platform's share of the range.
    """
    if not 0 < share <= 1:
        raise FednerError(f"encrypted sum: a share of {share!r}; expected above 0, at most 1")
    with np.errstate(over="ignore"):  # infinity is refused below
        counts = np.multiply(values, 1 / parameters.step, dtype=np.float64)
    np.rint(counts, out=counts)
    if counts.ndim != 1:
        raise FednerError(f"encrypted sum: numbers of {counts.ndim} dimensions; expected one row")
    if not np.isfinite(counts).all():
        raise NotFiniteError("numbers refused before they are encrypted: some are not finite")
    pieces = np.zeros((-(-counts.size // parameters.slots), parameters.slots))
    pieces.reshape(-1)[: counts.size] = counts
    if (_norms(pieces) > share * parameters.largest_count).any():
        raise OutOfRangeError(
            f"numbers refused before they are encrypted: the norm of {parameters.slots} of them is "
            f"above {share * parameters.largest:g}, this platform's share of the range",
            "Lower the learning rate or max_grad_norm: no sound update is that large.",
        )
    return pieces


def _norms(pieces: Row) -> Row:
    with np.errstate(over="ignore"):  # infinity is above every bound
        found: Row = np.sqrt(np.square(pieces).sum(axis=1))
    return found


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
    numbers = np.empty((len(vectors), key.parameters.slots), np.float64)
    for piece, vector in zip(numbers, vectors, strict=True):
        piece[:] = vector.decrypt()
    whole = np.rint(numbers)
    is_sound = bool((np.abs(numbers - whole) <= key.parameters.most_noise).all())
    is_sound &= bool((_norms(whole) <= key.parameters.largest_count).all())
    found = whole.reshape(-1)
    if not is_sound or found[num_numbers:].any():
        raise DecryptionError(
            "the encrypted sum does not decrypt to whole numbers: another key, or altered bytes",
            "The run cannot go on with its key. Ask who runs the server what happened, then begin "
            "another run.",
        )
    return found[:num_numbers].astype(np.int64)


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

    if row.num_numbers != num_numbers:
        raise FednerError(
            f"encrypted sum: a row of {row.num_numbers} numbers; expected {num_numbers}"
        )
    vectors = []
    for data in unpacked(row.data, -(-num_numbers // parameters.slots)):
        if len(data) > 2 * parameters.degree * 8 + _HEADER_BYTES:
            raise FednerError(f"encrypted sum: a ciphertext of {len(data)} bytes")
        try:
            vector = tenseal.ckks_vector_from(context, data)
        except Exception as error:
            raise FednerError("encrypted sum: a ciphertext that cannot be read") from error
        if not _is_fresh(vector, parameters):
            raise FednerError("encrypted sum: a ciphertext of other parameters")
        vectors.append(vector)
    return vectors


def _is_fresh(vector: Any, parameters: CkksParameters) -> bool:
    """Whether a ciphertext is one of `encrypt`, or a sum of such.

    Its ring and its modulus are those of the context: SEAL reads no other.
    """
    held = vector.ciphertext()
    return bool(
        len(held) == 1
        and held[0].size() == 2
        and held[0].scale == parameters.scale
        and vector.size() == parameters.slots
    )
