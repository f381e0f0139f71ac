"""The notes of a file or a folder: which files are read, and which are left out and why.

Nothing is left out without a word: what may be meant as a note but is no text is *refused*, what
only lies beside the notes is *skipped*, and both are named.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fedner.corpus.document import Document
from fedner.corpus.file_kinds import kind_of_file
from fedner.errors import FednerError
from fedner.inference.office import is_office, missing_library, read_office_file
from fedner.inference.text_files import TextFile, TextFileError, read_text_file, text_encoding

SUFFIXES: Final = (".txt", ".text")
"""How the notes of a folder are called, in any case; a file that is named itself may have any."""

_NAME_IT: Final = "Name it by itself."


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of a folder, or a row of a table, that is not read.

    Attributes:
        path: The file; of a row its file, a colon and its line.
        why: What it is, or what is wrong with it, in a few words.
        hint: What to do about it.
        is_refused: Whether it may be meant as a note: a document that is not text, or a text that
            cannot be read. Else it is another file that only lies beside the notes.
    """

    path: Path
    why: str
    hint: str
    is_refused: bool


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes of an input, and what in it is none.

    Attributes:
        root: The input: a file or a folder.
        files: The notes, sorted by path.
        left_out: What is not read, sorted by path; none where the input is a file.
        encoding: How the files are encoded; None for UTF-8.
        inputs: The inputs as they were named, where there are several; `root` then is the folder
            that they have in common.
    """

    root: Path
    files: tuple[Path, ...]
    left_out: tuple[LeftOut, ...] = ()
    encoding: str | None = None
    inputs: tuple[Path, ...] = ()

    @property
    def named(self) -> tuple[Path, ...]:
        """The inputs as they were named."""
        return self.inputs or (self.root,)

    @property
    def refused(self) -> tuple[LeftOut, ...]:
        """What may be meant as a note, but cannot be read."""
        return tuple(each for each in self.left_out if each.is_refused)

    def texts(self) -> Iterator[TextFile]:
        """Yield the notes, decoded, one after the other."""
        return (read_text_file(path, self.encoding) for path in self.files)

    def documents(self, left_out: list[LeftOut] | None = None) -> Iterator[Document]:
        """Yield the notes as documents: each is a whole file, named by its path without `.txt`.

        Args:
            left_out: Takes the notes that turn out to be unreadable; without it they are an error.
        """
        ids = self.ids()
        for path in self.files:
            try:
                text = read_note(path, self.encoding)
            except TextFileError as error:
                if left_out is None or path == self.root:
                    raise
                left_out.append(LeftOut(path, error.why, error.hint, True))
                continue
            yield Document(ids[path], text, source=self._relative(path))

    def ids(self) -> dict[Path, str]:
        """Return the id of each note: its path below the folder without `.txt`, as brat has it."""
        names = {path: self._relative(path) for path in self.files}
        short = {path: _without_suffix(name) for path, name in names.items()}
        seen: dict[str, int] = {}
        for name in short.values():
            seen[name] = seen.get(name, 0) + 1
        return {path: names[path] if seen[name] > 1 else name for path, name in short.items()}

    def _relative(self, path: Path) -> str:
        return path.name if path == self.root else path.relative_to(self.root).as_posix()


def read_note(path: Path, encoding: str | None = None) -> str:
    """Return the text of a note: a file of text, a Word document or a PDF.

    Raises:
        TextFileError: It cannot be read, or is something else.
    """
    try:
        kind = kind_of_file(path) if path.is_file() else None
    except OSError:
        kind = None  # the reader of text says what is wrong
    if kind is not None and is_office(kind):
        return read_office_file(path, kind)
    return read_text_file(path, encoding).text


def find_notes(source: Path, encoding: str | None = None, *, with_office: bool = False) -> Notes:
    """Return the notes of a file or a folder; every file of text can be read and decoded.

    In a folder, notes are the files called `.txt` or `.text` (in any case), those of its
    sub-folders too. Names that begin with a dot are left out.

    Args:
        source: A file, whatever its name, or a folder.
        encoding: How the files are encoded; None for UTF-8.
        with_office: Whether Word documents and PDFs are notes too: their text can be read, but not
            written again. What stands in them is seen when they are read.

    Raises:
        FednerError: There is no such input, the file is not text, or the folder has no note.
    """
    notes = survey(source, encoding, with_office=with_office)
    if not notes.files:
        raise no_notes(notes)
    return notes


def find_all_notes(sources: Sequence[Path], encoding: str | None = None) -> Notes:
    """Return the notes of one input or several; those of several are named below what they share.

    Raises:
        FednerError: As `find_notes`; or an input is named twice, or lies within another.
    """
    if len(sources) == 1:
        return find_notes(sources[0], encoding)
    refuse_repeats(sources)
    found = [find_notes(source.resolve(), encoding) for source in sources]
    root = Path(os.path.commonpath([each.root for each in found]))
    files = tuple(sorted(file for each in found for file in each.files))
    left_out = tuple(sorted((one for each in found for one in each.left_out), key=_path_of))
    return Notes(root, files, left_out, encoding, tuple(sources))


def refuse_repeats(sources: Sequence[Path]) -> None:
    """Refuse inputs of which one is named twice, or lies within another.

    Raises:
        FednerError: That is so.
    """
    counts = Counter(os.path.realpath(each) for each in sources)
    twice = [each for each in sources if counts[os.path.realpath(each)] > 1]
    if twice:
        raise FednerError(f"{twice[0]} is named more than once", "Name every input once.")
    folders = [Path(os.path.realpath(each)) for each in sources if each.is_dir()]
    for each in sources:
        place = Path(os.path.realpath(each))
        within = [folder for folder in folders if folder in place.parents]
        if within and str(each) != "-":
            raise FednerError(
                f"{each} is inside {within[0]}, which is named too", "Name one of them."
            )


def _path_of(one: LeftOut) -> Path:
    return one.path


def survey(source: Path, encoding: str | None = None, *, with_office: bool = False) -> Notes:
    """Do what `find_notes` does, for a folder without notes too."""
    text_encoding(encoding)
    if not source.is_dir():
        if not os.path.lexists(source):
            raise FednerError(f"{source}: no such file or folder", "Check the path.")
        read_note(source, encoding) if with_office else read_text_file(source, encoding)
        return Notes(source, (source,), (), encoding)
    files: list[Path] = []
    left_out: list[LeftOut] = []
    for path in _walk(source, left_out):
        found = _judged(path, encoding, with_office=with_office)
        files.append(path) if found is None else left_out.append(found)
    return Notes(source, tuple(files), tuple(sorted(left_out, key=lambda one: one.path)), encoding)


def _walk(folder: Path, left_out: list[LeftOut]) -> Iterator[Path]:
    """Yield the files below a folder by path; folders that cannot be listed are left out."""

    def failed(error: OSError) -> None:
        place = Path(error.filename or folder)
        why = f"a folder that cannot be listed: {error.strerror}"
        left_out.append(LeftOut(place, why, "Check its permissions.", True))

    found: list[Path] = []
    for root, folders, names in os.walk(folder, onerror=failed):
        hidden = [name for name in (*folders, *names) if name.startswith(".")]
        left_out.extend(LeftOut(Path(root, name), "hidden", "", False) for name in hidden)
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [Path(root, name) for name in folders if Path(root, name).is_symlink()]
        left_out.extend(LeftOut(link, "a link to a folder", _NAME_IT, True) for link in links)
        found += [Path(root, name) for name in names if not name.startswith(".")]
    yield from sorted(found)


def _judged(path: Path, encoding: str | None, *, with_office: bool) -> LeftOut | None:
    """Return why a file of a folder is not read; None for a note."""
    try:
        if not path.is_file():
            return LeftOut(path, "not a regular file", "", False)
        kind = kind_of_file(path)
        if kind is not None and with_office and is_office(kind):
            hint = missing_library(kind)
            return LeftOut(path, kind.name, hint, True) if hint else None
        if path.suffix.lower() in SUFFIXES:
            read_text_file(path, encoding)
            return None
    except TextFileError as error:
        return LeftOut(path, error.why, error.hint, True)
    except OSError as error:
        return LeftOut(path, f"cannot be read: {error.strerror}", "Check its permissions.", True)
    if kind is not None:
        return LeftOut(path, kind.name, kind.hint, True)
    suffix = path.suffix or "no suffix"
    return LeftOut(path, f"not called .txt ({suffix})", "Rename it to .txt.", False)


def no_notes(notes: Notes) -> FednerError:
    """Return the error for a folder without a note that can be read."""
    if not notes.left_out:
        return FednerError(f"{notes.root} is empty", "Name a folder of .txt files.")
    return FednerError(
        f"{notes.root} has no note that can be read: {'; '.join(summary(notes.left_out))}",
        next((each.hint for each in notes.left_out if each.hint), "Name a folder of .txt files."),
    )


def summary(left_out: Sequence[LeftOut]) -> list[str]:
    """Return what was left out, by reason: the count, the reason, and the first few names."""
    by_reason: dict[str, list[str]] = {}
    for each in left_out:
        by_reason.setdefault(each.why, []).append(each.path.name)
    return [
        f"{len(names):,} {why}: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
        for why, names in by_reason.items()
    ]


def _without_suffix(name: str) -> str:
    return name[:-4] if name.lower().endswith(".txt") else name
