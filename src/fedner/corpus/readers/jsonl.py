"""fedner's own format: one JSON object a line, a document each, after a header.

    {"fedner": "corpus", "version": 1, "name": "clinic a", "labels": ["ADE", "Drug"]}
    {"id": "1", "text": "Nausea after aspirin.", "spans": [{"start": 0, "end": 6, "label": "ADE"},
     {"fragments": [[13, 20]], "label": "Drug"}], "patient": "p1", "source": "a.txt",
     "segments": [{"start": 0, "end": 21, "tokens": [[0, 6], [7, 12], [13, 20], [20, 21]]}]}

The header declares the labels that were annotated, whether or not they occur; it may be absent, as
may everything but id and text. Offsets are half-open and count characters (code points).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from fedner.corpus.document import Document, Fragment, Segment, Span
from fedner.corpus.files import display_name, head, lines
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers.folder import choose, reason_in
from fedner.corpus.readers.json_records import (
    MAX_LINE_CHARACTERS,
    MalformedError,
    as_object,
    as_text,
    type_name,
)
from fedner.corpus.readers.options import option
from fedner.corpus.readers.reader import Declared, Reader

VERSION = 1

_KEYS = {"id", "text", "spans", "segments", "patient", "source", "uncertainty"}
_PATIENT = "patient"
_HEADER_START = '{"fedner"'


@dataclass(frozen=True, slots=True)
class JsonlOptions:
    """The options of fedner's JSONL.

    Attributes:
        patient_column: The key that holds the patient.
    """

    patient_column: str = option(_PATIENT, "the key of the records that holds the patient")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a line stands, and what its file declares."""

    path: Path
    line: int
    source: str
    labels: frozenset[str] | None
    patient_key: str


def recognise(path: Path) -> str | None:
    """Say why a file, or some file of a folder, looks like fedner's JSONL."""
    return reason_in(path, _reason)


def declared(path: Path, _options: JsonlOptions, _encoding: str | None) -> Declared:
    """Return the name in the header, if all files agree on one."""
    found = [header.get("name") for header in _headers(path)]
    names = {name if isinstance(name, str) else None for name in found}
    return Declared(name=names.pop() if len(names) == 1 else None)


def declared_labels(path: Path) -> tuple[str, ...]:
    """Return the labels that the headers declare, sorted."""
    labels = {label for header in _headers(path) for label in _header_labels(header) or ()}
    return tuple(sorted(labels))


def stream(path: Path, log: ProblemLog, options: JsonlOptions) -> Iterator[Document]:
    """Read a file, or those files of a folder that look like fedner's JSONL."""
    for file in choose(path, _looks_right, log, "fedner's JSONL"):
        yield from _documents(file, display_name(file, path), log, options.patient_column)


def read_segments(value: object, length: int) -> tuple[Segment, ...] | None:
    """Return the sentences of a text of `length` characters from their JSON; null is none.

    Raises:
        ValueError: If they are not as fedner writes them.
    """
    if value is None:
        return None
    return tuple(_read_segment(item, length) for item in _list(value, "segments"))


def _looks_right(path: Path) -> bool:
    return _reason(path) is not None


def _reason(path: Path) -> str | None:
    text = (head(path) or "").lstrip()
    if text.startswith(_HEADER_START) and '"corpus"' in text.partition("\n")[0]:
        return "the first line is the header of a fedner corpus"
    if not text.startswith("{"):
        return None
    first, end, _ = text.partition("\n")
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        # A document longer than the head that is read: its beginning must do.
        is_cut = not end and '"id"' in text and '"text"' in text
        return "the first line begins like a document" if is_cut else None
    is_document = isinstance(record, dict) and "id" in record and "text" in record
    return "the first line is a JSON object with id and text" if is_document else None


def _headers(path: Path) -> list[dict[str, Any]]:
    """Return the headers of all files; none at all if some file has none."""
    headers = []
    for file in choose(path, _looks_right, ProblemLog(), ""):
        first = islice(lines(file, ProblemLog(), max_characters=MAX_LINE_CHARACTERS), 1)
        for _, text in first:
            try:
                record = json.loads(text)
            except (ValueError, RecursionError):
                return []
            if not _is_header(record):
                return []
            headers.append(record)
    return headers


def _is_header(record: object) -> bool:
    return isinstance(record, dict) and "fedner" in record


def _header_labels(header: dict[str, Any]) -> list[str] | None:
    labels = header.get("labels")
    is_right = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    return labels if is_right else None


def _documents(path: Path, name: str, log: ProblemLog, patient_key: str) -> Iterator[Document]:
    labels: frozenset[str] | None = None
    for line, text in lines(path, log, max_characters=MAX_LINE_CHARACTERS):
        if not text.strip():
            continue
        place = _Place(path, line, name, labels, patient_key)
        try:
            record = _parse(text)
            if _is_header(record):
                labels = _read_header(record, line)
            else:
                yield _read_document(record, place, log)
        except MalformedError as fault:
            log.report(fault.problem(place.path, place.line, "Fix the line; it is skipped."))


def _parse(text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        found = f"{error.msg} at character {error.pos + 1}"
        raise MalformedError(found, "one JSON object a line") from None
    except (ValueError, RecursionError) as error:
        raise MalformedError(str(error), "one JSON object a line") from None
    return as_object(record)


def _read_header(record: dict[str, Any], line: int) -> frozenset[str] | None:
    if line != 1:
        raise MalformedError("a header", "the header on the first line alone")
    if record["fedner"] != "corpus" or record.get("version") != VERSION:
        found = f"{json.dumps(record['fedner'])} of version {json.dumps(record.get('version'))}"
        raise MalformedError(found[:200], f'"corpus" of version {VERSION}')
    if "labels" not in record:
        return None
    labels = _header_labels(record)
    if labels is None:
        raise MalformedError(f"labels of type {type_name(record['labels'])}", "a list of strings")
    return frozenset(labels)


def _read_document(record: dict[str, Any], place: _Place, log: ProblemLog) -> Document:
    identity = _text_at(record, "id")
    text = _text_at(record, "text")
    for key in sorted(record.keys() - _KEYS - {place.patient_key}):
        log.remark(f'unknown key "{key[:40]}" (ignored)')
    patient = _patient_at(record, place.patient_key)
    source = place.source if record.get("source") is None else _text_at(record, "source")
    segments = read_segments(record.get("segments"), len(text))
    spans = []
    for item in _list(record.get("spans", []), "spans"):
        try:
            spans.append(_read_span(item, len(text)))
        except MalformedError as fault:
            problem = fault.problem(
                place.path, place.line, "Fix the span; without that it is skipped."
            )
            log.skip_mention(problem, identity, _label_or_nothing(item))
        else:
            _check_label(spans[-1].label, place, log)
    return Document(identity, text, tuple(spans), segments, patient, source)


def _patient_at(record: dict[str, Any], key: str) -> str | None:
    """Return whose text it is; a key of the user's own may hold a number too."""
    value = record.get(key)
    if type(value) is int and key != _PATIENT:
        return str(value)
    return None if value is None else _text_at(record, key)


def _read_span(item: object, length: int) -> Span:
    if not isinstance(item, dict):
        raise MalformedError(f"a span of type {type_name(item)}", "a JSON object")
    label = _text_at(item, "label")
    if not label:
        raise MalformedError("an empty label", "the entity type")
    pairs = item.get("fragments", [[item.get("start"), item.get("end")]])
    fragments = tuple(_read_range(pair, length, label) for pair in _list(pairs, "fragments"))
    if not fragments:
        raise MalformedError("no fragments", "at least one [start, end]", "zero-length span")
    if any(before[1] > after[0] for before, after in pairwise(fragments)):
        expected = "fragments in text order that do not overlap"
        raise MalformedError(f"{label} {pairs}"[:200], expected, "overlapping fragments")
    return Span(fragments, label)


def _read_range(pair: object, length: int, what: str) -> Fragment:
    """Return a non-empty range within a text of `length` characters."""
    expected = f"[start, end] with 0 <= start < end <= {length}"
    if not (isinstance(pair, list) and len(pair) == 2 and all(type(end) is int for end in pair)):
        raise MalformedError(f"{what} {pair!r}"[:200], expected)
    start, end = pair
    if start == end:
        raise MalformedError(f"{what} [{start}, {end}]", expected, "zero-length span")
    if not 0 <= start < end <= length:
        raise MalformedError(f"{what} [{start}, {end}]"[:200], expected, "offset outside the text")
    return start, end


def _read_segment(item: object, length: int) -> Segment:
    if not isinstance(item, dict):
        raise MalformedError(f"a segment of type {type_name(item)}", "a JSON object")
    start, end = item.get("start"), item.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= length:
        found = f"segment [{start!r}, {end!r}]"[:200]
        raise MalformedError(found, f"0 <= start <= end <= {length}", "offset outside the text")
    if item.get("tokens") is None:
        return Segment(start, end)
    tokens = [_read_range(pair, length, "token") for pair in _list(item["tokens"], "tokens")]
    bounds = [start, *(bound for token in tokens for bound in token), end]
    if any(before > after for before, after in pairwise(bounds)):
        raise MalformedError("tokens out of order", "tokens in text order within their segment")
    return Segment(start, end, tuple(t[0] for t in tokens), tuple(t[1] for t in tokens))


def _check_label(label: str, place: _Place, log: ProblemLog) -> None:
    """Report a label that the header does not declare; it is kept all the same."""
    if place.labels is None or label in place.labels:
        return
    found = f'the label "{label[:60]}"'
    expected = f"one of the header's labels ({', '.join(sorted(place.labels)) or 'none'})"
    fault = MalformedError(found, expected, "unknown tag")
    log.report(
        fault.problem(place.path, place.line, "Add it to the header, or fix the span.", kept=True)
    )


def _text_at(record: dict[str, Any], key: str) -> str:
    if key not in record:
        raise MalformedError(f"no {key}", f"a string as {key}")
    return as_text(record[key], key)


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise MalformedError(f"{what} of type {type_name(value)}", "a list")
    return value


def _label_or_nothing(item: object) -> str:
    label = item.get("label") if isinstance(item, dict) else None
    return label if isinstance(label, str) else ""


READER = Reader(
    name="jsonl",
    description="fedner's own JSONL: a document a line",
    recognise=recognise,
    stream=stream,
    sentences="as given",
    options=JsonlOptions,
    declared_labels=declared_labels,
    declared=declared,
)
