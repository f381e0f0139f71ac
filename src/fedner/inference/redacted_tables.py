"""Tables, redacted: the same table with other words in some of its columns.

Columns of text are redacted as notes are. With a key, columns of identifiers become codes (the same
value has the same code in every column, table and run) and columns of dates move with the dates in
the patient's texts. Columns can be left out. All others stay as they were, and are named.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from fedner.corpus.document import Document
from fedner.errors import FednerError
from fedner.inference.dates import shifted
from fedner.inference.home_key import PatientPseudonyms
from fedner.inference.notes import LeftOut
from fedner.inference.reading import Mention, Predicted
from fedner.inference.redact import Replacement, redact
from fedner.inference.redaction_rules import Rules
from fedner.inference.whole_tables import ChangedRow, NewValue, Row, Table

Predicts = Callable[[Iterator[Document]], Iterable[Predicted]]
_CODED: Final = "value"


@dataclass(frozen=True, slots=True)
class TableColumns:
    """What happens to the columns of a table.

    Attributes:
        texts: Those that hold the notes, or other free text.
        id: That of the ids of rows; None numbers them.
        patient: That of the patients; None takes every row for a patient of its own.
        codes: Those whose values become codes.
        dates: Those whose values are dates, and move.
        dropped: Those that are left out.
    """

    texts: tuple[str, ...]
    id: str | None = None
    patient: str | None = None
    codes: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        counts = Counter((*self.texts, *self.codes, *self.dates, *self.dropped))
        if twice := [name for name, count in counts.items() if count > 1]:
            raise FednerError(
                f"the column {twice[0]} is named for two purposes",
                "A column is text, a code, a date or dropped.",
            )

    @property
    def read(self) -> tuple[str, ...]:
        """The columns whose values are needed."""
        named = (self.id, self.patient)
        found = (*self.texts, *(each for each in named if each), *self.codes, *self.dates)
        return tuple(dict.fromkeys(found))

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are named."""
        return tuple(dict.fromkeys((*self.read, *self.dropped)))

    def check_columns(self, columns: tuple[str, ...] | None, place: str) -> None:
        """Refuse a table that has not these columns, each once.

        Raises:
            FednerError: That is so.
        """
        for name in self.named if columns is not None else ():
            found = (columns or ()).count(name)
            if found != 1:
                shown = ", ".join((columns or ())[:20]) or "no columns"
                how_often = "no column" if not found else "more than one column"
                raise FednerError(
                    f'{place}: {how_often} "{name}"; found {shown}', "Name a column of the table."
                )

    def check_key(self, rules: Rules) -> None:
        """Refuse what needs a key where there is none.

        Raises:
            FednerError: That is so.
        """
        if rules.key is None and (self.codes or self.dates):
            raise FednerError(
                "codes and moved dates need a secret key",
                "Make one with: fedner redaction key FILE, and name it with --key FILE.",
            )

    def kept(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that stay as they were."""
        changed = {*self.texts, *self.codes, *self.dates, *self.dropped}
        return [name for name in dict.fromkeys(columns) if name not in changed]


@dataclass(frozen=True, slots=True)
class RedactedRow:
    """What became of a row: its new values, and the lines of the audit list."""

    changed: ChangedRow
    audit: tuple[Mapping[str, Any], ...]


@dataclass(slots=True)
class _Pending:
    row: Row
    patient: str
    documents: list[tuple[str, Document]]
    found: list[tuple[Mention, ...]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TableRedaction:
    """A redaction of one table.

    Attributes:
        table: The table.
        name: What its rows are called: the name of the file.
        columns: What happens to its columns.
        rules: How texts are redacted.
    """

    table: Table
    name: str
    columns: TableColumns
    rules: Rules

    def documents(self, left_out: list[LeftOut]) -> Iterator[Document]:
        """Yield the texts of the table; what is wrong with rows is added to `left_out`."""
        for pending in self._pending(left_out):
            yield from (document for _, document in pending.documents)

    def survey(self) -> tuple[int, list[str]]:
        """Read the whole table; return how many texts it has, and the columns that stay.

        Raises:
            FednerError: It cannot be read to its end, or a row has no patient.
        """
        keys: dict[str, None] = dict.fromkeys(self.table.columns or ())
        texts = 0
        for pending in self._pending([]):
            texts += len(pending.documents)
            if self.table.columns is None:
                keys.update(dict.fromkeys(pending.row.values))
        return texts, self.columns.kept(keys)

    def rows(self, predicts: Predicts, left_out: list[LeftOut]) -> Iterator[RedactedRow]:
        """Yield the redacted rows in their order.

        Args:
            predicts: What finds the mentions of documents.
            left_out: Takes the rows that cannot be read: they do not come out.
        """
        waiting: deque[_Pending] = deque()

        def documents() -> Iterator[Document]:
            for pending in self._pending(left_out):
                waiting.append(pending)
                yield from (document for _, document in pending.documents)

        for predicted in predicts(documents()):
            while not waiting[0].documents:
                yield self._redacted(waiting.popleft())
            waiting[0].found.append(predicted.mentions)
            if len(waiting[0].found) == len(waiting[0].documents):
                yield self._redacted(waiting.popleft())
        while waiting:
            yield self._redacted(waiting.popleft())

    def _pending(self, left_out: list[LeftOut]) -> Iterator[_Pending]:
        seen: set[int] = set()  # hashes, not ids: a few bytes for each row
        for row in self.table.rows():
            if row.fault:
                place = Path(f"{self.name}:{row.place}")
                left_out.append(LeftOut(place, row.fault, "Fix the row.", True))
                continue
            key = _text(row, self.columns.id) or f"{self.name}:{row.place}"
            if hash(key) in seen:
                key = f"{key}#{row.place}"
            seen.add(hash(key))
            patient = _text(row, self.columns.patient)
            if self.columns.patient is not None and patient is None and row.values:
                raise FednerError(
                    f"{self.name}: the row {row.place:,} has no patient under "
                    f'"{self.columns.patient}"',
                    "Name the patient of every row, or leave --patient-column out: every row "
                    "then counts as a separate patient.",
                )
            yield _Pending(row, patient or key, list(self._texts(row, key)))

    def _texts(self, row: Row, key: str) -> Iterator[tuple[str, Document]]:
        for name in self.columns.texts:
            text = _text(row, name)
            if text is not None and text.strip():
                own = key if len(self.columns.texts) == 1 else f"{key}/{name}"
                yield name, Document(own, text, source=f"{self.name}:{row.place}")

    def _redacted(self, pending: _Pending) -> RedactedRow:
        rules, key = self.rules, self.rules.key
        names = None if key is None else PatientPseudonyms(key, pending.patient, rules.dates)
        values = dict(self._named_columns(pending.row, names))
        replacements: dict[str, tuple[Replacement, ...]] = {}
        audit: list[Mapping[str, Any]] = []
        for (name, document), mentions in zip(pending.documents, pending.found, strict=True):
            done = redact(document.text, mentions, rules.how, names)
            values[name], replacements[name] = done.text, done.replacements
            audit.append(self._audited(name, document, done.replacements))
        changed = ChangedRow(pending.row, values, replacements)
        return RedactedRow(changed, tuple(audit))

    def _named_columns(
        self, row: Row, names: PatientPseudonyms | None
    ) -> Iterator[tuple[str, NewValue]]:
        """Yield the new values of columns of identifiers and of dates."""
        if names is None:
            return
        for column in self.columns.codes:
            value = _text(row, column)
            if value is not None:
                yield column, names.key.code(_CODED, value.strip())
        for column in self.columns.dates:
            found = row.values.get(column)
            if isinstance(found, str):
                moved = shifted(found, names.days, day_first=names.dates.day_first)
                code = f"[DATE-{names.key.code(_CODED, found.strip())}]"
                yield column, code if moved is None else moved
            elif found is not None:
                yield column, timedelta(names.days)

    def _audited(
        self, column: str, document: Document, replacements: tuple[Replacement, ...]
    ) -> dict[str, Any]:
        return {
            "source": document.source,
            "target": "",
            "id": document.id,
            "column": column,
            "digest": hashlib.sha256(document.text.encode("utf-8", "surrogatepass")).hexdigest(),
            "replacements": [asdict(each) for each in replacements],
        }


def _text(row: Row, column: str | None) -> str | None:
    """Return the text in a column; None for nothing."""
    found = None if column is None else row.values.get(column)
    return found if isinstance(found, str) and found else None
