"""Whose text a document is, where the format itself does not say so.

A hospital knows it from a table (`document,patient`), from a column or key of the corpus, or from
the names of its files. Whatever the way, the patient stands in `Document.patient` afterwards:
splits and units of differential privacy go by it.
"""

import csv
import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from fedner.corpus.document import Document
from fedner.corpus.files import lines
from fedner.corpus.problems import Problem, ProblemLog
from fedner.errors import FednerError

GROUP = "patient"
"""The named group of a pattern: `(?P<patient>...)`."""

_IDS_COMPARED = 2_000  # how many ids a wrong one is compared with, to say what was meant
_ROWS_COMPARED = 50
_DOCUMENT, _PATIENT = "document", "patient"


@dataclass(frozen=True, slots=True)
class PatientSource:
    """Where patients come from: exactly one of three.

    Attributes:
        file: A table with the columns document and patient, separated by commas or tabs.
        column: The column of token columns, or the key, column or infon of other formats.
        pattern: A regular expression, searched in the name of the document's file, with a group
            of the name `patient`.
        is_shared: Whether the table also serves other inputs, so that it may name documents that
            this one does not have.
    """

    file: Path | None = None
    column: str | None = None
    pattern: str | None = None
    is_shared: bool = False

    def __post_init__(self) -> None:
        given = [each for each in (self.file, self.column, self.pattern) if each is not None]
        if len(given) != 1:
            raise FednerError(
                f"patients: found {len(given)} sources; expected exactly one of file, column and "
                "pattern",
                "Choose the one that knows every document's patient.",
            )
        if self.pattern is not None:
            _compiled(self.pattern)


class Entry(NamedTuple):
    """A row of a table: the patient, and the line where the document first stands."""

    patient: str
    line: int


def with_patients(
    documents: Iterator[Document], source: PatientSource, log: ProblemLog
) -> Iterator[Document]:
    """Pass on documents with their patients, as a table or a pattern says.

    A column is read by the format's own reader; here it is only seen whether there was one.
    """
    if source.pattern is not None:
        return _by_pattern(documents, _compiled(source.pattern), log)
    if source.file is not None:
        return _by_table(documents, source.file, log, is_shared=source.is_shared)
    return _by_column(documents, source.column or "", log)


def _by_column(documents: Iterator[Document], column: str, log: ProblemLog) -> Iterator[Document]:
    num_documents = num_known = 0
    source = ""
    for document in documents:
        num_documents += 1
        num_known += document.patient is not None
        source = document.source
        yield document
    if num_documents and not num_known:
        log.report(
            Problem(
                "no such column", source, None, f'no patient under "{column}" in any document',
                "the column or key that holds the patient", "Name another one.", kept=True,
            )
        )  # fmt: skip


def read_table(path: Path, log: ProblemLog) -> dict[str, Entry]:
    """Return the patient of every document that a table names; report what is wrong with it.

    The first row may name the columns (`document` and `patient`, others may stand beside them);
    without that the first two are meant.
    """
    table: dict[str, Entry] = {}
    places: tuple[int, int] | None = None
    for line, row in _rows(path, log):
        if places is None:
            names = [cell.strip().lower() for cell in row]
            has_header = _DOCUMENT in names and _PATIENT in names
            places = (names.index(_DOCUMENT), names.index(_PATIENT)) if has_header else (0, 1)
            if has_header:
                continue
        cells = [row[place].strip() if place < len(row) else "" for place in places]
        if not all(cells):
            _report(log, path, line, "malformed line", _shown(row), "a document and its patient")
            continue
        document, patient = cells
        known = table.setdefault(document, Entry(patient, line))
        if known.patient != patient:
            found = f'the patient "{patient}" for "{document}"'
            expected = f'"{known.patient}", as in line {known.line}'
            _report(log, path, line, "two patients", found, expected, kept=True)
    return table


def unknown_rows(
    table: dict[str, Entry], path: Path, used: Collection[str], ids: Sequence[str]
) -> list[Problem]:
    """Return the rows of a table whose documents the corpus does not have, as problems.

    Args:
        table: What the table says.
        path: Its file.
        used: Its documents that the corpus has.
        ids: Some ids of the corpus, to say which was meant.
    """
    rows = [(document, entry) for document, entry in table.items() if document not in used]
    problems = []
    for document, entry in rows:
        near = difflib.get_close_matches(document, ids, 1) if len(rows) < _ROWS_COMPARED else []
        hint = f'Did you mean "{near[0]}"?' if near else "Remove the row, or fix the name."
        problems.append(
            Problem(
                "unknown document", str(path), entry.line, f'the document "{document}"',
                "the id or the file of a document of the corpus", hint, kept=True,
            )
        )  # fmt: skip
    return problems


def _by_table(
    documents: Iterator[Document], path: Path, log: ProblemLog, *, is_shared: bool
) -> Iterator[Document]:
    table = read_table(path, log)
    used: set[str] = set()
    ids: list[str] = []
    for document in documents:
        if len(ids) < _IDS_COMPARED:
            ids.append(document.id)
        key = next((name for name in _names_of(document) if name in table), None)
        if key is None:
            yield document
            continue
        used.add(key)
        entry = table[key]
        if document.patient not in (None, entry.patient):
            found = f'the patient "{entry.patient}" for "{key}"'
            expected = f'"{document.patient}", as the corpus itself has it'
            _report(log, path, entry.line, "two patients", found, expected, kept=True)
        yield replace(document, patient=entry.patient)
    if is_shared:
        log.unknown_rows.extend(unknown_rows(table, path, used, ()))
        return
    for problem in unknown_rows(table, path, used, ids):
        log.report(problem)


def _by_pattern(
    documents: Iterator[Document], pattern: "re.Pattern[str]", log: ProblemLog
) -> Iterator[Document]:
    for document in documents:
        match = pattern.search(document.source)
        patient = match[GROUP] if match is not None else None
        if not patient:
            yield document
            continue
        if document.patient not in (None, patient):
            log.report(
                Problem(
                    "two patients", document.source, None,
                    f'the patient "{patient}" for "{document.id}"',
                    f'"{document.patient}", as the corpus itself has it',
                    "Fix the pattern, or leave it out.", kept=True,
                )
            )  # fmt: skip
        yield replace(document, patient=patient)


def _names_of(document: Document) -> tuple[str, str]:
    """Return what a table may call a document: its id, or its file."""
    return document.id, document.source


def _compiled(pattern: str) -> "re.Pattern[str]":
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise FednerError(
            f"patients: the pattern {pattern!r} is not a regular expression ({error})",
            f"Write one with the group (?P<{GROUP}>...), for example ^(?P<{GROUP}>[^/_]+)_.",
        ) from None
    if GROUP not in found.groupindex:
        raise FednerError(
            f"patients: the pattern {pattern!r} has no group named {GROUP}",
            f"Put the part that names the patient into (?P<{GROUP}>...), for example "
            f"^(?P<{GROUP}>[^/_]+)_.",
        )
    return found


def _rows(path: Path, log: ProblemLog) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table that are not blank, each with its line."""
    if not path.is_file():
        raise FednerError(
            f"{path}: no such file", "Name the table of documents and patients (.csv or .tsv)."
        )
    separator: str | None = None
    for line, text in lines(path, log):
        if not text.strip():
            continue
        if separator is None:
            separator = "\t" if "\t" in text else ","
        try:
            yield line, next(csv.reader([text], delimiter=separator))
        except (csv.Error, StopIteration) as error:
            _report(log, path, line, "malformed line", str(error), "a document and its patient")


def _shown(row: list[str]) -> str:
    return f'"{", ".join(row)[:80]}"'


def _report(
    log: ProblemLog,
    path: Path,
    line: int,
    kind: Literal["malformed line", "two patients"],
    found: str,
    expected: str,
    *,
    kept: bool = False,
) -> None:
    log.report(Problem(kind, str(path), line, found, expected, "Fix the row.", kept))
