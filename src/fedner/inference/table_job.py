"""The redaction of a table as a job: killed at any time, the same command goes on where it was.

It is a prediction (`job.py`) whose output is the redacted table. What was found stands in
OUT.partial, for the owner alone, until the table and its audit list are whole.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from fedner.corpus.document import Document
from fedner.corpus.files import compressing
from fedner.durable import owner_folder, writing
from fedner.errors import FednerError
from fedner.inference.csv_table import CsvTable
from fedner.inference.found_files import Output, created, read_found
from fedner.inference.inputs import PredictionInput
from fedner.inference.job import SKIPPED, Job, JobResult
from fedner.inference.json_table import JsonTable
from fedner.inference.notes import LeftOut
from fedner.inference.parquet_table import ParquetTable
from fedner.inference.predict import Predictor
from fedner.inference.reading import Finder, Mention, Predicted, read_documents
from fedner.inference.redacted_tables import RedactedRow, TableColumns, TableRedaction
from fedner.inference.redaction_audit import KIND, VERSION
from fedner.inference.tables import PARQUET, table_format
from fedner.inference.whole_tables import ChangedRow, Table

JSONL: Final = "jsonl"
_JSON_SUFFIXES: Final = (".jsonl", ".ndjson")


def whole_table_format(path: Path) -> str | None:
    """Return which kind of table can be rewritten a file is by its name; None for none."""
    name = path.with_suffix("") if path.suffix.lower() in (".gz", ".xz") else path
    return JSONL if name.suffix.lower() in _JSON_SUFFIXES else table_format(path)


def open_table(
    path: Path | None,
    format: str,
    columns: TableColumns,
    encoding: str | None = None,
    stream: BinaryIO | None = None,
) -> Table:
    """Open a table that shall be rewritten.

    Args:
        path: The file; None for a stream.
        format: "csv", "tsv", "parquet" or "jsonl".
        columns: What happens to its columns.
        encoding: How CSV and TSV are encoded; None for UTF-8.
        stream: Standard input.

    Raises:
        FednerError: It cannot be read, or not as that.
    """
    if format == PARQUET:
        if path is None:
            raise FednerError("standard input cannot be read as parquet", "Name the file.")
        table = ParquetTable(
            path, columns.read, columns.texts, columns.codes, columns.dates, columns.dropped
        )
        columns.check_columns(table.columns, str(path))
        table.check_types()
        return table
    if format == JSONL:
        return JsonTable(path, stream, columns.texts, columns.dropped)
    return CsvTable(path, stream, format, columns.named, encoding, columns.dropped)


@dataclass(slots=True)
class TableCounts:
    """What a redaction of a table came to.

    Attributes:
        rows: The rows that were written.
        replaced: How many mentions were replaced, by type.
    """

    rows: int
    replaced: Counter[str]


@dataclass(frozen=True, slots=True)
class TableJob:
    """A redaction of a table into a file.

    Attributes:
        redaction: What is redacted and how.
        source: The file of the table.
        out: Where the redacted table goes.
        audit: Where the list of replacements goes, which stays at home.
        settings: What else two starts that belong together have in common.
        at_home: The folder for all that is not the output; None for beside it.
    """

    redaction: TableRedaction
    source: Path
    out: Path
    audit: Path
    settings: Mapping[str, Any]
    at_home: Path | None = None

    def check(self) -> None:
        """Refuse what is in the way, before a tagger is loaded.

        Raises:
            FednerError: The output or the audit list is there, or of another kind than the input.
        """
        if self.audit.resolve() == self.out.resolve():
            raise FednerError(f"{self.audit} is the output itself", "Choose another --audit.")
        kinds = [whole_table_format(each) for each in (self.source, self.out)]
        if None not in kinds and kinds[0] != kinds[1]:
            raise FednerError(
                f"{self.out}: the output of {self.source} is {kinds[0]}, as its input",
                f"Give it a name that ends in .{kinds[0]}.",
            )
        if self.at_home is not None:
            owner_folder(self.at_home)
        if self.at_home is not None and self._has_ended():
            return
        job = self._job(lambda _lines, _output: None)
        job.check_target()
        if self.audit.exists() and not job.partial.exists():
            raise FednerError(
                f"{self.audit} is already there, without {self.out}",
                "Move it away, or choose another --out: nothing is overwritten.",
            )

    def is_done(self, predictor: Predictor) -> bool:
        """Whether an earlier start of the same redaction of several tables did this one.

        Raises:
            FednerError: What is there came of another redaction, or of another table.
        """
        if self.at_home is None or not self._has_ended():
            return False
        with self.audit.open("rb") as file:
            first = file.readline()
        if first != _line(self._header(predictor)):
            raise FednerError(
                f"{self.out} is already there, from another redaction or another {self.source}",
                "To begin again choose another --out: nothing is overwritten.",
            )
        return True

    def _has_ended(self) -> bool:
        partial = self._job(lambda _lines, _output: None).partial
        return self.out.is_file() and self.audit.is_file() and not partial.exists()

    def run(
        self,
        predictor: Predictor,
        total: int,
        on_note: Callable[[int], None] = lambda _done: None,
        *,
        restart: bool = False,
    ) -> tuple[JobResult, TableCounts]:
        """Redact the table, or go on where a redaction of it was killed.

        Args:
            predictor: The tagger.
            total: How many texts the table has.
            on_note: Called with the number of texts that are done.
            restart: Whether to throw away what a killed start found.
        """
        counts = TableCounts(0, Counter())

        def write(lines: BinaryIO, output: Output) -> None:
            self._write(predictor, lines, output, counts)

        left_out: list[LeftOut] = []
        opened = PredictionInput(
            self.redaction.documents(left_out),
            (self.source,),
            left_out,
            source=str(self.source),
            total=total,
        )
        removes = _Removes(predictor, self.redaction.rules.finder(predictor))
        return self._job(write).run(removes, opened, on_note, restart=restart), counts

    def _job(self, writer: Callable[[BinaryIO, Output], None]) -> Job:
        settings = {"source": str(self.source.resolve()), **self._settings()}
        home = self.at_home
        skipped = None if home is None else home / f"{self.out.name}{SKIPPED}"
        return Job(self.out, "jsonl", settings, skipped, writer=writer, at_home=home)

    def _settings(self) -> dict[str, Any]:
        columns = asdict(self.redaction.columns)
        rules = self.redaction.rules.as_dict()
        plain: dict[str, Any] = json.loads(
            json.dumps({**self.settings, "columns": columns, **rules})
        )
        return plain

    def _header(self, predictor: Predictor) -> dict[str, Any]:
        """Return the first line of the audit list."""
        with self.source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {
            "fedner": KIND,
            "version": VERSION,
            "source": str(self.source.resolve()),
            "digest": digest,
            "target": str(self.out.resolve().parent),
            "model": predictor.digest,
            **self._settings(),
        }

    def _write(
        self, predictor: Predictor, lines: BinaryIO, output: Output, counts: TableCounts
    ) -> None:
        """Write the table and, before it gets its name, the audit list."""
        rows = self.redaction.rows(lambda documents: _stored(documents, lines), [])
        with ExitStack() as stack:
            audit = stack.enter_context(writing(self.audit, owner_only=True))
            file = stack.enter_context(created(output.place, output.mode))
            packed = stack.enter_context(compressing(file, self.out))
            audit.write(_line(self._header(predictor)))
            self.redaction.table.write(packed, audited(rows, audit.write, self.out.name, counts))


def audited(
    rows: Iterable[RedactedRow],
    add: Callable[[bytes], object] | None,
    target: str,
    counts: TableCounts,
) -> Iterator[ChangedRow]:
    """Pass on redacted rows, count them, and add their lines to an audit list."""
    for row in rows:
        counts.rows += bool(row.changed.row.values)
        for line in row.audit:
            counts.replaced.update(each["label"] for each in line["replacements"])
            if add is not None:
                add(_line({**line, "target": target}))
        yield row.changed


@dataclass(frozen=True, slots=True)
class _Removes:
    """A tagger as a job knows one, which finds what has to go."""

    predictor: Predictor
    finder: Finder

    @property
    def labels(self) -> Sequence[str]:
        return self.predictor.labels

    @property
    def digest(self) -> str:
        return self.predictor.digest

    def predict_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        return read_documents(self.finder, documents)


def _stored(documents: Iterator[Document], lines: BinaryIO) -> Iterator[Predicted]:
    """Yield what was found in each text, from the lines of the job."""
    found = read_found(lines)
    for document in documents:
        stored, confidences = next(found, (None, ()))
        if stored is None or (stored.id, stored.text) != (document.id, document.text):
            raise FednerError(
                f"{document.source}: the table changed while it was redacted",
                "Use a copy that nobody writes to, and add --restart.",
            )
        mentions = tuple(
            Mention(each.start, each.end, each.label, each.text_in(document.text), confidence)
            for each, confidence in zip(stored.spans, confidences, strict=True)
        )
        yield Predicted(document, mentions)


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"
