"""The fixed public alphabet, and words as codes of their characters.

Shapes: U distinct words, C characters of the longest.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedner.errors import FednerError

PADDING = 0
UNKNOWN = 1
MAX_LENGTH = 50


def _between(first: int, last: int) -> str:
    return "".join(map(chr, range(first, last + 1)))


# Order is part of every checkpoint: characters may be appended, never moved.
ALPHABET = (
    _between(0x20, 0x7E)  # printable ASCII
    + _between(0xA1, 0xFF)  # Latin-1: letters, currency, signs, fractions
    + _between(0x391, 0x3A1)  # Greek, upper case (there is no 0x3A2)
    + _between(0x3A3, 0x3A9)
    + _between(0x3B1, 0x3C9)  # Greek, lower case
    + "ΆΈΉΊΌΎΏάέήίόύώϊϋ"
    + "ŒœŠšŽžŸƒ"
    + "‐‑‒–—―‘’‚‛“”„‟†‡•…‰′″‹›⁄"
    + "€₤₣₹₽"
    + "™℠№℞℃℉"
    + "←↑→↓↔⇒"
    + "−∓∙√∞≈≠≤≥≡∆∑∏∂∫"
    + "⁰⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉"
    + "⅓⅔⅛⅜⅝⅞"
    + "■□▪●○◊★☆☐☑✓✔✗♀♂♥☺☹"
    + "\u00a0\u2009\u202f\t\ufffd"
)
NUM_CODES = len(ALPHABET) + 2


def _code_table() -> NDArray[np.int64]:
    table = np.full(0x10000, UNKNOWN, dtype=np.int64)
    table[[ord(character) for character in ALPHABET]] = np.arange(2, NUM_CODES)
    return table


_CODES = _code_table()


def encode_words(words: Sequence[str], max_length: int = MAX_LENGTH) -> NDArray[np.int64]:
    """Return the codes of the characters of each word, padded with 0 to the longest (U, C).

    Of a word longer than `max_length` the middle is left out: beginnings and endings tell most.
    Callers encode the distinct words of a corpus once and index the result.
    """
    if max_length < 2:
        raise FednerError(f"max_length is {max_length}", "Give at least 2 characters a word.")
    head = (max_length + 1) // 2
    tail = max_length - head
    kept = [w if len(w) <= max_length else w[:head] + w[-tail:] for w in words]
    lengths = np.fromiter(map(len, kept), dtype=np.int64, count=len(kept))
    longest = int(lengths.max(initial=0))
    codes_UC = np.full((len(kept), longest), PADDING, dtype=np.int64)
    points = np.frombuffer("".join(kept).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    codes = np.where(points < len(_CODES), _CODES[np.minimum(points, len(_CODES) - 1)], UNKNOWN)
    codes_UC[np.arange(longest) < lengths[:, None]] = codes
    return codes_UC
