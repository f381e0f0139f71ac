"""The binary format of word2vec, streamed: word bytes, a blank, float32 numbers, little endian.

A first line "words dimension" in ASCII, then record after record. The C tool of Mikolov et al.
(2013) ends every record with a line break, gensim's `KeyedVectors.save_word2vec_format(...,
binary=True)` does not; both are read, as gensim's own reader does, by taking line breaks off the
beginning of a word.

The C tool cuts words after 100 bytes, through the middle of a character if need be. A word that is
not UTF-8, or is empty, can stand in no text: its record is left out and counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedner.errors import FednerError
from fedner.models.embeddings.vectors_source import HEADER

CHUNK_BYTES = 1 << 20
# Longer than any published word or vector: beyond them the file is something else, or damaged.
LONGEST_WORD = 1 << 12
MOST_DIMENSIONS = 1 << 16
_LONGEST_HEADER = 128
HINT = (
    "The file is damaged or no word2vec binary: fetch it again, and compare its size and digest "
    "with the published ones."
)


@dataclass(frozen=True, slots=True)
class Block:
    """Some records, one after the other.

    Attributes:
        first: The number of the first record, counted from 1.
        words: Their words, as bytes.
        rows: Their vectors.
    """

    first: int
    words: list[bytes]
    rows: NDArray[np.float32]


def read_header(source: BinaryIO, path: Path) -> tuple[int, int]:
    """Read the first line; return how many words follow, and how many numbers each has.

    Raises:
        FednerError: It is none, or its numbers cannot be.
    """
    line = source.readline(_LONGEST_HEADER)
    found = HEADER.fullmatch(line)
    if found is None:
        raise FednerError(
            f"{path}: the first line is {line[:40]!a}; expected: words dimension", HINT
        )
    num_words, dimension = int(found[1]), int(found[2])
    if not num_words or not 0 < dimension <= MOST_DIMENSIONS:
        raise FednerError(
            f"{path} declares {num_words:,} words of {dimension:,} numbers; expected at least one "
            f"word, and between 1 and {MOST_DIMENSIONS:,} numbers",
            HINT,
        )
    return num_words, dimension


def blocks(source: BinaryIO, path: Path, num_words: int, dimension: int) -> Iterator[Block]:
    """Give the records after the header, a chunk of the file at a time.

    Args:
        source: The file, read up to the end of its header.
        path: What to call it.
        num_words: How many records there are.
        dimension: How many numbers each has.

    Raises:
        FednerError: The file is cut short, goes on after the last record, or has no word where
            one must begin.
    """
    buffer, number, vector_bytes = b"", 0, 4 * dimension
    while number < num_words:
        chunk = source.read(CHUNK_BYTES)
        buffer += chunk
        words, vectors, position = _split(buffer, num_words - number, vector_bytes)
        if words:
            rows = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, dimension)
            yield Block(number + 1, words, rows)
        number += len(words)
        buffer = buffer[position:]
        if number < num_words:
            _check_rest(buffer, path, number + 1, num_words, vector_bytes, is_end=not chunk)
    rest = (buffer + source.read(CHUNK_BYTES)).strip(b"\r\n")
    if rest:
        raise FednerError(
            f"{path} goes on after record {num_words:,}, the last that its first line declares, "
            f"with {rest[:40]!a}",
            HINT,
        )


def _split(buffer: bytes, most: int, vector_bytes: int) -> tuple[list[bytes], list[bytes], int]:
    """Return words and vectors of the whole records in `buffer`, and where the rest begins."""
    words: list[bytes] = []
    vectors: list[bytes] = []
    position = 0
    while len(words) < most:
        blank = buffer.find(b" ", position, position + LONGEST_WORD)
        end = blank + 1 + vector_bytes
        if blank < 0 or end > len(buffer):
            break
        words.append(buffer[position:blank].lstrip(b"\n"))
        vectors.append(buffer[blank + 1 : end])
        position = end
    return words, vectors, position


def _check_rest(
    rest: bytes, path: Path, record: int, num_words: int, vector_bytes: int, *, is_end: bool
) -> None:
    """Refuse a record that can never become whole."""
    blank = rest.find(b" ", 0, LONGEST_WORD)
    if blank < 0 and len(rest) >= LONGEST_WORD:
        raise FednerError(
            f"{path}: record {record:,} has no word: no blank within {LONGEST_WORD:,} bytes, found "
            f"{rest[:40]!a}",
            HINT,
        )
    if is_end:
        found = "no word" if blank < 0 else f"{len(rest) - blank - 1:,} of {vector_bytes:,} bytes"
        raise FednerError(
            f"{path} is cut short: record {record:,} of {num_words:,} has {found}", HINT
        )
