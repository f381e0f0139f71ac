"""JSON as annotation tools export it: objects one a line, or all in one array.

Lines are streamed and a bad line costs only itself. An array is held as text (at most
`files.MAX_TEXT_BYTES`) and its objects come one at a time; after a syntax error nothing more of it
can be told apart.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedner.corpus.document import Document
from fedner.corpus.files import display_name, head, lines, read_text
from fedner.corpus.problems import Kind, Problem, ProblemLog
from fedner.corpus.readers.folder import choose, reason_in
from fedner.corpus.readers.options import option
from fedner.corpus.readers.reader import Reader

MAX_LINE_CHARACTERS = 50_000_000
"""A document with its annotations stands on one line: lines may be far longer than elsewhere."""

MAX_NUMBER_DIGITS = 18
"""No offset or id is longer; Python would refuse thousands of digits with an error of its own."""

_KEY = re.compile(r'"((?:[^"\\]|\\.){1,60})"\s*:')
_MAX_TEXT_PROBLEMS = 100_000
_BETWEEN = re.compile(r"[\s,]*")

DOCUMENT_ID = "document_id"
"""Where our writers put the id of a document: tools number documents anew and hand this back."""


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The options of formats that keep a document in a JSON record.

    Attributes:
        patient_column: The key that holds the patient.
    """

    patient_column: str | None = option(
        None, "the key of the records, or of their meta or data, that holds the patient"
    )


class MalformedError(ValueError):
    """Part of a record that cannot be used.

    Attributes:
        kind: The sort of problem.
        found: What stands there.
        expected: What should.
    """

    def __init__(self, found: str, expected: str, kind: Kind = "malformed line") -> None:
        super().__init__(found)
        self.kind: Kind = kind
        self.found = found
        self.expected = expected

    def problem(self, path: Path, line: int, hint: str, *, kept: bool = False) -> Problem:
        """Return the problem to report."""
        return Problem(self.kind, str(path), line, self.found, self.expected, hint, kept)


@dataclass(frozen=True, slots=True)
class RecordForm:
    """A format that keeps a document in a JSON record.

    Attributes:
        reason: Says why a file looks like the format, or None.
        document: Makes a document of a record, given its file, its line, the name of its source
            and the log; None where the record holds none.
        what: What the files hold, for people ("Doccano's records").
        noun: What a record is called ("record").
        has_unique_ids: Whether ids are unique by construction.
    """

    reason: Callable[[Path], str | None]
    document: Callable[[dict[str, Any], Path, int, str, ProblemLog], Document | None]
    what: str
    noun: str
    has_unique_ids: bool = False


def record_reader(name: str, description: str, form: RecordForm) -> Reader[RecordOptions]:
    """Return the reader of a format; a folder is those of its files that look like it."""

    def recognise(path: Path) -> str | None:
        return reason_in(path, form.reason)

    def stream(path: Path, log: ProblemLog, options: RecordOptions) -> Iterator[Document]:
        return _stream(path, log, options, form)

    return Reader(
        name=name,
        description=description,
        recognise=recognise,
        stream=stream,
        sentences="rule",
        options=RecordOptions,
        has_unique_ids=form.has_unique_ids,
    )


def _stream(
    path: Path, log: ProblemLog, options: RecordOptions, form: RecordForm
) -> Iterator[Document]:
    """Read a file, or those files of a folder that look like the format."""
    for file in choose(path, lambda each: form.reason(each) is not None, log, form.what):
        source = display_name(file, path)
        last, number = 0, 0
        for line, record in records(file, log):
            last, number = line, number + 1 if line == last else 1
            try:
                document = form.document(record, file, line, source, log)
                if document is not None:
                    patient = patient_in(record, options.patient_column)
                    own = _own_id(document.id, source, line, number)
                    yield replace(document, id=own, patient=patient)
            except MalformedError as fault:
                log.report(fault.problem(file, line, f"Fix the {form.noun}; it is skipped."))


def _own_id(identity: str, source: str, line: int, number: int) -> str:
    """Return the id of a document; of several without one on a line, each has its own."""
    is_by_line = identity == f"{source}#{line}" and number > 1
    return f"{identity}.{number}" if is_by_line else identity


@dataclass(frozen=True, slots=True)
class Probe:
    """What the head of a file shows of its first record.

    Attributes:
        record: The record, or None where it is longer than the head that is read.
        keys: Its keys; those of what stands within it too where it is not whole.
    """

    record: dict[str, Any] | None
    keys: frozenset[str]


def probe(path: Path) -> Probe | None:
    """Return what the head of a file shows of its first JSON object, or None; never raises."""
    text = (head(path) or "").lstrip().removeprefix("[").lstrip()
    if not text.startswith("{"):
        return None
    try:
        record, _ = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        first, end, _ = text.partition("\n")
        is_line = bool(end) and not first.rstrip().endswith(("{", "[", ","))
        # A whole line that is no JSON says nothing; a cut one still shows its keys.
        return None if is_line else Probe(None, frozenset(_KEY.findall(text)))
    return Probe(record, frozenset(record))


def records(path: Path, log: ProblemLog) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file with the line on which each begins; report what is none."""
    beginning = (head(path) or "").lstrip()
    first = beginning.partition("\n")[0].strip()
    # An object over several lines breaks after a bracket or a comma; a line of JSONL never does.
    if beginning.startswith("[") or first.endswith(("{", "[", ",")):
        yield from _of_text(path, log)
        return
    for line, text in lines(path, log, max_characters=MAX_LINE_CHARACTERS):
        if not text.strip():
            continue
        try:
            yield line, as_object(_parsed(text))
        except MalformedError as fault:
            log.report(fault.problem(path, line, "Fix the line; without that it is skipped."))


def _of_text(path: Path, log: ProblemLog) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of an array, or objects one after the other over several lines."""
    # A long line is no fault here: many tools put the whole array on one.
    inner = ProblemLog(limit=_MAX_TEXT_PROBLEMS, encoding=log.encoding)
    text = read_text(path, inner)
    for problem in inner.problems:
        if problem.kind != "very long line":
            log.report(problem)
    log.remarks.update(inner.remarks)
    log.changes.update(inner.changes)
    if text is None:
        return
    position = len(text) - len(text.lstrip())
    is_array = text.startswith("[", position)
    position, line, counted = position + is_array, 1, 0
    while True:
        between = _BETWEEN.match(text, position)
        position = position if between is None else between.end()
        line += text.count("\n", counted, position)
        counted = position
        if position == len(text) or (is_array and text[position] == "]"):
            return
        try:
            record, position = _decoded(text, position)
            yield line, as_object(record)
        except _CutError as error:
            fault = MalformedError(str(error), "JSON")
            log.report(fault.problem(path, line, "Fix the file; what follows is not read."))
            return
        except MalformedError as fault:
            log.report(fault.problem(path, line, "Fix the record; it is skipped."))


class _CutError(Exception):
    """A syntax error, after which nothing more can be told apart."""


def _decoded(text: str, position: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise _CutError(f"{error.msg} at character {error.colno} of line {error.lineno}") from None
    except (ValueError, RecursionError) as error:
        raise _CutError(str(error)[:200]) from None


def _parsed(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        found = f"{error.msg} at character {error.pos + 1}"
        raise MalformedError(found, "one JSON object a line") from None
    except (ValueError, RecursionError) as error:
        raise MalformedError(str(error)[:200], "one JSON object a line") from None


def _integer(digits: str) -> int | float:
    """Read a number; one of absurd length becomes infinite, which no offset is."""
    return int(digits) if len(digits) <= MAX_NUMBER_DIGITS else float("inf")


_DECODER = json.JSONDecoder(parse_int=_integer)


# Values of a record.


def as_object(value: object) -> dict[str, Any]:
    """Return a value that must be a JSON object."""
    if not isinstance(value, dict):
        raise MalformedError(f"JSON of type {type_name(value)}", "a JSON object")
    return value


def as_list(value: object, what: str) -> list[Any]:
    """Return a value that must be a list; nothing at all is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedError(f"{what} of type {type_name(value)}", "a list")
    return value


def as_text(value: object, what: str) -> str:
    """Return a value that must be a string of whole characters."""
    if not isinstance(value, str):
        raise MalformedError(f"{what} of type {type_name(value)}", f"a string as {what}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            found = f"half a surrogate pair at character {error.start + 1} of {what}"
            raise MalformedError(found, "whole characters") from None
    return value


def as_offset(value: object, what: str) -> int:
    """Return a value that must be a whole number."""
    if type(value) is not int:
        found = repr(value)[:60]
        raise MalformedError(f"{found} as {what}", f"a whole number as {what}")
    return value


def as_name(value: object, what: str) -> str:
    """Return an id or a label: a string that is not empty, or a whole number."""
    text = str(value) if type(value) is int else as_text(value, what)
    if not text:
        raise MalformedError(f"an empty {what}", f"a {what}")
    return text


def identity_of(record: dict[str, Any], otherwise: str) -> str:
    """Return the id of a document: ours where a tool hands it back, else the tool's own number.

    Args:
        record: The record.
        otherwise: The id of a record that has none.
    """
    inner = (record.get(name) for name in ("meta", "metadata", "data"))
    for place in (record, *inner):
        if isinstance(place, dict) and place.get(DOCUMENT_ID):
            return as_name(place[DOCUMENT_ID], DOCUMENT_ID)
    return as_name(record["id"], "id") if "id" in record else otherwise


def patient_in(record: dict[str, Any], key: str | None) -> str | None:
    """Return the patient that a record has under the key that the user gave, or None.

    Tools keep what they do not know themselves in `meta`, `metadata` or `data`: the key is looked
    for there too.
    """
    if key is None:
        return None
    inner = (record.get(name) for name in ("meta", "metadata", "data"))
    for place in (record, *inner):
        value = place.get(key) if isinstance(place, dict) else None
        if value is not None and value != "":
            return as_name(value, key)
    return None


def type_name(value: object) -> str:
    """Return what JSON calls the type of a value."""
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
