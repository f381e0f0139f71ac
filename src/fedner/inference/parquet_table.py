"""Parquet files, rewritten: columns that are not replaced keep their values and types.

The metadata of pandas is left out where a column goes or changes its type; statistics are computed
anew, so that nothing that was replaced stays in them.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, Final

from fedner.corpus.readers.extras import Fault, attempt, required
from fedner.errors import FednerError
from fedner.inference.tables import holds_text
from fedner.inference.whole_tables import TEMPORAL, ChangedRow, Row, Value

_BATCH_ROWS: Final = 100
_GROUP_ROWS: Final = 5_000
_PANDAS: Final = b"pandas"
_NEED: Final = "parquet files"


class ParquetTable:
    """A parquet file.

    Args:
        path: The file.
        read: The columns whose values are needed; others are passed through as they are.
        texts: Those of them that hold the texts.
        coded: Those of them that become text, whatever they were.
        dates: Those of them that hold dates.
        dropped: The columns that are left out.

    Raises:
        FednerError: It is no parquet file, or pyarrow is missing.
    """

    def __init__(
        self,
        path: Path,
        read: Sequence[str],
        texts: Collection[str] = (),
        coded: Collection[str] = (),
        dates: Collection[str] = (),
        dropped: Collection[str] = (),
    ) -> None:
        self._parquet = required("pyarrow.parquet", "formats", _NEED)
        self._arrow = required("pyarrow", "formats", _NEED)
        self._path, self._read = path, tuple(read)
        self._texts, self._coded, self._dates = tuple(texts), tuple(coded), tuple(dates)
        file = self._file()
        self._schema = file.schema_arrow
        self.columns = tuple(self._schema.names)
        self._kept = [name for name in self.columns if name not in dropped]
        self._compression = _compression(file)

    def is_temporal(self, column: str) -> bool:
        """Whether a column holds dates or times rather than text."""
        return bool(self._arrow.types.is_temporal(self._schema.field(column).type))

    def check_types(self) -> None:
        """Refuse columns of text or dates that hold something else, and codes of dates.

        Raises:
            FednerError: That is so.
        """
        for name in (*self._texts, *self._coded, *self._dates):
            kind = self._schema.field(name).type
            if name in self._coded:
                expected, is_right = "identifiers", not self.is_temporal(name)
            elif name in self._dates:
                expected, is_right = "dates", self.is_temporal(name) or holds_text(kind)
            else:
                expected, is_right = "text", holds_text(kind)
            if not is_right:
                raise FednerError(
                    f'{self._path}: the column "{name}" holds {kind}; expected {expected}',
                    "Texts are --text-column, identifiers --code-column, dates --date-column.",
                )

    def rows(self) -> Iterator[Row]:
        """Yield the rows."""
        batches = self._file().iter_batches(batch_size=_BATCH_ROWS)
        number = 0
        while True:
            batch = attempt(lambda: next(batches, None))
            if isinstance(batch, Fault):
                raise FednerError(
                    f"{self._path}: cannot be read after row {number:,}: {batch.found}",
                    "Use an undamaged copy of the file.",
                )
            if batch is None:
                return
            values = {name: self._values(batch, name) for name in self._read}
            for at in range(batch.num_rows):
                number += 1
                yield Row(number, {name: each[at] for name, each in values.items()}, (batch, at))

    def write(self, file: BinaryIO, rows: Iterable[ChangedRow]) -> None:
        """Write the table with these rows."""
        schema = self._new_schema()
        with self._parquet.ParquetWriter(file, schema, compression=self._compression) as writer:
            held: list[Any] = []
            for _, group in groupby(rows, key=lambda each: id(each.row.raw[0])):
                held.append(self._batch(list(group), schema))
                if sum(each.num_rows for each in held) >= _GROUP_ROWS:
                    writer.write_table(self._arrow.Table.from_batches(held, schema))
                    held = []
            if held:
                writer.write_table(self._arrow.Table.from_batches(held, schema))

    def _batch(self, rows: Sequence[ChangedRow], schema: Any) -> Any:
        """Return the changed rows of one batch."""
        places = self._arrow.array([each.row.raw[1] for each in rows])
        batch = rows[0].row.raw[0].take(places)
        columns = [self._column(batch, name, rows, schema) for name in self._kept]
        return self._arrow.record_batch(columns, schema=schema)

    def _file(self) -> Any:
        file = attempt(lambda: self._parquet.ParquetFile(self._path))
        if isinstance(file, Fault):
            raise FednerError(
                f"{self._path} is not a parquet file: {file.found}", "Check the file."
            )
        return file

    def _values(self, batch: Any, name: str) -> list[Value]:
        column = batch.column(name)
        if self.is_temporal(name):
            return [TEMPORAL if each else None for each in column.is_valid().to_pylist()]
        return [None if each in (None, "") else str(each) for each in column.to_pylist()]

    def _new_schema(self) -> Any:
        fields = [self._schema.field(name) for name in self._kept]
        new = [
            field.with_type(self._arrow.string()) if field.name in self._coded else field
            for field in fields
        ]
        metadata = dict(self._schema.metadata or {})
        if new != list(self._schema):
            metadata.pop(_PANDAS, None)
        return self._arrow.schema(new, metadata=metadata or None)

    def _column(self, batch: Any, name: str, rows: Sequence[ChangedRow], schema: Any) -> Any:
        old, kind = batch.column(name), schema.field(name).type
        new = [each.values.get(name) for each in rows]
        if any(isinstance(each, timedelta) for each in new):
            return self._moved(old, new)
        if name not in (*self._texts, *self._coded) and all(each is None for each in new):
            return old
        # Never the old column: a dictionary of its own may hold words of other rows.
        was = self._values(batch, name)
        words = [
            str(a) if b is None and a is not None else b for a, b in zip(was, new, strict=True)
        ]
        return self._arrow.array(words, self._arrow.string()).cast(kind)

    def _moved(self, old: Any, by: Sequence[Any]) -> Any:
        """Return dates or times, each moved by its days."""
        add = required("pyarrow.compute", "formats", _NEED).add
        arrow, kind = self._arrow, old.type
        days = [(each or timedelta()).days for each in by]
        if arrow.types.is_date32(kind):
            return add(old.cast(arrow.int32()), arrow.array(days, arrow.int32())).cast(kind)
        unit = kind.unit if arrow.types.is_timestamp(kind) else "ms"
        moves = arrow.array([timedelta(each) for each in days], arrow.duration(unit))
        return add(old.cast(arrow.timestamp("ms")) if kind == arrow.date64() else old, moves).cast(
            kind
        )


def _compression(file: Any) -> str:
    """Return how the first column of a file is compressed."""
    if not file.metadata.num_row_groups:
        return "snappy"
    found = str(file.metadata.row_group(0).column(0).compression).lower()
    return "none" if found == "uncompressed" else found
