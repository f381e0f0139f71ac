"""CSV and TSV tables, rewritten: what is not replaced stays byte for byte, quotes too.

`csv.reader` says what the cells are. Beside it the lines that it took are kept, so that a row can
be put together again from its own pieces.
"""

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

from fedner.corpus.files import opened
from fedner.errors import FednerError
from fedner.inference.tables import split_header
from fedner.inference.text_files import MAX_BYTES, TextFileError, mark_of, text_encoding
from fedner.inference.whole_tables import ChangedRow, NewValue, Row

_MARK: Final = "\ufeff"
_LONGEST_MARK: Final = 4
_QUOTED: Final = re.compile(r'"[^"]*(?:""[^"]*)*"')
_WIDTH: Final = "a row with more or fewer columns than the header"


class _Record(NamedTuple):
    """A row as `csv.reader` has it, and as it stands in the file."""

    line: int
    cells: list[str]
    raw: str


class CsvTable:
    """A CSV or TSV file, or standard input.

    Args:
        path: The file, which may be read again and again; None for a stream.
        stream: Standard input, which is read once.
        format: "csv" or "tsv".
        wanted: The columns that are asked for, by which the delimiter is recognised.
        encoding: How it is encoded; None for UTF-8.
        dropped: The columns that are left out.

    Raises:
        FednerError: It cannot be read, or has no header.
    """

    def __init__(
        self,
        path: Path | None,
        stream: BinaryIO | None,
        format: str,
        wanted: Sequence[str],
        encoding: str | None = None,
        dropped: Collection[str] = (),
    ) -> None:
        csv.field_size_limit(MAX_BYTES)
        self._path, self._format, self._wanted = path, format, tuple(wanted)
        self._encoding = text_encoding(encoding)
        self._codec = self._encoding
        self._dropped = frozenset(dropped)
        self._delimiter = ","
        self._stream = None if stream is None else self._records(self._text(stream))
        records = self._stream or self._of_file()
        header = next(records, None)
        if self._stream is None:
            cast("Any", records).close()
        if header is None or not any(header.cells):
            raise FednerError(f"{self.name} is empty", "Name a table with a header.")
        self._header = header.raw.removeprefix(_MARK)
        self._mark = _MARK if header.raw.startswith(_MARK) else ""
        self._columns = tuple(header.cells)

    @property
    def name(self) -> str:
        """What the table is called in errors."""
        return "standard input" if self._path is None else str(self._path)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its header."""
        return self._columns

    def rows(self) -> Iterator[Row]:
        """Yield the rows behind the header; of a stream only once."""
        records = self._stream or self._of_file()
        if self._stream is None:
            next(records)
        for record in records:
            if record.cells and len(record.cells) != len(self._columns):
                yield Row(record.line, {}, record, _WIDTH)
            else:  # a blank line has no cells, and stays one
                values = zip(self._columns, record.cells, strict=False)
                yield Row(record.line, {name: cell or None for name, cell in values}, record)

    def write(self, file: BinaryIO, rows: Iterable[ChangedRow]) -> None:
        """Write the table with these rows; every other cell stays as it was."""
        self._put(file, self._mark + self._changed(self._header, self._columns, {}))
        for each in rows:
            record: _Record = each.row.raw
            is_blank = not record.cells
            changed = "" if is_blank else self._changed(record.raw, record.cells, each.values)
            self._put(file, record.raw if is_blank else changed)

    def _put(self, file: BinaryIO, text: str) -> None:
        try:
            file.write(text.encode(self._codec))
        except UnicodeEncodeError as error:
            raise FednerError(
                f"{self.name}: {text[error.start]!r} cannot be written in {self._encoding}",
                "Convert the table to UTF-8.",
            ) from error

    def _changed(self, raw: str, cells: Sequence[str], new: Mapping[str, NewValue]) -> str:
        """Return a row with some cells replaced and without the dropped ones."""
        end = raw[len(raw.rstrip("\r\n")) :]
        # Only the end of the row is no cell: a quoted cell may hold line breaks, but not at last.
        pieces = _pieces(raw[: len(raw) - len(end)], self._delimiter)
        if [_unquoted(each) for each in pieces] != list(cells):
            pieces = [_quoted(each, self._delimiter, force=False) for each in cells]
        kept: list[str] = []
        for name, piece in zip(self._columns, pieces, strict=True):
            if name in self._dropped:
                continue
            value = new.get(name)
            kept.append(
                piece
                if value is None
                else _quoted(str(value), self._delimiter, force=piece.startswith('"'))
            )
        return self._delimiter.join(kept) + end

    # Reading.

    def _of_file(self) -> Iterator[_Record]:
        path = cast("Path", self._path)
        if not path.is_file():
            raise TextFileError(path, "no such file", "Check the path.")
        try:
            with ExitStack() as stack:
                lines = stack.enter_context(self._text(stack.enter_context(opened(path))))
                yield from self._records(lines)
        except (OSError, EOFError) as error:
            why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            raise TextFileError(path, why, "Check that it is whole and may be read.") from error

    def _text(self, stream: Any) -> io.TextIOWrapper:
        """Return the text of a stream, with its byte-order mark as a character."""
        if not hasattr(stream, "peek"):
            stream = io.BufferedReader(stream)
        _, codec = mark_of(stream.peek(_LONGEST_MARK)[:_LONGEST_MARK], self._encoding)
        self._codec = codec
        return io.TextIOWrapper(stream, encoding=codec, newline="")

    def _records(self, lines: io.TextIOWrapper) -> Iterator[_Record]:
        taken: list[str] = []
        line = 1

        def tapped() -> Iterator[str]:
            for each in lines:
                taken.append(each)
                # The mark belongs to the file, not to its first column.
                yield each.removeprefix(_MARK) if line == 1 and len(taken) == 1 else each

        try:
            texts = tapped()
            first = next(texts, "")
            self._delimiter, _ = split_header(first, self._format, self._wanted)
            reader = csv.reader(_again(first, texts), delimiter=self._delimiter, strict=True)
            for cells in reader:
                yield _Record(line, cells, "".join(taken))
                taken.clear()
                line = reader.line_num + 1
        except UnicodeDecodeError as error:
            raise FednerError(
                f"{self.name}: not {self._encoding.upper()}: {error.reason} after line {line:,}",
                "Name the encoding with --encoding, such as cp1252, or convert the file to UTF-8.",
            ) from error
        except csv.Error as error:
            raise FednerError(
                f"{self.name}: the row that begins in line {line:,} is not valid "
                f"{self._format.upper()}: {error}",
                'Quote texts with line breaks or quotes in them: "..." with "" for a quote.',
            ) from error


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
    yield from rest


def _pieces(raw: str, delimiter: str) -> list[str]:
    """Return the cells of a row as they stand there, quotes and all."""
    pieces: list[str] = []
    position = 0
    while True:
        quoted = _QUOTED.match(raw, position)
        end = quoted.end() if quoted is not None else raw.find(delimiter, position)
        if end == -1 or end >= len(raw):
            pieces.append(raw[position:])
            return pieces
        if raw[end] != delimiter:  # not how this module would write it: `_changed` sees that
            return []
        pieces.append(raw[position:end])
        position = end + 1


def _unquoted(piece: str) -> str:
    is_quoted = len(piece) > 1 and piece[0] == piece[-1] == '"'
    return piece[1:-1].replace('""', '"') if is_quoted else piece


def _quoted(value: str, delimiter: str, *, force: bool) -> str:
    if force or any(sign in value for sign in (delimiter, '"', "\r", "\n")):
        return '"' + value.replace('"', '""') + '"'
    return value
