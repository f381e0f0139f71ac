"""Tables as they are rewritten: row by row, every cell that is not replaced as it was.

`tables.py` reads the notes out of a table. Here the whole table goes through: its header, all
columns, the way in which cells are quoted, and at the other end the same table with some cells
replaced and some columns left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, BinaryIO, Final, Protocol

from fedner.inference.redact import Replacement


class Temporal:
    """What stands for the value of a column of dates or times, which are no text."""


TEMPORAL: Final = Temporal()

Value = str | Temporal | None
NewValue = str | timedelta
"""What takes the place of a value: other words, or by how much a date or time moves."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Attributes:
        place: The line where it begins, or its number.
        values: Its values by column, as text; None for nothing.
        raw: The row as its table keeps it.
        fault: What is wrong with it; such a row has no values.
    """

    place: int
    values: Mapping[str, Value]
    raw: Any = field(repr=False)
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row and what becomes of it.

    Attributes:
        row: The row as it was.
        values: The new values of the columns that change.
        replacements: What was replaced in each column of text.
    """

    row: Row
    values: Mapping[str, NewValue]
    replacements: Mapping[str, tuple[Replacement, ...]]


class Table(Protocol):
    """A table that can be read row by row and written again."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Its columns; None where each row names its own."""
        ...

    def rows(self) -> Iterator[Row]:
        """Yield its rows."""
        ...

    def write(self, file: BinaryIO, rows: Iterable[ChangedRow]) -> None:
        """Write the table with these rows."""
        ...
