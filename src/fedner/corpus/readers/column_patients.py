"""The patients of token columns, from a column of their own.

Most lines are cut into columns many at once and without their other columns
(`column_blocks.py`); where a patient is asked for, the lines are gone through once more, beside.
"""

from collections.abc import Sequence
from pathlib import Path

from fedner.corpus.files import lines
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers.column_blocks import TokenLines
from fedner.corpus.readers.column_layout import Layout, column_number, columns_of, is_marker
from fedner.errors import FednerError

_NOTHING = ("", "_")  # CoNLL's sign for an empty column


class ColumnPatients:
    """Goes through a file beside its reader and says whose text each document is."""

    def __init__(self, path: Path, column: str, layout: Layout, log: ProblemLog) -> None:
        self._path = path
        self._layout = layout
        self._log = log
        self._place = _place(column, layout)
        self._rows = lines(path, ProblemLog(limit=0, encoding=log.encoding))
        self._next = next(self._rows, None)

    def of(self, group: Sequence[TokenLines]) -> str | None:
        """Return the patient of the sentences of one document; reports a second one."""
        first, last = group[0].line, _last_line(group[-1])
        found: str | None = None
        while self._next is not None and self._next[0] <= last:
            number, row = self._next
            self._next = next(self._rows, None)
            patient = self._patient(row) if number >= first else None
            if patient is None:
                continue
            if found is not None and patient != found:
                self._report(number, patient, found)
                continue
            found = patient
        return found

    def _patient(self, row: str) -> str | None:
        columns = columns_of(row, self._layout.separator)
        if is_marker(row) or len(columns) != self._layout.num_columns:
            return None
        patient = columns[self._place].strip()
        return None if patient in _NOTHING else patient

    def _report(self, number: int, patient: str, known: str) -> None:
        self._log.report(
            Problem(
                "two patients", str(self._path), number, f'the patient "{patient}"',
                f'"{known}", as before in the same document',
                "Fix the column, or put a -DOCSTART- line between the two; the first counts.",
                kept=True,
            )
        )  # fmt: skip


def _last_line(sentence: TokenLines) -> int:
    return sentence.number(len(sentence.starts) - 1) if sentence.starts else sentence.line


def _place(column: str, layout: Layout) -> int:
    try:
        number = int(column)
    except ValueError:
        raise FednerError(
            f"patients: the column {column!r} of token columns; expected a number",
            f"Count from 0 to {layout.num_columns - 1}, or from the right: -2 stands before the "
            "last.",
        ) from None
    return column_number("patient", number, layout.num_columns)
