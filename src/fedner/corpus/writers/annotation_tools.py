"""Writes Label Studio's tasks and Doccano's JSONL, as the tools import them.

What a tagger found goes in as pre-annotation: Label Studio has `predictions` for that, with scores,
and the reader takes none of them for an annotation before a person accepted it. Doccano knows
labels alone; the confidences stand beside them and come back as metadata. Both tools number
documents anew: the id stands under `document_id`, which they hand back and the readers look for,
and the patient under `patient` (read it with --option patient_column=patient).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from fedner.corpus.document import Corpus, Document, Span
from fedner.corpus.files import atomic_writer
from fedner.corpus.readers import utf16
from fedner.corpus.readers.json_records import DOCUMENT_ID
from fedner.corpus.writers.writer import WriteOptions, Writer, Written
from fedner.errors import FednerError

MODEL_VERSION: Final = "fedner"
LOST_FRAGMENTS = "discontinuous mentions (written as their hull)"
LOST_SENTENCES = "sentences and tokens as given (the tool has none)"

Found = tuple[Document, Sequence[float] | None]


def label_studio_text(found: Iterable[Found]) -> Iterator[str]:
    """Yield a JSON list of tasks, a task at a time.

    Args:
        found: Documents, each with None where its mentions are annotated, or with the confidences
            of the mentions that a tagger found.
    """
    yield "["
    for number, (document, confidences) in enumerate(found):
        yield (",\n" if number else "\n") + _dumped(_task(document, confidences))
    yield "\n]\n"


def doccano_text(found: Iterable[Found]) -> Iterator[str]:
    """Yield Doccano's JSONL, a document at a time; offsets count as JavaScript does."""
    for document, confidences in found:
        convert = utf16.from_characters(document.text)
        record: dict[str, Any] = {
            "text": document.text,
            "label": [
                [convert(span.start), convert(span.end), span.label] for span in document.spans
            ],
            **_own(document),
        }
        if confidences is not None:
            record["confidences"] = list(confidences)
        yield _dumped(record) + "\n"


def check_document(document: Document) -> None:
    """Refuse a document that JSON cannot carry."""
    try:
        json.dumps([document.id, document.text, document.patient], ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise FednerError(
            f"document {document.id!a}: {error.reason}", "It holds half a surrogate pair; fix it."
        ) from error


def _task(document: Document, confidences: Sequence[float] | None) -> dict[str, Any]:
    scores = [None] * len(document.spans) if confidences is None else confidences
    pairs = zip(document.spans, scores, strict=True)
    result = [_region(at, span, document.text, score) for at, (span, score) in enumerate(pairs, 1)]
    data = {"text": document.text, **_own(document)}
    if confidences is None:
        return {"data": data, "annotations": [{"result": result}], "predictions": []}
    score = min(confidences, default=1.0)  # the least sure mention: tools sort by it
    made = {"model_version": MODEL_VERSION, "score": score, "result": result}
    return {"data": data, "annotations": [], "predictions": [made]}


def _region(number: int, span: Span, text: str, score: float | None) -> dict[str, Any]:
    value = {"start": span.start, "end": span.end, "text": text[span.start : span.end]}
    return {
        "id": f"mention-{number}",
        "from_name": "label",
        "to_name": "text",
        "type": "labels",
        "value": {**value, "labels": [span.label]},
        **({} if score is None else {"score": score}),
    }


def _own(document: Document) -> dict[str, str]:
    """Return what only we know of a document; tools keep it as it is."""
    patient = {} if document.patient is None else {"patient": document.patient}
    return {DOCUMENT_ID: document.id, **patient}


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def losses_of(corpus: Corpus) -> dict[str, int]:
    """Return what neither tool can carry."""
    counts: Counter[str] = Counter()
    for document in corpus:
        counts[LOST_FRAGMENTS] += sum(span.is_discontinuous for span in document.spans)
        counts[LOST_SENTENCES] += document.segments is not None
    return {what: count for what, count in counts.items() if count}


def _write_label_studio(path: Path, corpus: Corpus, _options: WriteOptions) -> Written:
    return _write(path, corpus, label_studio_text(_annotated(corpus)))


def _write_doccano(path: Path, corpus: Corpus, _options: WriteOptions) -> Written:
    return _write(path, corpus, doccano_text(_annotated(corpus)))


def _annotated(corpus: Corpus) -> Iterator[Found]:
    for document in corpus:
        check_document(document)
        yield document, None


def _write(path: Path, corpus: Corpus, text: Iterable[str]) -> Written:
    with atomic_writer(path) as file:
        for each in text:
            file.write(each)
    mentions = sum(len(document.spans) for document in corpus)
    return Written(len(corpus), mentions, losses_of(corpus))


LABEL_STUDIO = Writer("label-studio", "Label Studio's tasks with annotations", _write_label_studio)
DOCCANO = Writer("doccano", "Doccano's JSONL of sequence labelling", _write_doccano)
