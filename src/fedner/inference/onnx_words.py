"""From words to the numbers that an exported tagger takes: rows of its table, codes of characters.

The rules of `models/embeddings/words.py` and `characters.py`, from what the export says in
`tagger.json` alone; nothing here needs torch. Whoever runs an export in another language writes
just these functions again:

- The row of a hashed word is 1 + h mod buckets, where h is the BLAKE2b digest of 8 bytes of the
  word in UTF-8, read as a little-endian number, lower-cased first if `lowercase` is "always".
- With word vectors the row stands in `vocabulary.json`: of the word as it is unless `lowercase` is
  "always", then of the lower-cased word unless it is "never". A word that is in neither has row 1,
  or, if `unknown` is "hash-bucket", that of a hashed word (lower-cased unless "never").
- The code of a character is its place in `alphabet` plus 2, or 1 if it is not there; of a word
  longer than `max_length` the middle is left out, the beginning keeping the odd character.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FIRST_ROW = 1
UNKNOWN_CODE, FIRST_CODE = 1, 2

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WordRules:
    """How words become rows of the table.

    Attributes:
        lowercase: "never", "fallback" or "always".
        unknown: What a word gets that the vocabulary lacks: "row" or "hash-bucket".
        buckets: How many rows hashed words fall into.
        vocabulary: The row of each word; empty where all words are hashed.
    """

    lowercase: str
    unknown: str
    buckets: int
    vocabulary: Mapping[str, int] = field(default_factory=dict, repr=False)

    def rows(self, words: Sequence[str]) -> Indices:
        """Return the row of each word."""
        return np.fromiter((self._row(word) for word in words), np.int64, count=len(words))

    def _row(self, word: str) -> int:
        row = None if self.lowercase == "always" else self.vocabulary.get(word)
        if row is None and self.lowercase != "never":
            word = word.lower()
            row = self.vocabulary.get(word)
        if row is not None:
            return row
        if self.unknown != "hash-bucket":
            return FIRST_ROW
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return FIRST_ROW + int.from_bytes(digest, "little") % self.buckets


@dataclass(frozen=True, slots=True)
class CharacterRules:
    """How words become codes of characters.

    Attributes:
        codes: The code of each character of the alphabet.
        max_length: How many characters of a word are read.
    """

    codes: Mapping[str, int] = field(repr=False)
    max_length: int

    @classmethod
    def of(cls, alphabet: str, max_length: int) -> "CharacterRules":
        """Return the rules of an alphabet."""
        codes = {character: code for code, character in enumerate(alphabet, start=FIRST_CODE)}
        return cls(codes, max_length)

    def encode(self, words: Sequence[str]) -> Indices:
        """Return (U, C) the codes of each word, 0 behind its end; C is at least 1."""
        head = (self.max_length + 1) // 2
        tail = self.max_length - head
        kept = [w if len(w) <= self.max_length else w[:head] + w[-tail:] for w in words]
        codes_UC = np.zeros((len(kept), max([1, *map(len, kept)])), np.int64)
        for row, word in enumerate(kept):
            codes_UC[row, : len(word)] = [self.codes.get(each, UNKNOWN_CODE) for each in word]
        return codes_UC
