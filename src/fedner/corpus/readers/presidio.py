"""The labelled texts of Presidio's research tools (`presidio-evaluator`), as a JSON array.

    [{"full_text": "Call Anna.", "masked": "Call {{PERSON}}.", "spans": [{"entity_type": "PERSON",
      "entity_value": "Anna", "start_position": 5, "end_position": 9}], "template_id": 41,
      "metadata": null}]

See https://github.com/microsoft/presidio-research (data generator). Offsets count characters. Texts
that were made from one template resemble each other: `patient_column = "template_id"` keeps them
together in splits.
"""

from pathlib import Path
from typing import Any

from fedner.corpus.document import Document
from fedner.corpus.problems import ProblemLog
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


def _reason(path: Path) -> str | None:
    found = probe(path)
    if found is None or not found.keys >= {"full_text", "spans"}:
        return None
    return "the first record has full_text and spans"


def _document(
    record: dict[str, Any], path: Path, line: int, source: str, log: ProblemLog
) -> Document:
    text = as_text(record.get("full_text"), "full_text")
    identity = as_name(record["id"], "id") if "id" in record else f"{source}#{line}"
    spans = []
    for number, item in enumerate(as_list(record.get("spans"), "spans"), 1):
        try:
            mention = _mention(item, number, line)
        except MalformedError as fault:
            problem = fault.problem(path, line, "Fix the span; it is skipped.")
            log.skip_mention(problem, identity, "")
            continue
        span = standoff.place(mention, text, path, identity, log)
        if span is not None:
            spans.append(span)
    return Document(identity, text, tuple(sorted(spans)), source=source)


def _mention(item: object, number: int, line: int) -> standoff.TextBound:
    span = as_object(item)
    label = as_name(span.get("entity_type"), "entity_type")
    start = as_offset(span.get("start_position"), "start_position")
    end = as_offset(span.get("end_position"), "end_position")
    quote = span.get("entity_value")
    quote = quote if isinstance(quote, str) else None
    return standoff.TextBound(line, f"#{number}", label, ((start, end),), quote)


READER = record_reader(
    "presidio",
    "Presidio's labelled texts: full_text with spans",
    RecordForm(_reason, _document, "Presidio's labelled texts", "record"),
)
