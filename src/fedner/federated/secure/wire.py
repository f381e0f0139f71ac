"""Bytes that can be read in one way only: what is signed, derived from, or sent to others."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from fedner.errors import FednerError

Part = bytes | str | int
_LENGTH = struct.Struct(">I")
_NUMBER_BYTES = 8


def packed(*parts: Part) -> bytes:
    """Return parts one after the other, each behind its length.

    >>> packed("ab", b"c").hex()
    '0000000261620000000163'
    """
    return b"".join(_LENGTH.pack(len(each)) + each for each in map(_as_bytes, parts))


def _as_bytes(part: Part) -> bytes:
    if isinstance(part, int):
        return part.to_bytes(_NUMBER_BYTES, "big")
    return part.encode() if isinstance(part, str) else part


def unpacked(data: bytes, number: int) -> list[bytes]:
    """Return the parts that `packed` joined.

    Raises:
        FednerError: If they are not exactly so many.
    """
    parts = list(_parts(data))
    if len(parts) != number:
        raise FednerError(f"a message of {len(parts)} parts; expected {number}")
    return parts


def _parts(data: bytes) -> Iterator[bytes]:
    begin = 0
    while begin < len(data):
        end = begin + _LENGTH.size
        if end > len(data):
            raise FednerError("a message that was cut short")
        (length,) = _LENGTH.unpack_from(data, begin)
        begin, end = end, end + length
        if end > len(data):
            raise FednerError("a message that was cut short")
        yield data[begin:end]
        begin = end


@dataclass(frozen=True, slots=True)
class Context:
    """Which sum it is: in every signature and every derived key.

    Attributes:
        study: The digest of the study.
        run: The run.
        round: The round.
        num_platforms: n of its terms.
        colluding: c of its terms.
        grid: Step and bits of the numbers.
    """

    study: str
    run: str
    round: int
    num_platforms: int
    colluding: int
    grid: str

    def to_bytes(self) -> bytes:
        """Return it in bytes."""
        return packed(
            "fedner secure sum/1",
            self.study,
            self.run,
            self.round,
            self.num_platforms,
            self.colluding,
            self.grid,
        )


def names_bytes(names: Sequence[str]) -> bytes:
    """Return a list of platforms in bytes, sorted."""
    return packed(*sorted(names))


def digest(*parts: Part) -> bytes:
    """Return the SHA-256 of parts."""
    return sha256(packed(*parts)).digest()
