"""Any input of a prediction as a stream of documents: notes, corpora in any format, lines.

A file of text is one document, so that offsets are those of the file, as `redact` and the spaCy
component have them. Corpora are read by their own readers. What is left out is named.
"""

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from fedner.corpus import archives
from fedner.corpus.document import Document
from fedner.corpus.file_kinds import kind_of_file
from fedner.corpus.files import head
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import READERS
from fedner.corpus.reading import AUTO, open_corpus, recognise
from fedner.errors import FednerError
from fedner.inference.notes import SUFFIXES, LeftOut, Notes, find_notes, no_notes, survey
from fedner.inference.text_files import TextFileError, decode_text, not_text, text_encoding

TEXT, LINES = "text", "lines"
STANDARD_INPUT: Final = Path("-")

# Files called so are no notes: where no reader knows one, something is wrong with it.
_STRUCTURED: Final = (
    ".json", ".jsonl", ".ndjson", ".xml", ".xmi", ".tsv", ".csv", ".conll", ".bio", ".iob", ".ann",
    ".toml", ".yaml", ".yml", ".spacy", ".parquet", ".html", ".htm",
)  # fmt: skip
# Problems that change which texts are read, or what stands in them; others only lose annotation.
_OF_TEXT: Final = frozenset(
    {"not a corpus", "unreadable file", "not UTF-8", "NUL byte", "empty file", "very long line",
     "duplicate id", "malformed line", "missing twin file", "wrong column count"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PredictionInput:
    """What a tagger shall read.

    Attributes:
        documents: The documents, as a stream that can be read once.
        files: The files that they come from, for whoever asks for their permissions; none for
            standard input.
        left_out: Files of a folder that are not read.
        log: What the reader of a corpus found wrong; it fills while the documents are read.
        source: What the input is called.
    """

    documents: Iterator[Document]
    files: tuple[Path, ...]
    left_out: tuple[LeftOut, ...] = ()
    log: ProblemLog = field(default_factory=ProblemLog)
    source: str = ""

    def whole(self) -> Iterator[Document]:
        """Yield the documents; at last refuse an input of which texts were lost or changed.

        Raises:
            InputProblemsError: Some texts could not be read as they are.
        """
        yield from self.documents
        lost = ProblemLog()
        for problem in self.log.problems:
            if problem.kind in _OF_TEXT:
                lost.report(problem)
        lost.counts = Counter({kind: self.log.counts[kind] for kind in sorted(_OF_TEXT)})
        lost.raise_if_any(self.source)


def open_input(
    source: Path, format: str = AUTO, encoding: str | None = None, stdin: BinaryIO | None = None
) -> PredictionInput:
    """Open the input of a prediction.

    Args:
        source: A file or a folder of text, a corpus in any format, or "-" for standard input.
        format: "text" (each file is a document), "lines" (each line is one), a format of corpora,
            or "auto" to recognise it.
        encoding: How files of text are encoded; None for UTF-8.
        stdin: Standard input.

    Raises:
        FednerError: There is no such input, or it is neither text nor a corpus.
    """
    text_encoding(encoding)
    if format == LINES:
        return _lines_input(source, encoding, stdin)
    if source == STANDARD_INPUT:
        return _standard_input(format, encoding, stdin)
    if format == TEXT:
        return _of_notes(find_notes(source, encoding))
    if format == AUTO:
        notes = _as_notes(source, encoding)
        if notes is not None:
            return _of_notes(notes)
    if encoding is not None:
        raise FednerError(
            f"--encoding {encoding} is for files of text; {source} is a corpus",
            "Leave it out, or add --format text.",
        )
    _, documents, log = open_corpus(source, format)
    return PredictionInput(documents, _files_of(source), log=log, source=str(source))


def _of_notes(notes: Notes) -> PredictionInput:
    return PredictionInput(notes.documents(), notes.files, notes.left_out, source=str(notes.root))


def _as_notes(source: Path, encoding: str | None) -> Notes | None:
    """Return the notes of an input; None where it is a corpus.

    Raises:
        FednerError: It is neither.
    """
    if source.is_file():
        _refuse_office_files(source)
    if _is_surely_text(source, encoding):
        return find_notes(source, encoding)
    try:
        format = recognise(source).format
    except FednerError as unknown:
        return _not_recognised(source, encoding, unknown)
    if format == "brat" and archives.place_of(source) is None:
        # The texts are what counts, with annotation or without: they are notes as all others.
        text = source.with_suffix(".txt") if source.suffix.lower() == ".ann" else source
        notes = find_notes(text)
        kept = tuple(each for each in notes.left_out if each.path.suffix not in (".ann", ".conf"))
        return Notes(notes.root, notes.files, kept)
    _refuse_mixture(source, format)
    return None


def _is_surely_text(source: Path, encoding: str | None) -> bool:
    """Whether an input is text before a reader looks at it: by its encoding, or an empty .txt."""
    if source.is_dir():
        return encoding is not None
    if not source.is_file():
        return False
    if encoding is not None:
        return source.suffix.lower() not in _STRUCTURED
    return _is_called_text(source) and not (head(source) or "").strip()


def _refuse_office_files(path: Path) -> None:
    try:
        kind = kind_of_file(path)
    except OSError as error:
        raise TextFileError(
            path, f"cannot be read: {error.strerror or error}", "Check its permissions."
        ) from error
    if kind is not None and not kind.may_be_corpus:
        raise not_text(path, kind)


def _not_recognised(source: Path, encoding: str | None, unknown: FednerError) -> Notes:
    """Return the notes of what is no corpus, or raise the more useful of two errors."""
    if not source.exists() or archives.place_of(source) is not None:
        raise unknown
    if source.is_file() and source.suffix.lower() in _STRUCTURED:
        raise FednerError(
            unknown.message, f"{unknown.hint} To read it as plain text, add --format text."
        )
    notes = survey(source, encoding)
    if notes.files:
        return notes
    raise no_notes(notes) if notes.refused or not notes.left_out else unknown


def _refuse_mixture(source: Path, format: str) -> None:
    """Refuse a folder of a corpus in which there are texts that its reader would not read."""
    if not source.is_dir() or READERS[format].reads_subfolders:
        return
    strange = [
        path.name
        for path in sorted(source.rglob("*"))
        if _is_called_text(path) and path.is_file() and READERS[format].recognise(path) is None
    ]
    if strange:
        raise FednerError(
            f"{source} holds both a corpus ({format}) and {len(strange):,} other text files: "
            f"{', '.join(strange[:3])}{', ...' if len(strange) > 3 else ''}",
            "Name the file that is meant, or choose: --format text reads the .txt files as notes, "
            f"--format {format} the corpus.",
        )


def _is_called_text(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def _files_of(source: Path) -> tuple[Path, ...]:
    """Return the files that a corpus may come from."""
    place = archives.place_of(source)
    if place is not None:
        return (place.archive,)
    if not source.is_dir():
        return (source,)
    return tuple(sorted(path for path in source.rglob("*") if path.is_file()))


def _standard_input(format: str, encoding: str | None, stdin: BinaryIO | None) -> PredictionInput:
    if format not in (AUTO, TEXT):
        raise FednerError(
            f"standard input cannot be read as {format}",
            "It is read as text, or with --format lines each line as a document.",
        )
    data = b"" if stdin is None else stdin.read()
    text = decode_text(data, Path("standard input"), encoding).text
    return PredictionInput(iter([Document("-", text, source="-")]), (), source="-")


def _lines_input(source: Path, encoding: str | None, stdin: BinaryIO | None) -> PredictionInput:
    if source == STANDARD_INPUT:
        documents = _lines(stdin or io.BytesIO(), "standard input", "-", encoding)
        return PredictionInput(documents, (), source="-")
    if source.is_dir():
        raise FednerError(f"{source} is a folder", "--format lines reads a file or -.")
    try:
        kind = kind_of_file(source)
        if kind is not None and encoding is None:
            raise not_text(source, kind)
        file = source.open("rb")
    except OSError as error:
        raise TextFileError(
            source, f"cannot be read: {error.strerror or error}", "Check the path."
        ) from error
    documents = _lines(file, str(source), source.name, encoding)
    return PredictionInput(documents, (source,), source=str(source))


def _lines(file: BinaryIO, place: str, name: str, encoding: str | None) -> Iterator[Document]:
    """Yield each line that is not blank as a document; the file is closed at the end."""
    codec = "utf-8-sig" if text_encoding(encoding) == "utf-8" else text_encoding(encoding)
    number = 0
    with io.TextIOWrapper(file, encoding=codec, newline="\n") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                text = line.rstrip("\r\n")
                if text.strip():
                    yield Document(f"{name}:{number}", text, source=name)
        except UnicodeDecodeError as error:
            raise FednerError(
                f"{place}: not {codec.upper()}: {error.reason} after line {number:,}",
                "Name the encoding with --encoding, or convert the file to UTF-8.",
            ) from error
