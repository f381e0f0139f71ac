"""Which corpora an unpacked archive holds, and which of them is meant."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedner.corpus import archives
from fedner.corpus.document import Document
from fedner.corpus.files import COMPRESSED_SUFFIXES, files_in
from fedner.corpus.readers.reader import Reader
from fedner.corpus.readers.standoff import walk
from fedner.errors import FednerError

_MAX_SHOWN = 12
_MAX_PROBES = 25


def meant(unpacked: archives.Unpacked, readers: Iterable[Reader[Any]]) -> Path:
    """Return the folder or file of an unpacked archive to read.

    Args:
        unpacked: The archive.
        readers: The formats that come into question, the most specific first.

    Raises:
        FednerError: If there is no such path in it, or several corpora and no choice.
    """
    table = list(readers)
    place = unpacked.place
    path = unpacked.folder / (place.inner or "")
    if not path.exists():
        raise FednerError(*_absent(unpacked, path))
    if path.is_file():
        return path
    if place.inner is not None and _reader_of(path, table) is not None:
        return path
    found = list(_corpora(path, table))
    if len(found) > 1:
        raise FednerError(*_several(unpacked, found))
    if not found and (inner := [file for file in walk(path) if archives.is_archive(file)]):
        raise FednerError(*_nested(unpacked, inner))
    return found[0][0] if found else path


def from_archive(
    documents: Iterator[Document], unpacked: archives.Unpacked, root: Path
) -> Iterator[Document]:
    """Pass on documents with their sources named as in the archive, and remove it at the end."""
    known: dict[str, str] = {}
    parents = _parents(root)
    try:
        for document in documents:
            source = known.get(document.source)
            if source is None:
                source = _source_in(unpacked.folder, parents, document.source)
                known[document.source] = source
            yield document if source == document.source else replace(document, source=source)
    except FednerError as error:
        raise in_users_words(error, unpacked) from error
    finally:
        unpacked.close()


def _parents(root: Path) -> list[Path]:
    """Return where sources may lie: some readers go down one folder by themselves (CADEC's)."""
    folder = root if root.is_dir() else root.parent
    return [folder, *sorted(entry for entry in folder.iterdir() if entry.is_dir())]


def _source_in(top: Path, parents: list[Path], source: str) -> str:
    """Return a source by its name in the archive; formats name any, and such keep their own."""
    for parent in parents:
        for ending in ("", *COMPRESSED_SUFFIXES):
            if source and (parent / f"{source}{ending}").is_file():
                return (parent / source).relative_to(top).as_posix()
    return source


def in_users_words(error: FednerError, unpacked: archives.Unpacked) -> FednerError:
    """Return an error that names files as they are in the archive."""
    old, new = str(unpacked.folder), f"{unpacked.place.archive}{archives.MARK}"
    return FednerError(error.message.replace(old, new), error.hint.replace(old, new))


def _reader_of(path: Path, table: list[Reader[Any]]) -> Reader[Any] | None:
    return next((reader for reader in table if reader.recognise(path) is not None), None)


def _corpora(folder: Path, table: list[Reader[Any]]) -> Iterator[tuple[Path, Reader[Any]]]:
    """Yield the outermost folders that are a corpus each, with their formats.

    A format that reads sub-folders along recognises every folder above its files too: there, a
    folder without such files of its own is no corpus but a shelf of them.
    """
    reader = _reader_of(folder, table)
    if reader is not None and not _is_shelf(folder, reader):
        yield folder, reader
        return
    for sub in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        yield from _corpora(sub, table)


def _is_shelf(folder: Path, reader: Reader[Any]) -> bool:
    if not reader.reads_subfolders:
        return False
    probes = [file for file in files_in(folder) if file.suffix.lower() not in (".md", ".pdf")]
    return not any(reader.recognise(file) is not None for file in probes[:_MAX_PROBES])


def _several(unpacked: archives.Unpacked, found: list[tuple[Path, Reader[Any]]]) -> tuple[str, str]:
    archive = unpacked.place.archive
    names = [path.relative_to(unpacked.folder).as_posix() for path, _ in found]
    listed = [f"{name} ({reader.name})" for name, (_, reader) in zip(names, found, strict=True)]
    more = f" and {len(listed) - _MAX_SHOWN} more" if len(listed) > _MAX_SHOWN else ""
    whole = unpacked.place.inner or ""
    message = f"{archive}: {len(found)} corpora in it: {', '.join(listed[:_MAX_SHOWN])}{more}"
    one, all_of_it = archives.shown(archive, names[0]), archives.shown(archive, whole)
    return message, f"Choose one, for example {one}, or {all_of_it} for all of them together."


def _nested(unpacked: archives.Unpacked, inner: list[Path]) -> tuple[str, str]:
    names = [file.relative_to(unpacked.folder).as_posix() for file in inner]
    shown = ", ".join(names[:_MAX_SHOWN]) + (", ..." if len(names) > _MAX_SHOWN else "")
    message = f"{unpacked.place.archive}: no corpus in it, but archives ({shown})"
    return message, "Archives in archives stay closed: unpack it, and name one of those."


def _absent(unpacked: archives.Unpacked, path: Path) -> tuple[str, str]:
    archive, inner = unpacked.place.archive, unpacked.place.inner or ""
    message = f"{archives.shown(archive, inner)}: no such file or folder in the archive"
    parent = path.parent
    while not parent.is_dir():
        parent = parent.parent
    names = sorted(entry.name for entry in parent.iterdir())
    near = difflib.get_close_matches(path.name, names, 1)
    if near:
        shown = (parent / near[0]).relative_to(unpacked.folder).as_posix()
        return message, f"Did you mean {archives.shown(archive, shown)}?"
    return message, f"There is {', '.join(names[:_MAX_SHOWN]) or 'nothing'} in it."
