"""Notes that stand in a table, as databases export them: CSV, TSV and parquet, a row for each note.

The caller names the column of the text, and may name those of the id and of the patient. Rows are
streamed. A row that cannot be read is left out and named by its line; offsets count the characters
of its text.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from fedner.corpus.document import Document
from fedner.corpus.file_kinds import kind_of_file
from fedner.corpus.files import opened, stem
from fedner.corpus.readers.extras import Fault, attempt, required
from fedner.errors import FednerError
from fedner.inference.notes import LeftOut
from fedner.inference.text_files import MAX_BYTES, TextFileError, not_text, text_encoding

CSV, TSV, PARQUET = "csv", "tsv", "parquet"
TABLES: Final = (CSV, TSV, PARQUET)
_SUFFIXES: Final = {".csv": CSV, ".tsv": TSV, ".tab": TSV, ".parquet": PARQUET, ".pq": PARQUET}
_DELIMITERS: Final = {CSV: ",;\t|", TSV: "\t"}
_BATCH_ROWS: Final = 100
_MAX_SHOWN: Final = 20
_NEED: Final = "parquet files"


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table are read.

    Attributes:
        text: The name of the column with the notes.
        id: That of their ids; None numbers them by their rows.
        patient: That of the patients; None for none.
    """

    text: str
    id: str | None = None
    patient: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(name for name in (self.text, self.id, self.patient) if name is not None)


class _Row(NamedTuple):
    """A row: where it begins (line or number), and its values by column; None for a broken one."""

    place: int
    values: dict[str, Any] | None


def table_format(path: Path) -> str | None:
    """Return which kind of table a file is by its name; None where the name says nothing."""
    return _SUFFIXES.get(Path(stem(path)).suffix.lower())


def column_names(path: Path, encoding: str | None = None) -> list[str]:
    """Return the columns of a table; an empty list where they cannot be read."""
    format = table_format(path)
    if format == PARQUET:
        found = attempt(lambda: required("pyarrow.parquet", "formats", _NEED).ParquetFile(path))
        return [] if isinstance(found, Fault) else list(found.schema_arrow.names)
    try:
        with opened(path) as stream, _text_of(stream, encoding) as lines:
            return split_header(next(iter(lines), ""), format or CSV, ())[1]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def read_table(
    path: Path, format: str, columns: Columns, encoding: str | None, left_out: list[LeftOut]
) -> Iterator[Document]:
    """Yield the notes of a table.

    Args:
        path: The file; `.gz` and `.xz` are unpacked.
        format: "csv", "tsv" or "parquet".
        columns: Which columns are read.
        encoding: How a CSV or TSV file is encoded; None for UTF-8.
        left_out: Takes the rows that are not read, while the stream is.

    Raises:
        FednerError: The file cannot be read, or has no such column; also while the stream is read.
    """
    if not path.is_file():
        raise TextFileError(path, "no such file", "Check the path.")
    if format == PARQUET:
        rows = _parquet_rows(path, columns)
        return _documents(rows, columns, path.name, path, left_out)
    kind = kind_of_file(path)
    if kind is not None and encoding is None and not kind.name.endswith((".gz)", ".xz)")):
        raise not_text(path, kind)
    stream = _file_rows(path, format, columns, encoding)
    return _documents(stream, columns, stem(path), path, left_out)


def read_table_stream(
    stream: BinaryIO, format: str, columns: Columns, encoding: str | None, left_out: list[LeftOut]
) -> Iterator[Document]:
    """Yield the notes of a CSV or TSV table from standard input; see `read_table`."""
    rows = _text_rows(stream, "standard input", format, columns, encoding)
    return _documents(rows, columns, "-", Path("-"), left_out)


def _documents(
    rows: Iterable[_Row], columns: Columns, name: str, path: Path, left_out: list[LeftOut]
) -> Iterator[Document]:
    """Yield a document for each row that has a text; ids are made unique."""
    seen: set[int] = set()  # hashes, not ids: a few bytes for each row
    for place, values in rows:
        if values is None:
            why = "a row with more or fewer columns than the header"
            left_out.append(LeftOut(Path(f"{path}:{place}"), why, "Fix the row.", True))
            continue
        text = values[columns.text]
        if not text or not text.strip():
            left_out.append(LeftOut(Path(f"{path}:{place}"), "a row without text", "", False))
            continue
        key = _value(values, columns.id) or f"{name}:{place}"
        if hash(key) in seen:
            key = f"{key}#{place}"
        seen.add(hash(key))
        yield Document(key, text, patient=_value(values, columns.patient), source=f"{name}:{place}")


def _value(values: dict[str, Any], column: str | None) -> str | None:
    """Return what stands in a column as text; None for nothing."""
    found = None if column is None else values[column]
    return None if found is None or found == "" else str(found)


# CSV and TSV.


def _file_rows(path: Path, format: str, columns: Columns, encoding: str | None) -> Iterator[_Row]:
    try:
        with opened(path) as stream:
            yield from _text_rows(stream, str(path), format, columns, encoding)
    except (OSError, EOFError) as error:
        why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise TextFileError(path, why, "Check that it is whole and may be read.") from error


def _text_of(stream: Any, encoding: str | None) -> io.TextIOWrapper:
    name = text_encoding(encoding)
    return io.TextIOWrapper(stream, encoding="utf-8-sig" if name == "utf-8" else name, newline="")


def _text_rows(
    stream: Any, place: str, format: str, columns: Columns, encoding: str | None
) -> Iterator[_Row]:
    csv.field_size_limit(MAX_BYTES)
    line = 1
    with _text_of(stream, encoding) as lines:
        try:
            first = next(iter(lines), "")
            delimiter, _ = split_header(first, format, columns.names)
            reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
            header = next(reader, [])
            wanted = _places(header, columns, place)
            line = reader.line_num + 1
            for row in reader:
                if row:
                    is_whole = len(row) == len(header)
                    values = {name: row[at] for name, at in wanted.items()} if is_whole else None
                    yield _Row(line, values)
                line = reader.line_num + 1
        except UnicodeDecodeError as error:
            raise FednerError(
                f"{place}: not {text_encoding(encoding).upper()}: {error.reason} after line "
                f"{line:,}",
                "Name the encoding with --encoding, such as cp1252, or convert the file to UTF-8.",
            ) from error
        except csv.Error as error:
            raise FednerError(
                f"{place}: the row that begins in line {line:,} is not valid "
                f"{format.upper()}: {error}",
                'Quote texts with line breaks or quotes in them: "..." with "" for a quote.',
            ) from error


def split_header(line: str, format: str, wanted: Sequence[str]) -> tuple[str, list[str]]:
    """Return the delimiter of a table and its columns, by its first line.

    Databases of many countries write semicolons into CSV: the delimiter is the one that shows the
    columns that are wanted, else the one that shows the most.
    """
    split = [(sign, next(csv.reader([line], delimiter=sign), [])) for sign in _DELIMITERS[format]]
    for sign, names in split:
        if wanted and set(wanted) <= set(names):
            return sign, names
    return max(split, key=lambda each: len(each[1]))


def _places(header: list[str], columns: Columns, place: str) -> dict[str, int]:
    """Return where the wanted columns stand.

    Raises:
        FednerError: One of them is not there, or twice.
    """
    for name in columns.names:
        if header.count(name) != 1:
            raise no_such_column(place, name, header)
    return {name: header.index(name) for name in columns.names}


def no_such_column(place: str, name: str, header: Sequence[str]) -> FednerError:
    """Return the error for a column that is not there, or twice."""
    how_often = "no column" if name not in header else "more than one column"
    shown = ", ".join(header[:_MAX_SHOWN]) + (", ..." if len(header) > _MAX_SHOWN else "")
    return FednerError(
        f'{place}: {how_often} "{name}"; found {shown or "no columns"}',
        "Name columns of the table with --text-column, --id-column and --patient-column.",
    )


# Parquet.


def _parquet_rows(path: Path, columns: Columns) -> Iterator[_Row]:
    file = attempt(lambda: required("pyarrow.parquet", "formats", _NEED).ParquetFile(path))
    if isinstance(file, Fault):
        raise FednerError(f"{path} is not a parquet file: {file.found}", "Check the file.")
    names = list(file.schema_arrow.names)
    _places(names, columns, str(path))
    kind = file.schema_arrow.field(columns.text).type
    if not holds_text(kind):
        raise FednerError(
            f'{path}: the column "{columns.text}" holds {kind}; expected text',
            "Name the column of the notes with --text-column.",
        )
    return _parquet_values(path, file, columns)


def holds_text(kind: Any) -> bool:
    """Whether a column of a type of pyarrow's holds texts, in a dictionary or not."""
    types = required("pyarrow.types", "formats", _NEED)
    inner = kind.value_type if types.is_dictionary(kind) else kind
    views = getattr(types, "is_string_view", lambda _kind: False)
    return bool(types.is_string(inner) or types.is_large_string(inner) or views(inner))


def _parquet_values(path: Path, file: Any, columns: Columns) -> Iterator[_Row]:
    batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns.names))
    number = 0
    while True:
        batch = attempt(lambda: next(batches, None))
        if isinstance(batch, Fault):
            raise FednerError(
                f"{path}: cannot be read after row {number:,}: {batch.found}",
                "Use an undamaged copy of the file.",
            )
        if batch is None:
            return
        for values in batch.to_pylist():
            number += 1
            yield _Row(number, values)
