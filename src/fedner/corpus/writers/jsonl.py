"""Writes fedner's own JSONL (`readers/jsonl.py` says what it looks like): all of it comes back."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedner.corpus.document import Corpus, Document, Segment, Span
from fedner.corpus.files import atomic_writer
from fedner.corpus.readers.jsonl import VERSION
from fedner.corpus.writers.writer import WriteOptions, Writer, Written
from fedner.errors import FednerError


def write_jsonl(path: Path, corpus: Corpus) -> None:
    """Write a corpus, wholly or not at all; `.gz` and `.xz` are compressed."""
    write_documents(path, corpus.documents, name=corpus.name, labels=corpus.labels)


def write_documents(
    path: Path, documents: Iterable[Document], *, name: str, labels: Iterable[str]
) -> int:
    """Write documents as they come, and return how many there were.

    Args:
        path: Where the file shall stand; it appears there when all is written.
        documents: The documents; they are not held in memory.
        name: What people call the corpus.
        labels: The entity types that were annotated.
    """
    header = {"fedner": "corpus", "version": VERSION, "name": name, "labels": sorted(labels)}
    count = 0
    with atomic_writer(path) as file:
        file.write(_line(header))
        for document in documents:
            try:
                file.write(_line(as_record(document)))
            except UnicodeEncodeError as error:
                raise FednerError(
                    f"document {document.id!a}: {error.reason} at character {error.start}",
                    "The text holds half a surrogate pair; fix it before writing.",
                ) from error
            count += 1
    return count


def as_record(document: Document) -> dict[str, Any]:
    """Return a document as the JSON object that the reader takes."""
    record: dict[str, Any] = {"id": document.id, "text": document.text}
    record["spans"] = [_span(span) for span in document.spans]
    if document.segments is not None:
        record["segments"] = segments_as_json(document)
    if document.patient is not None:
        record["patient"] = document.patient
    record["source"] = document.source
    return record


def segments_as_json(document: Document) -> list[dict[str, Any]] | None:
    """Return the sentences of a document as the reader takes them; None where it has none."""
    if document.segments is None:
        return None
    return [_segment(segment) for segment in document.segments]


def _span(span: Span) -> dict[str, Any]:
    if span.is_discontinuous:
        return {"fragments": span.fragments, "label": span.label}
    return {"start": span.start, "end": span.end, "label": span.label}


def _segment(segment: Segment) -> dict[str, Any]:
    record: dict[str, Any] = {"start": segment.start, "end": segment.end}
    if segment.token_starts is not None and segment.token_ends is not None:
        record["tokens"] = list(zip(segment.token_starts, segment.token_ends, strict=True))
    return record


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def _write(path: Path, corpus: Corpus, _options: WriteOptions) -> Written:
    write_jsonl(path, corpus)
    return Written.whole(corpus)


WRITER = Writer(
    name="jsonl", description="fedner's own JSONL: all of a corpus comes back", write=_write
)
