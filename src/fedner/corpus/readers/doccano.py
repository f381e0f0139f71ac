"""Doccano's sequence labelling, exported as JSONL, JSONL (relation) or JSON.

    {"id": 1, "text": "Nausea after aspirin.", "label": [[0, 6, "ADE"], [13, 20, "Drug"]]}
    {"id": 2, "text": "...", "entities": [{"id": 7, "label": "ADE", "start_offset": 0,
     "end_offset": 6}], "relations": [], "Comments": []}

Older versions say `labels` for `label`, or have `annotations` with the numbers of labels. See
https://doccano.github.io/doccano/tutorial/ (import and export); offsets count the units of
JavaScript (UTF-16, issue 2290 of doccano/doccano) unless a project counts graphemes.
"""

from pathlib import Path
from typing import Any

from fedner.corpus.document import Document
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import standoff, utf16
from fedner.corpus.readers.json_records import (
    DOCUMENT_ID,
    MalformedError,
    RecordForm,
    as_list,
    as_name,
    as_object,
    as_offset,
    as_text,
    identity_of,
    probe,
    record_reader,
)

REMARK_NUMBERS = "label given by its number (the label file names it)"
REMARK_UNITS = "document with offsets in UTF-16 units, as JavaScript counts (converted)"
REMARK_CHARACTERS = "document with emoji whose offsets count characters (kept)"

_LISTS = ("label", "labels", "entities", "annotations")
_TEXTS = ("text", "data")


def _reason(path: Path) -> str | None:
    found = probe(path)
    if found is None or not found.keys & set(_TEXTS):
        return None
    if found.record is None:
        is_ours = "start_offset" in found.keys or bool(found.keys & {"Comments", "label"})
        return "a record begins like one of Doccano's" if is_ours else None
    for key in _LISTS:
        items = found.record.get(key)
        if isinstance(items, list) and (_has_triples(items) or _has_offsets(items)):
            return f'the first record has text and "{key}" with offsets'
        if items == [] and found.keys & {"id", "Comments", DOCUMENT_ID} and key != "annotations":
            return f'the first record has id, text and an empty "{key}"'
    return None


def _has_triples(items: list[Any]) -> bool:
    return bool(items) and all(
        isinstance(item, list) and len(item) == 3 and isinstance(item[2], str) for item in items
    )


def _has_offsets(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and "start_offset" in item for item in items)


def _document(
    record: dict[str, Any], path: Path, line: int, source: str, log: ProblemLog
) -> Document:
    key = next((key for key in _TEXTS if key in record), "text")
    text = as_text(record.get(key), key)
    identity = identity_of(record, f"{source}#{line}")
    mentions = []
    for number, item in enumerate(_items(record), 1):
        try:
            mentions.append(_mention(item, number, line, log))
        except MalformedError as fault:
            problem = fault.problem(path, line, "Fix the label; it is skipped.")
            log.skip_mention(problem, identity, "")
    spans = (
        standoff.place(mention, text, path, identity, log)
        for mention in _in_characters(mentions, text, log)
    )
    return Document(identity, text, tuple(filter(None, spans)), source=source)


def _items(record: dict[str, Any]) -> list[Any]:
    for key in _LISTS:
        if key in record:
            return as_list(record[key], key)
    raise MalformedError("no labels at all", f"one of {', '.join(_LISTS)}")


def _mention(item: object, number: int, line: int, log: ProblemLog) -> standoff.TextBound:
    if isinstance(item, list):
        if len(item) != 3:
            raise MalformedError(f"{len(item)} values", "[start, end, label]")
        start, end, label = item
    else:
        entity = as_object(item)
        start, end = entity.get("start_offset"), entity.get("end_offset")
        label = entity.get("label")
    if type(label) is int:
        log.remark(REMARK_NUMBERS)
    fragment = (as_offset(start, "start"), as_offset(end, "end"))
    return standoff.TextBound(line, f"#{number}", as_name(label, "label"), (fragment,), None)


def _in_characters(
    mentions: list[standoff.TextBound], text: str, log: ProblemLog
) -> list[standoff.TextBound]:
    """Return mentions with offsets in characters, whichever way the file counts.

    Nothing in the file says it, and it differs only where the text has emoji and the like: the
    count under which more mentions begin and end at the borders of words is taken, and that of
    JavaScript where both do alike.
    """
    if not mentions or not utf16.has_pairs(text):
        return mentions
    convert = utf16.to_characters(text)
    converted = [
        standoff.TextBound(
            each.line,
            each.id,
            each.label,
            tuple((convert(start), convert(end)) for start, end in each.fragments),
            each.quote,
        )
        for each in mentions
    ]
    as_they_are, as_units = (
        sum(_is_at_borders(text, *each.fragments[0]) for each in group)
        for group in (mentions, converted)
    )
    log.remark(REMARK_CHARACTERS if as_they_are > as_units else REMARK_UNITS)
    return mentions if as_they_are > as_units else converted


def _is_at_borders(text: str, start: int, end: int) -> bool:
    """Whether a range begins and ends with a word or a mark of its own, not within one."""
    if not 0 <= start < end <= len(text) or text[start].isspace() or text[end - 1].isspace():
        return False
    return not any(
        0 < cut < len(text) and text[cut - 1].isalnum() and text[cut].isalnum()
        for cut in (start, end)
    )


READER = record_reader(
    "doccano",
    "Doccano's JSONL or JSON: text and label [[0, 6, Drug]], or entities",
    RecordForm(_reason, _document, "exports of Doccano", "record"),
)
