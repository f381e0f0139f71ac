"""Prodigy's JSONL (`prodigy db-out`) or JSON of `ner.manual`, `spans.manual` and their kin.

    {"text": "Nausea after aspirin.", "_input_hash": 1, "_task_hash": 2, "answer": "accept",
     "tokens": [{"text": "Nausea", "start": 0, "end": 6, "id": 0, "ws": true}, ...],
     "spans": [{"start": 13, "end": 20, "token_start": 2, "token_end": 2, "label": "Drug"}]}

See https://prodi.gy/docs/api-interfaces#ner_manual. Offsets count characters. Only what was
accepted is read: a rejected or ignored task says nothing about its text.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

from fedner.corpus.document import Document, Segment
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers import standoff
from fedner.corpus.readers.json_records import (
    MalformedError,
    RecordForm,
    as_list,
    as_name,
    as_object,
    as_offset,
    as_text,
    probe,
    record_reader,
)

_OWN_KEYS = {"_input_hash", "_task_hash", "answer", "_view_id"}


def _reason(path: Path) -> str | None:
    found = probe(path)
    if found is None or "text" not in found.keys:
        return None
    if own := sorted(found.keys & _OWN_KEYS):
        return f"the first record has text and {', '.join(own)}"
    if found.record is not None and "id" not in found.keys:
        spans = found.record.get("spans")
        if isinstance(spans, list) and all(isinstance(span, dict) for span in spans):
            return "the first record has text and spans, and no id"
    return None


def _document(
    record: dict[str, Any], path: Path, line: int, source: str, log: ProblemLog
) -> Document | None:
    answer = record.get("answer", "accept")
    if answer in ("reject", "ignore"):
        log.remark(f'task with the answer "{answer}" (left out)')
        return None
    text = as_text(record.get("text"), "text")
    identity = f"{source}#{line}"
    spans = []
    for number, item in enumerate(as_list(record.get("spans"), "spans"), 1):
        try:
            mention = _mention(as_object(item), number, line)
        except MalformedError as fault:
            problem = fault.problem(path, line, "Fix the span; it is skipped.")
            log.skip_mention(problem, identity, "")
            continue
        if (span := standoff.place(mention, text, path, identity, log)) is not None:
            spans.append(span)
    segments = _segments(record.get("tokens"), text, path, line, log)
    return Document(identity, text, tuple(spans), segments, source=source)


def _mention(span: dict[str, Any], number: int, line: int) -> standoff.TextBound:
    fragment = (as_offset(span.get("start"), "start"), as_offset(span.get("end"), "end"))
    quote = span.get("text")
    return standoff.TextBound(
        line,
        f"#{number}",
        as_name(span.get("label"), "label"),
        (fragment,),
        quote if isinstance(quote, str) else None,
    )


def _segments(
    tokens: object, text: str, path: Path, line: int, log: ProblemLog
) -> tuple[Segment, ...] | None:
    """Return the text as one sentence with the tokens of the task, where it has good ones."""
    if tokens is None:
        return None
    try:
        places = [
            (as_offset(token.get("start"), "start"), as_offset(token.get("end"), "end"))
            for token in map(as_object, as_list(tokens, "tokens"))
        ]
        places = [place for place in places if place[0] != place[1]]
        bounds = [0, *(bound for place in places for bound in place), len(text)]
        if any(before > after for before, after in pairwise(bounds)):
            raise MalformedError("tokens out of order", "tokens in the order of the text")
    except MalformedError as fault:
        hint = "Fix the tokens; fedner's own are taken."
        log.report(
            Problem(fault.kind, str(path), line, fault.found, fault.expected, hint, kept=True)
        )
        return None
    # Some tokenisers (spaCy's) make tokens of white space, which no tagger wants.
    places = [(start, end) for start, end in places if not text[start:end].isspace()]
    starts, ends = tuple(start for start, _ in places), tuple(end for _, end in places)
    return (Segment(0, len(text), starts, ends),)


READER = record_reader(
    "prodigy",
    "Prodigy's JSONL or JSON: text, spans, tokens and answer",
    RecordForm(_reason, _document, "Prodigy's tasks", "task", has_unique_ids=True),
)
