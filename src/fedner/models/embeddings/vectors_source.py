"""Where published word vectors lie: which files, how they are compressed, in which format.

The format is recognised from the first kilobytes, never from the name alone.
"""

import gzip
import hashlib
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, cast

from fedner.corpus.archives import is_archive
from fedner.corpus.foreign import foreign_file
from fedner.errors import FednerError
from fedner.models.embeddings.vectors_store import is_store

VectorsFormat = Literal[
    "text", "text with a header", "word2vec binary", "row-mapped table", "converted store"
]

HINT = (
    "Name vectors as published: a text file (.txt, .vec), a word2vec binary (.bin), or a folder "
    "with vectors.npy and words.tsv."
)

HEADER = re.compile(rb"[ \t]*(\d+)[ \t]+(\d+)[ \t\r]*\n")
# Decimal numbers and words of any language have none of these; four bytes of a float often do.
_NEVER_IN_TEXT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SAMPLE_BYTES = 4096
_COMPRESSED = (".gz", ".xz")
# The first four bytes of the model files that fastText calls .bin, little endian.
_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")


def source_files(path: Path) -> list[Path]:
    """Return the one file of vectors, or matrix and words of a spaCy-style table.

    Raises:
        FednerError: There are no word vectors at `path`.
    """
    if path.is_file():
        return [path]
    if path.is_dir():
        found = []
        for name in ("vectors.npy", "words.tsv"):
            candidates = [path / f"{name}{suffix}" for suffix in ("", ".xz", ".gz")]
            found += [candidate for candidate in candidates if candidate.is_file()][:1]
        if len(found) == 2:
            return found
        raise FednerError(
            f"{path} holds no word vectors: found {[part.name for part in found]}",
            "Expected is a text file of vectors, a word2vec binary, a folder with vectors.npy and "
            "words.tsv (plain, .xz or .gz), or a store that fedner converted.",
        )
    raise FednerError(
        f"no word vectors at {path}", "Check the path; fedner downloads nothing by itself."
    )


def recognise_vectors(path: Path) -> VectorsFormat:
    """Return the format of the vectors at `path`; whether they are sound is not looked at.

    Raises:
        FednerError: There is nothing there, or it is a format that fedner does not read.
    """
    if is_store(path):
        return "converted store"
    parts = source_files(path)
    if len(parts) == 2:
        return "row-mapped table"
    _refuse_foreign(path)
    with opened(path) as source:
        sample = source.read(_SAMPLE_BYTES)
    if sample.startswith(_FASTTEXT_MODEL):
        raise FednerError(
            f"{path} is a model of fastText, with its n-grams, not a table of word vectors",
            "Use the .vec file that is published with it, or export the vectors to one.",
        )
    header = HEADER.match(sample)
    if header is None:
        return "text"
    name = path.name.lower()
    stem = name.rpartition(".")[0] if name.endswith(_COMPRESSED) else name
    if stem.endswith(".bin") or _NEVER_IN_TEXT.search(sample, header.end()):
        return "word2vec binary"
    return "text with a header"


def _refuse_foreign(path: Path) -> None:
    """Refuse a file that is something else, by the name of what it is."""
    if (what := foreign_file(path)) is not None:
        raise FednerError(f"{path} is {what.name}, not a table of word vectors", HINT)
    if is_archive(path):
        raise FednerError(
            f"{path} is an archive, not a table of word vectors", f"Unpack it first. {HINT}"
        )


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that may be compressed; damage in the compression becomes a FednerError."""
    try:
        if path.suffix == ".xz":
            with lzma.open(path) as unpacked:
                yield cast("BinaryIO", unpacked)
        elif path.suffix == ".gz":
            with gzip.open(path) as expanded:
                yield cast("BinaryIO", expanded)
        else:
            with path.open("rb") as handle:
                yield handle
    except (lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise FednerError(
            f"{path} is damaged or cut short: {error}", "Fetch the file again."
        ) from error


def digest_of(parts: list[Path]) -> str:
    """Return the digest of the files as they lie on disk."""
    digests = []
    for part in parts:
        with part.open("rb") as handle:
            digests.append(hashlib.file_digest(handle, "sha256").hexdigest())
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )
