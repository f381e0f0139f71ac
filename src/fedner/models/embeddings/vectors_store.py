"""The store of word vectors: memory-mapped, opened in milliseconds, shared between processes.

A folder (see `mapped.py` for its seal) with

    vectors.npy     V x D float32, the matrix
    words.utf8      all words, one after the other
    offsets.npy     where each word begins in it, int64, one more than there are words
    hashes.npy      the 64-bit hashes of the words, sorted
    entries.npy     which word each hash belongs to
    rows.npy        the row of each word (several words may share one)
    statistics.npy  mean and standard deviation of each dimension over the rows

No dictionary of hundreds of thousands of strings is ever built: words are found by binary search
over their hashes, all at once, and compared byte for byte.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedner.errors import FednerError
from fedner.models.embeddings.mapped import ABOUT, CheckedMatrix, open_matrix, seal, unseal

KIND = "fedner word vectors"
VERSION = 1
MATRIX = "vectors.npy"
FIX = "Delete the folder; it is made again from the source file of the vectors at the next use."


class StoreFacts(NamedTuple):
    """What a store says about itself.

    Attributes:
        source: The name of the file that it was made from, without its folder.
        sha256: The digest of that file as it lay on disk.
        num_words: How many words it has.
        num_rows: How many vectors.
        dimension: How many numbers a vector has.
        num_duplicates: How many lines repeated a word, and were left out.
        is_lowercased: Whether no word has an upper-case letter.
        num_skipped: How many words of a binary file can stand in no text (not UTF-8, or empty),
            and were left out.
    """

    source: str
    sha256: str
    num_words: int
    num_rows: int
    dimension: int
    num_duplicates: int
    is_lowercased: bool
    num_skipped: int = 0


@dataclass(frozen=True, slots=True)
class VectorStore:
    """An open store: the matrix and the index of its words.

    Attributes:
        folder: Where it is.
        facts: What it says about itself.
        matrix: The vectors, checked as they are used.
        statistics: Mean and standard deviation of each dimension, 2 x D.
    """

    folder: Path
    facts: StoreFacts
    matrix: CheckedMatrix
    statistics: NDArray[np.float32]
    _words: NDArray[np.uint8]
    _offsets: NDArray[np.int64]
    _hashes: NDArray[np.uint64]
    _entries: NDArray[np.int64]
    _rows: NDArray[np.int64]

    def find(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each word, or -1 where the store does not have it."""
        encoded = [as_bytes(word) for word in words]
        hashes = hash_words(encoded)
        positions = np.searchsorted(self._hashes, hashes)
        inside = np.minimum(positions, max(0, len(self._hashes) - 1))
        found = np.full(len(words), -1, dtype=np.int64)
        if len(self._hashes) == 0:
            return found
        for index in np.flatnonzero(self._hashes[inside] == hashes).tolist():
            found[index] = self._row_from(int(positions[index]), encoded[index])
        return found

    def words(self) -> Iterable[str]:
        """Give the words in the order of the source."""
        blob, offsets = self._words.tobytes(), self._offsets.tolist()
        for start, end in pairwise(offsets):
            yield blob[start:end].decode("utf-8", "surrogatepass")

    def _row_from(self, position: int, word: bytes) -> int:
        # Different words may share a hash: walk over all entries that do.
        wanted = self._hashes[position]
        while position < len(self._hashes) and self._hashes[position] == wanted:
            entry = self._entries[position]
            start, end = int(self._offsets[entry]), int(self._offsets[entry + 1])
            if end - start == len(word) and self._words[start:end].tobytes() == word:
                return int(self._rows[entry])
            position += 1
        return -1


class WordIndexWriter:
    """Takes words one by one, tells repeated ones, and writes the index of a store.

    Attributes:
        num_duplicates: How many words came a second time.
        is_lowercased: Whether no word so far has an upper-case letter.
    """

    def __init__(self) -> None:
        self._rows: dict[bytes, int] = {}
        self.num_duplicates = 0
        self.is_lowercased = True

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, word: bytes, row: int) -> bool:
        """Take a word in UTF-8; return False where it came before, and the first one stands."""
        if word in self._rows:
            self.num_duplicates += 1
            return False
        self._rows[word] = row
        if self.is_lowercased:
            text = word.decode("utf-8", "surrogatepass")
            self.is_lowercased = text == text.lower()
        return True

    def write(self, folder: Path) -> None:
        """Write the words and their index into `folder`."""
        words = list(self._rows)
        (folder / "words.utf8").write_bytes(b"".join(words))
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        hashes = hash_words(words)
        order = np.argsort(hashes, kind="stable").astype(np.int64)
        arrays = {
            "offsets": np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
            "hashes": hashes[order],
            "entries": order,
            "rows": np.fromiter(self._rows.values(), dtype=np.int64, count=len(words)),
        }
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)


class MatrixWriter:
    """Streams the rows of a float32 matrix into a .npy file and sums up their statistics."""

    def __init__(self, handle: BinaryIO, dimension: int) -> None:
        self._handle = handle
        self.dimension = dimension
        self._sum = np.zeros(dimension)
        self._squares = np.zeros(dimension)
        self.num_rows = 0
        self._write_header()

    def append(self, rows: NDArray[np.float32]) -> None:
        """Write a block of rows."""
        self._handle.write(np.ascontiguousarray(rows, dtype="<f4").data)
        wide = rows.astype(np.float64)
        self._sum += wide.sum(axis=0)
        self._squares += (wide * wide).sum(axis=0)
        self.num_rows += len(rows)

    def finish(self) -> NDArray[np.float32]:
        """Write the final number of rows; return mean and standard deviation by dimension."""
        self._handle.seek(0)
        self._write_header()
        mean = self._sum / max(1, self.num_rows)
        variance = np.maximum(self._squares / max(1, self.num_rows) - mean**2, 0.0)
        return np.stack([mean, np.sqrt(variance)]).astype(np.float32)

    def _write_header(self) -> None:
        # NumPy leaves room in the header for the first axis to grow, for just this use.
        header = {"descr": "<f4", "fortran_order": False, "shape": (self.num_rows, self.dimension)}
        np.lib.format.write_array_header_1_0(self._handle, header)


def seal_store(folder: Path, facts: StoreFacts, statistics: NDArray[np.float32]) -> None:
    """Close a store that is filled: write its statistics and its seal."""
    np.save(folder / "statistics.npy", statistics, allow_pickle=False)
    seal(folder, KIND, VERSION, MATRIX, {"facts": facts._asdict()})


def is_store(path: Path) -> bool:
    """Whether `path` is a folder with a seal."""
    return (path / ABOUT).is_file()


def open_store(folder: Path) -> VectorStore:
    """Open a converted store.

    Raises:
        FednerError: If it is of another version, or a file is missing, cut short or altered.
    """
    record, matrix_path = unseal(folder, KIND, VERSION, FIX)
    given = record.get("facts")
    # Stores that were made before a fact was added do without it.
    needed = set(StoreFacts._fields) - set(StoreFacts._field_defaults)
    if not isinstance(given, dict) or not needed <= set(given) <= set(StoreFacts._fields):
        raise FednerError(f"{folder / ABOUT} lacks the facts of a vector store", FIX)
    facts = StoreFacts(**given)
    matrix = open_matrix(matrix_path, FIX)
    if (matrix.num_rows, matrix.dimension) != (facts.num_rows, facts.dimension):
        raise FednerError(
            f"{matrix_path} is {matrix.num_rows:,} x {matrix.dimension}; "
            f"expected {facts.num_rows:,} x {facts.dimension}",
            FIX,
        )
    words_path = folder / "words.utf8"
    # An empty file cannot be mapped.
    is_empty = words_path.stat().st_size == 0
    words = np.empty(0, np.uint8) if is_empty else np.memmap(words_path, np.uint8, mode="r")
    names = ("offsets", "hashes", "entries", "rows")
    index = [np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names]
    statistics = np.load(folder / "statistics.npy", allow_pickle=False)
    return VectorStore(folder, facts, matrix, statistics, words, *index)


def as_bytes(word: str) -> bytes:
    """Return the word in UTF-8; a lone surrogate, which some JSON gives, is no reason to fail."""
    return word.encode("utf-8", "surrogatepass")


def hash_words(words: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each word that is the same on every machine and in every process."""
    joined = b"".join(hashlib.blake2b(word, digest_size=8).digest() for word in words)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64)
