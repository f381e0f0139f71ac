"""Reading word vectors as they are published, once, into the memory-mapped store.

Text files of GloVe, word2vec and fastText (`.vec`), plain or `.gz`/`.xz`: one word to a line and
its numbers, divided by blanks, with or without a first line "words dimension". A word may hold
blanks (GloVe 840B has such): the last numbers of the line are the vector. The binary format of
word2vec (`vectors_binary.py`). And the folder of a spaCy-style table: `vectors.npy` with
`words.tsv`, word TAB row, where words share rows.

Every line or record that is wrong is reported with its number, all in one error.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedner.corpus.problems import Problem, ProblemLog
from fedner.durable import write_bytes
from fedner.errors import FednerError
from fedner.models.embeddings import vectors_binary
from fedner.models.embeddings.mapped import filling
from fedner.models.embeddings.vectors_matrix import matrix_rows, read_matrix_header
from fedner.models.embeddings.vectors_source import (
    digest_of,
    opened,
    recognise_vectors,
    source_files,
)
from fedner.models.embeddings.vectors_store import (
    MATRIX,
    VERSION,
    MatrixWriter,
    StoreFacts,
    VectorStore,
    WordIndexWriter,
    is_store,
    open_store,
    seal_store,
)

LINES_AT_A_TIME = 2048
LINES_TO_GUESS_FROM = 200
# Longer than any line of published vectors; bounds memory on a file that is something else.
LONGEST_LINE = 1 << 20
MOST_DIGITS = 18
HINT = "Take the file as published, or fix these lines."


def default_cache() -> Path:
    """Return the folder for converted vectors: fedner/vectors in $XDG_CACHE_HOME or ~/.cache."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if root else Path.home() / ".cache") / "fedner" / "vectors"


def open_vectors(path: Path, cache: Path | None = None) -> VectorStore:
    """Open word vectors, converting them into `cache` at the first use.

    Args:
        path: A text file, a word2vec binary, a spaCy-style folder, or a store that was converted
            before.
        cache: Where converted stores are kept, by the digest of their source.

    Raises:
        FednerError: If there is nothing there, the file has problems, or the store was altered.
    """
    if is_store(path):
        return open_store(path)
    parts = source_files(path)
    cache = cache or default_cache()
    sha256 = _source_digest(parts, cache)
    folder = cache / f"{sha256}.v{VERSION}"
    if not folder.is_dir():
        convert(path, folder, sha256)
    return open_store(folder)


def convert(path: Path, folder: Path, sha256: str | None = None) -> None:
    """Convert a text file, a word2vec binary or a spaCy-style table into the store `folder`.

    Args:
        path: The source.
        folder: The store to be; it appears when it is complete.
        sha256: The digest of the source, where it is known already.

    Raises:
        FednerError: Listing every line or record that is wrong.
    """
    parts = source_files(path)
    digest = sha256 or digest_of(parts)
    form = recognise_vectors(path)
    with filling(folder) as temporary:
        if len(parts) == 2:
            _convert_table(path.name, parts[0], parts[1], temporary, digest)
        elif form == "word2vec binary":
            _convert_binary(path, temporary, digest)
        else:
            _convert_text(path, temporary, digest)


def _source_digest(parts: list[Path], cache: Path) -> str:
    """Return the digest of the source, remembered while size and time of the files stay the same.

    Hashing a gigabyte at every start would cost more than opening the store.
    """
    stats = [part.stat() for part in parts]
    facts = [[s.st_size, s.st_mtime_ns, s.st_ino, s.st_dev] for s in stats]
    place = hashlib.sha256("\0".join(str(part.resolve()) for part in parts).encode()).hexdigest()
    note = cache / "sources" / f"{place}.json"
    try:
        known = json.loads(note.read_bytes())
        if known["facts"] == facts and isinstance(known["sha256"], str):
            return known["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not noted yet, or not by us: hash the files
    digest = digest_of(parts)
    note.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(note, json.dumps({"facts": facts, "sha256": digest}).encode(), owner_only=True)
    return digest


def _convert_text(path: Path, folder: Path, digest: str) -> None:
    log, index = ProblemLog(), WordIndexWriter()
    with opened(path) as source, (folder / MATRIX).open("wb") as target:
        first, declared, dimension = _guess_layout(source, path)
        matrix = MatrixWriter(target, dimension)
        line_number = 2 if declared is not None else 1
        lines: Iterator[bytes] = _lines(source, first)
        while block := list(islice(lines, LINES_AT_A_TIME)):
            _convert_block(block, line_number, path, dimension, index, matrix, log)
            line_number += len(block)
        if declared is not None and declared != line_number - 2:
            found = f"{line_number - 2:,} words"
            log.report(_problem(path, None, found, f"{declared:,} words, as line 1 declares"))
        statistics = matrix.finish()
    _raise_if_any(log, path, len(index))
    index.write(folder)
    seal_store(folder, _facts(path.name, digest, index, matrix), statistics)


def _guess_layout(source: BinaryIO, path: Path) -> tuple[list[bytes], int | None, int]:
    """Return the first lines without a header, the declared count or None, and the dimension."""
    first = list(islice(_lines(source, []), LINES_TO_GUESS_FROM))
    sizes = Counter(len(line.split()) - 1 for line in first[1:] or first)
    # Lines whose word holds blanks, or that are wrong, are few: the most frequent size is right.
    dimension = max(sizes, key=lambda size: (sizes[size], -size), default=0)
    fields = first[0].split() if first else []
    is_header = len(fields) == 2 and all(map(_is_number, fields))
    if is_header and len(first) > 1 and fields[1] == str(dimension).encode():
        return first[1:], int(fields[0]), dimension
    if dimension < 1 or (is_header and dimension != 1) or (is_header and len(first) == 1):
        shown = ascii(b" ".join(fields)[:40]) if fields else "nothing"
        raise FednerError(
            f"{path} holds no word vectors: line 1 is {shown}, the lines after it mostly have "
            f"{max(dimension, 0)} numbers",
            HINT,
        )
    return first, None, dimension


def _is_number(text: bytes) -> bool:
    """Whether a text is a number that counts something: a count of more digits is a mistake."""
    return text.isdigit() and len(text) <= MOST_DIGITS


def _lines(source: BinaryIO, first: list[bytes]) -> Iterator[bytes]:
    yield from first
    while line := source.readline(LONGEST_LINE):
        yield line


def _convert_block(
    block: list[bytes],
    line_number: int,
    path: Path,
    dimension: int,
    index: WordIndexWriter,
    matrix: MatrixWriter,
    log: ProblemLog,
) -> None:
    words: list[bytes] = []
    numbers: list[bytes] = []
    at: list[int] = []
    for offset, line in enumerate(block):
        word, given = _split(line, dimension)
        problem = _word_problem(word, given, dimension)
        if problem:
            log.report(_problem(path, line_number + offset, *problem))
            continue
        words.append(word)
        numbers.append(given)
        at.append(line_number + offset)
    rows = _parse(numbers, dimension)
    is_finite = np.isfinite(rows.sum(axis=1, dtype=np.float64)).tolist()
    keep: list[int] = []
    for position, word in enumerate(words):
        if not is_finite[position]:
            expected = f"{dimension} finite numbers"
            log.report(_problem(path, at[position], "a field that is none", expected))
        elif index.add(word, matrix.num_rows + len(keep)):
            keep.append(position)
    matrix.append(rows[keep])


def _split(line: bytes, dimension: int) -> tuple[bytes, bytes]:
    """Divide a line into its word and the text of its numbers."""
    line = line.rstrip(b" \t\r\n").replace(b"\t", b" ")
    word, _, given = line.partition(b" ")
    if given.count(b" ") != dimension - 1 or b"  " in given:
        # Blanks in the word, or several blanks between numbers: count from the end of the line.
        fields = line.rsplit(None, dimension)
        if len(fields) == dimension + 1:
            return fields[0], b" ".join(fields[1:])
    return word, given


def _word_problem(word: bytes, given: bytes, dimension: int) -> tuple[str, str] | None:
    """Return what was found and what was expected, or None where the line is sound so far."""
    found = len(given.split()) if b"  " in given or not given else given.count(b" ") + 1
    if found != dimension:
        return f"{found} numbers", f"a word and {dimension} numbers"
    if not _is_utf8(word):
        return "a word that is not UTF-8", "UTF-8"
    return None if word else ("no word", f"a word and {dimension} numbers")


def _parse(numbers: list[bytes], dimension: int) -> NDArray[np.float32]:
    """Parse the numbers of many lines; a line with a field that is no number becomes NaN."""
    if not numbers:
        return np.empty((0, dimension), np.float32)
    try:
        parsed = np.fromstring(b" ".join(numbers).decode("ascii"), dtype=np.float32, sep=" ")
        return parsed.reshape(len(numbers), dimension)
    except (ValueError, DeprecationWarning):
        rows = np.full((len(numbers), dimension), np.nan, np.float32)
        for position, text in enumerate(numbers):
            fields = text.split()
            # A line that has a wrong field stays NaN and a number that is too large becomes
            # infinite, which the caller reports with the line's number.
            with suppress(ValueError), np.errstate(over="ignore"):
                rows[position] = [float(field) for field in fields]
        return rows


def _convert_binary(path: Path, folder: Path, digest: str) -> None:
    """Convert a word2vec binary; words that can stand in no text are left out and counted."""
    log, index, num_skipped = ProblemLog(), WordIndexWriter(), 0
    with opened(path) as source, (folder / MATRIX).open("wb") as target:
        num_words, dimension = vectors_binary.read_header(source, path)
        matrix = MatrixWriter(target, dimension)
        for block in vectors_binary.blocks(source, path, num_words, dimension):
            num_skipped += _take_records(block, path, index, matrix, log)
        statistics = matrix.finish()
    _raise_if_any(log, path, len(index), "records", vectors_binary.HINT)
    index.write(folder)
    facts = _facts(path.name, digest, index, matrix)._replace(num_skipped=num_skipped)
    seal_store(folder, facts, statistics)


def _take_records(
    block: vectors_binary.Block,
    path: Path,
    index: WordIndexWriter,
    matrix: MatrixWriter,
    log: ProblemLog,
) -> int:
    """Take the records of a block; return how many have a word that can stand in no text."""
    with np.errstate(invalid="ignore"):  # infinities of both signs add up to NaN, as they should
        is_finite = np.isfinite(block.rows.sum(axis=1, dtype=np.float64)).tolist()
    keep: list[int] = []
    num_skipped = 0
    for position, word in enumerate(block.words):
        if not is_finite[position]:
            found = f"record {block.first + position:,} ({word[:40]!a}): a number that is none"
            expected = f"{matrix.dimension} finite numbers"
            log.report(
                Problem("malformed line", str(path), None, found, expected, "Fetch it again.")
            )
        elif not word or not _is_utf8(word):
            num_skipped += 1
        elif index.add(word, matrix.num_rows + len(keep)):
            keep.append(position)
    matrix.append(block.rows[keep])
    return num_skipped


def _is_utf8(word: bytes) -> bool:
    try:
        word.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _convert_table(name: str, vectors: Path, words: Path, folder: Path, digest: str) -> None:
    """Convert a spaCy-style table: rows in vectors.npy, word TAB row in words.tsv."""
    with opened(vectors) as source, (folder / MATRIX).open("wb") as target:
        num_rows, dimension, dtype = read_matrix_header(source, vectors)
        matrix = MatrixWriter(target, dimension)
        for rows in matrix_rows(source, vectors, num_rows, dimension, dtype):
            matrix.append(rows)
        statistics = matrix.finish()
    log, index = ProblemLog(), WordIndexWriter()
    with opened(words) as source:
        for number, line in enumerate(_lines(source, []), start=1):
            word, _, row = line.rstrip(b"\r\n").rpartition(b"\t")
            if not word or not _is_utf8(word) or not _is_number(row) or int(row) >= num_rows:
                expected = f"a word in UTF-8, TAB, its row below {num_rows:,}"
                log.report(_problem(words, number, ascii(line[:60]), expected))
            else:
                index.add(word, int(row))
    _raise_if_any(log, words, len(index))
    index.write(folder)
    seal_store(folder, _facts(name, digest, index, matrix), statistics)


def _facts(name: str, digest: str, index: WordIndexWriter, matrix: MatrixWriter) -> StoreFacts:
    return StoreFacts(
        source=name,
        sha256=digest,
        num_words=len(index),
        num_rows=matrix.num_rows,
        dimension=matrix.dimension,
        num_duplicates=index.num_duplicates,
        is_lowercased=index.is_lowercased,
    )


def _problem(path: Path, line: int | None, found: str, expected: str) -> Problem:
    return Problem("malformed line", str(path), line, found, expected, "Fix or delete the line.")


def _raise_if_any(
    log: ProblemLog, path: Path, num_words: int, what: str = "lines", hint: str = HINT
) -> None:
    if log.total:
        lines = [f"  {problem}" for problem in log.problems]
        if log.total > len(lines):
            lines.append(f"  ... and {log.total - len(lines):,} more")
        header = f"{path}: {log.total:,} of the {what} are no word vectors"
        raise FednerError("\n".join([header, *lines]), hint)
    if not num_words:
        raise FednerError(f"{path} holds no word vectors", hint)
