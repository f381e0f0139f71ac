"""Which corpora a folder holds: several formats side by side, and folders of corpora.

A reader takes a folder for one corpus of its own format. What else is there would stay unseen;
here every format that some file has is found.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from fedner.corpus.archives import is_archive
from fedner.corpus.files import files_in, stem
from fedner.corpus.readers import READERS, cadec, hf_tokens
from fedner.corpus.readers.reader import Reader
from fedner.corpus.readers.standoff import walk

_MAX_WALK = 20_000
_PROBES = 3  # files that are looked into, of those with one suffix in one folder


@dataclass(frozen=True, slots=True)
class Shelved:
    """One corpus of a folder.

    Attributes:
        path: The folder to read.
        format: Its format.
    """

    path: Path
    format: str


def corpora_in(folder: Path) -> list[Shelved]:
    """Return the corpora of a folder, the one that reading the folder would give first.

    Nothing is read but the heads of a few files.
    """
    whole = next((each for each in READERS.values() if each.recognise(folder) is not None), None)
    root = cadec.find_root(folder) if whole is cadec.READER else None
    found: dict[Shelved, None] = {}
    if whole is not None:
        found[Shelved(root or folder, whole.name)] = None
    for file, reader in _owned(folder, whole):
        if root is not None and root in file.parents:
            continue  # CADEC's own .ann files look like brat's
        path = _corpus_folder(file, folder, reader, whole)
        found.setdefault(Shelved(path, reader.name))
    return list(found)


def archives_in(folder: Path) -> list[Path]:
    """Return the archives that stand in a folder itself."""
    return [file for file in files_in(folder) if is_archive(file)] if folder.is_dir() else []


def _owned(folder: Path, whole: Reader[Any] | None) -> Iterator[tuple[Path, Reader[Any]]]:
    """Yield probed files with the format that each has, one a folder and suffix at least."""
    probes: dict[tuple[Path, str], int] = {}
    for file in islice(walk(folder), _MAX_WALK):
        kind = (file.parent, Path(stem(file)).suffix.lower())
        if probes.setdefault(kind, 0) >= _PROBES:
            continue
        reader = _reader_of(file, whole)
        probes[kind] += 1
        if reader is not None:
            yield file, reader


def _reader_of(file: Path, whole: Reader[Any] | None) -> Reader[Any] | None:
    first: Iterable[Reader[Any]] = () if whole is None or not _reads_below(whole) else (whole,)
    for reader in (*first, *READERS.values()):
        if reader.recognise(file) is not None:
            return reader
    return None


def _corpus_folder(file: Path, top: Path, reader: Reader[Any], whole: Reader[Any] | None) -> Path:
    """Return the folder whose corpus a file belongs to."""
    if not _reads_below(reader):
        return file.parent
    if reader is whole:
        return top
    inner = file.relative_to(top).parts
    return top / inner[0] if len(inner) > 1 else top


def _reads_below(reader: Reader[Any]) -> bool:
    """Whether a reader takes the files of the folders below along."""
    return reader.reads_subfolders or reader is hf_tokens.READER
