"""Any input of a prediction as a stream of documents: notes, tables, corpora in any format, lines.

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
from fedner.corpus.files import files_in, head
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import READERS
from fedner.corpus.reading import AUTO, open_corpus, recognise
from fedner.errors import FednerError
from fedner.inference.notes import SUFFIXES, LeftOut, Notes, find_notes, no_notes, survey
from fedner.inference.office import is_office
from fedner.inference.tables import (
    CSV,
    PARQUET,
    TABLES,
    Columns,
    column_names,
    read_table,
    read_table_stream,
    table_format,
)
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
        left_out: What is not read; it fills while the documents are read.
        log: What the reader of a corpus found wrong; it fills likewise.
        source: What the input is called.
        total: How many documents there are at most; None where only reading them tells.
    """

    documents: Iterator[Document]
    files: tuple[Path, ...]
    left_out: list[LeftOut] = field(default_factory=list)
    log: ProblemLog = field(default_factory=ProblemLog)
    source: str = ""
    total: int | None = None

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
    source: Path,
    format: str = AUTO,
    encoding: str | None = None,
    stdin: BinaryIO | None = None,
    columns: Columns | None = None,
) -> PredictionInput:
    """Open the input of a prediction.

    Args:
        source: A file or a folder of text, a table, a corpus in any format, or "-" for standard
            input.
        format: "text" (each file is a document), "lines" (each line is one), "csv", "tsv" or
            "parquet" (each row is one), a format of corpora, or "auto" to recognise it.
        encoding: How files of text are encoded; None for UTF-8.
        stdin: Standard input.
        columns: The columns of a table; where they are given, the input is one.

    Raises:
        FednerError: There is no such input, or it is neither text nor a table nor a corpus.
    """
    text_encoding(encoding)
    if columns is not None or format in TABLES:
        return _table_input(source, format, encoding, stdin, columns)
    if format == LINES:
        return _lines_input(source, encoding, stdin)
    if source == STANDARD_INPUT:
        return _standard_input(format, encoding, stdin)
    if format == TEXT:
        return _of_notes(find_notes(source, encoding, with_office=True))
    if format == AUTO:
        notes = _as_notes(source, encoding)
        if notes is not None:
            return _of_notes(notes)
    if encoding is not None:
        raise FednerError(
            f"--encoding {encoding} is for text files; {source} is a corpus",
            "Leave it out, or add --format text.",
        )
    _, documents, log = open_corpus(source, format)
    return PredictionInput(documents, _files_of(source), log=log, source=str(source))


def _of_notes(notes: Notes) -> PredictionInput:
    left_out = list(notes.left_out)
    documents = notes.documents(left_out)
    total = len(notes.files)
    return PredictionInput(documents, notes.files, left_out, source=str(notes.root), total=total)


def _as_notes(source: Path, encoding: str | None) -> Notes | None:
    """Return the notes of an input; None where it is a corpus.

    Raises:
        FednerError: It is neither.
    """
    if source.is_file():
        if _is_office_file(source):
            return find_notes(source, with_office=True)
        _refuse_tables(source)
    if _is_surely_text(source, encoding):
        return find_notes(source, encoding, with_office=True)
    try:
        format = recognise(source).format
    except FednerError as unknown:
        return _not_recognised(source, encoding, unknown)
    if format == "brat" and archives.place_of(source) is None:
        # The texts are what counts, with annotation or without: they are notes as all others.
        text = source.with_suffix(".txt") if source.suffix.lower() == ".ann" else source
        notes = find_notes(text, with_office=True)
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


def _is_office_file(path: Path) -> bool:
    """Whether a file is a document whose text can be taken out; others of that kind are refused."""
    try:
        kind = kind_of_file(path)
    except OSError as error:
        raise TextFileError(
            path, f"cannot be read: {error.strerror or error}", "Check its permissions."
        ) from error
    if kind is None or is_office(kind):
        return kind is not None
    if not kind.may_be_corpus:
        raise not_text(path, kind)
    return False


def _refuse_tables(path: Path) -> None:
    """Refuse a CSV or parquet file that no reader of corpora knows: its columns must be named."""
    format = table_format(path)
    names = column_names(path) if format in (CSV, PARQUET) else []
    is_corpus = {"tokens", "words"} & set(names)
    if names and not is_corpus:
        raise FednerError(
            f"{path} is a table with the columns {', '.join(names[:20])}",
            "Say which of them holds the notes: --text-column NAME (and --id-column NAME).",
        )


def _not_recognised(source: Path, encoding: str | None, unknown: FednerError) -> Notes:
    """Return the notes of what is no corpus, or raise the more useful of two errors."""
    if not source.exists() or archives.place_of(source) is not None:
        raise unknown
    if source.is_file() and source.suffix.lower() in _STRUCTURED:
        raise FednerError(
            unknown.message, f"{unknown.hint} To read it as plain text, add --format text."
        )
    notes = survey(source, encoding, with_office=True)
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
            "Name the file that you mean, or choose: --format text reads the .txt files as notes, "
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
            "Standard input is read as text, or with --format lines, each line as a document.",
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


def _table_input(
    source: Path,
    format: str,
    encoding: str | None,
    stdin: BinaryIO | None,
    columns: Columns | None,
) -> PredictionInput:
    """Open a table, a folder of tables, or a table from standard input."""
    if columns is None:
        raise FednerError(
            f"--format {format}, but no --text-column", "Name the column that holds the notes."
        )
    if format not in (AUTO, *TABLES):
        raise FednerError(
            f"--text-column is for tables; found --format {format}",
            f"Leave one of them out, or choose a format of {', '.join(TABLES)}.",
        )
    left_out: list[LeftOut] = []
    if source == STANDARD_INPUT:
        if format == PARQUET:
            raise FednerError("standard input cannot be read as parquet", "Name the file.")
        kind = CSV if format == AUTO else format
        held = io.BytesIO() if stdin is None else stdin
        documents = read_table_stream(held, kind, columns, encoding, left_out)
        return PredictionInput(documents, (), left_out, source="-")
    files = tuple(tables_in(source, format))
    streams = [
        read_table(file, _kind_of_table(file, format), columns, encoding, left_out)
        for file in files
    ]
    documents = (document for stream in streams for document in stream)
    return PredictionInput(documents, files, left_out, source=str(source))


def _kind_of_table(path: Path, format: str) -> str:
    return (table_format(path) or CSV) if format == AUTO else format


def tables_in(source: Path, format: str) -> list[Path]:
    """Return the tables of a folder by name, or the one that is named itself.

    Raises:
        FednerError: The folder has none.
    """
    if not source.is_dir():
        return [source]
    kinds = TABLES if format == AUTO else (format,)
    found = [path for path in files_in(source) if table_format(path) in kinds]
    if not found:
        raise FednerError(
            f"{source} holds no table ({', '.join(kinds)})", "Name the file of the table."
        )
    return found
