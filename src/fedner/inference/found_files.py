"""What a tagger found as files, with offsets of the text and confidences.

JSONL, CSV, BioC and brat; and pre-annotations for Label Studio, Doccano and INCEpTION (XMI, which
carries no confidences).

Everything is written from a stream of lines of fedner's JSONL, the form in which a job keeps what
it found (`job.py`): whatever the number of notes, one of them is in memory.
"""

import csv
import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from fedner.corpus.document import Document, Span
from fedner.corpus.readers.brat import CONFIGURATION
from fedner.corpus.readers.jsonl import VERSION
from fedner.corpus.writers import annotation_tools, xmi
from fedner.corpus.writers.bioc import check_document, write_found_bioc
from fedner.corpus.writers.brat import (
    annotation_lines,
    check_labels,
    check_text,
    configuration,
    is_file_name,
)
from fedner.errors import FednerError
from fedner.inference.notes import LeftOut
from fedner.inference.reading import Predicted
from fedner.visible import visible_json

OutputFormat = Literal["jsonl", "csv", "bioc", "brat", "label-studio", "doccano", "xmi"]
NAME: Final = "predictions"
CSV_COLUMNS: Final = ("document", "start", "end", "label", "text", "confidence", "source")
_BY_SUFFIX: Final[dict[str, OutputFormat]] = {".csv": "csv", ".xml": "bioc", ".jsonl": "jsonl"}

Found = tuple[Document, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Output:
    """Where and how findings are written.

    Attributes:
        place: The file, or for brat and XMI the folder, which must not be there.
        labels: The entity types that the tagger finds.
        mode: The permissions of files.
        left_out: Takes the notes that the format cannot carry.
    """

    place: Path
    labels: Sequence[str]
    mode: int
    left_out: list[LeftOut]


def format_of(out: Path) -> OutputFormat:
    """Return the format that the name of an output asks for; JSONL where it asks for none."""
    return _BY_SUFFIX.get(out.suffix.lower(), "jsonl")


def header_line(labels: Sequence[str], left_out: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the first line of fedner's JSONL."""
    header = {"fedner": "corpus", "version": VERSION, "name": NAME, "labels": list(labels)}
    return _dumped(header | ({"left_out": list(left_out)} if left_out else {}))


def found_line(predicted: Predicted) -> str:
    """Return a document and what was found in it as a line of fedner's JSONL."""
    document = predicted.document
    record: dict[str, Any] = {
        "id": document.id,
        "text": document.text,
        "spans": [
            {
                "start": mention.start,
                "end": mention.end,
                "label": mention.label,
                "confidence": round(mention.confidence, 6),
            }
            for mention in predicted.mentions
        ],
    }
    if document.patient is not None:
        record["patient"] = document.patient
    if predicted.uncertainty is not None:
        record["uncertainty"] = round(predicted.uncertainty, 6)
    return _dumped(record | {"source": document.source})


def _dumped(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return visible_json(text) + "\n"


def write_found(format: OutputFormat, lines: BinaryIO, output: Output) -> None:
    """Write findings in a format.

    Args:
        format: One of the table.
        lines: The lines of `found_line`, without a header.
        output: Where they go.

    Raises:
        FednerError: The format cannot carry a label of the tagger, or its library is missing.
        OSError: The disk is full, or the like.
    """
    _WRITERS[format](lines, output)


def check_format(format: OutputFormat, labels: Sequence[str]) -> None:
    """Refuse, before anything is tagged, a format that cannot carry the tagger's types."""
    if format == "brat":
        check_labels(labels)
    if format == "bioc":
        write_found_bioc(io.BytesIO(), (), name=NAME, labels=labels)
    if format == "xmi":
        xmi.type_system()  # says which extra is missing


def _write_jsonl(lines: BinaryIO, output: Output) -> None:
    with created(output.place, output.mode) as file:
        file.write(header_line(output.labels).encode())
        shutil.copyfileobj(lines, file)


def _write_csv(lines: BinaryIO, output: Output) -> None:
    """Write a row for each mention; a spreadsheet knows the encoding by the byte-order mark."""
    with (
        created(output.place, output.mode) as file,
        io.TextIOWrapper(file, "utf-8-sig", "replace", newline="") as text,
    ):
        writer = csv.writer(text)
        writer.writerow(CSV_COLUMNS)
        for document, confidences in read_found(lines):
            for span, confidence in zip(document.spans, confidences, strict=True):
                words = span.text_in(document.text)
                place = (document.id, span.start, span.end, span.label, words)
                writer.writerow((*place, confidence, document.source))
        text.flush()
        _sync(file)


def _write_bioc(lines: BinaryIO, output: Output) -> None:
    with created(output.place, output.mode) as file:
        carried = _carried(lines, check_document, output)
        write_found_bioc(file, carried, name=NAME, labels=output.labels)


def _write_brat(lines: BinaryIO, output: Output) -> None:
    folder = output.place
    # Whoever may read the files may enter the folder.
    folder_mode = output.mode | (output.mode & 0o444) >> 2
    folder.mkdir(mode=folder_mode)
    taken: set[str] = set()
    for number, (document, confidences) in enumerate(_carried(lines, _check_brat, output), 1):
        name = document.id
        if not is_file_name(name) or name.casefold() in taken:
            name = f"document-{number:06d}"
        taken.add(name.casefold())
        text = folder / f"{name}.txt"
        _make_folders(text.parent, folder, folder_mode)
        notes = [
            f"#{at}\tAnnotatorNotes T{at}\tconfidence {confidence:.6f}\n"
            for at, confidence in enumerate(confidences, 1)
        ]
        _put(text, document.text, output.mode)
        marks = "".join([*annotation_lines(document), *notes])
        _put(folder / f"{name}.ann", marks, output.mode)
    _put(folder / CONFIGURATION, configuration(output.labels), output.mode)
    if hasattr(os, "sync"):
        os.sync()  # once for all: until then the job keeps everything


def _write_label_studio(lines: BinaryIO, output: Output) -> None:
    _write_records(annotation_tools.label_studio_text, lines, output)


def _write_doccano(lines: BinaryIO, output: Output) -> None:
    _write_records(annotation_tools.doccano_text, lines, output)


def _write_records(
    form: Callable[[Iterable[annotation_tools.Found]], Iterable[str]],
    lines: BinaryIO,
    output: Output,
) -> None:
    with created(output.place, output.mode) as file:
        for each in form(_carried(lines, annotation_tools.check_document, output)):
            file.write(each.encode())


def _write_xmi(lines: BinaryIO, output: Output) -> None:
    folder_mode = output.mode | (output.mode & 0o444) >> 2
    output.place.mkdir(mode=folder_mode)
    documents = (document for document, _ in _carried(lines, xmi.check_document, output))
    for document, name in xmi.file_names(documents, Counter()):
        place = output.place / f"{name}.xmi"
        _make_folders(place.parent, output.place, folder_mode)
        _put_bytes(place, xmi.document_xmi(document), output.mode)
    _put_bytes(output.place / xmi.TYPE_SYSTEM, xmi.type_system(), output.mode)
    if hasattr(os, "sync"):
        os.sync()


def _check_brat(document: Document) -> None:
    check_text(document)
    if not document.text:
        raise FednerError(f'document "{document.id}" has no text', "brat has no empty documents.")


def _make_folders(folder: Path, root: Path, mode: int) -> None:
    missing = [each for each in (folder, *folder.parents) if root in each.parents]
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)


_WRITERS: Final[dict[OutputFormat, Callable[[BinaryIO, Output], None]]] = {
    "jsonl": _write_jsonl,
    "csv": _write_csv,
    "bioc": _write_bioc,
    "brat": _write_brat,
    "label-studio": _write_label_studio,
    "doccano": _write_doccano,
    "xmi": _write_xmi,
}


def read_found(lines: Iterable[bytes]) -> Iterator[Found]:
    """Yield documents with their mentions, and the confidences of these."""
    for line in lines:
        record = json.loads(line)
        spans = tuple(
            Span.of(each["start"], each["end"], each["label"]) for each in record["spans"]
        )
        document = Document(
            record["id"],
            record["text"],
            spans,
            patient=record.get("patient"),
            source=record["source"],
        )
        yield document, [each["confidence"] for each in record["spans"]]


def _carried(
    lines: Iterable[bytes], check: Callable[[Document], None], output: Output
) -> Iterator[Found]:
    """Yield what a format can carry; the others are left out and named."""
    for document, confidences in read_found(lines):
        try:
            check(document)
        except FednerError as error:
            place = Path(document.source or document.id)
            output.left_out.append(LeftOut(place, error.message, error.hint, True))
            continue
        yield document, confidences


@contextmanager
def created(path: Path, mode: int) -> Iterator[BinaryIO]:
    """Make a new file that only those whom `mode` names may read, from its first byte on."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, mode), "wb") as file:
        yield file
        if not file.closed:
            _sync(file)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _put(path: Path, text: str, mode: int) -> None:
    _put_bytes(path, text.encode(), mode)


def _put_bytes(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, mode), "wb") as file:
        file.write(data)
