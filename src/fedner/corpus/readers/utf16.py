"""Offsets that count UTF-16 code units, as Java and JavaScript tools give them.

A character beyond U+FFFF (an emoji) is two units there and one character here.
"""

from bisect import bisect_left
from collections.abc import Callable


def has_pairs(text: str) -> bool:
    """Whether some character of `text` takes two units, so that the two counts differ."""
    return not text.isascii() and max(text) > "\uffff"


def to_characters(text: str) -> Callable[[int], int]:
    """Return the function from offsets in UTF-16 units to offsets in characters of `text`.

    An offset within a pair means the beginning of its character. Offsets outside the text stay
    outside.
    """
    if not has_pairs(text):
        return _same
    # Where each such character begins, in units: those before it have shifted it.
    wide = [index for index, character in enumerate(text) if character > "\uffff"]
    begins = [index + count for count, index in enumerate(wide)]

    def convert(offset: int) -> int:
        return offset - bisect_left(begins, offset)

    return convert


def from_characters(text: str) -> Callable[[int], int]:
    """Return the function from offsets in characters of `text` to offsets in UTF-16 units."""
    if not has_pairs(text):
        return _same
    wide = [index for index, character in enumerate(text) if character > "\uffff"]

    def convert(offset: int) -> int:
        return offset + bisect_left(wide, offset)

    return convert


def _same(offset: int) -> int:
    return offset
