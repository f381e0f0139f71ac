"""Writes BioC (`readers/bioc.py` says what it looks like) in XML or JSON, a document at a time.

Every document is one passage at offset 0, so that all offsets are those of its text. Labels,
sentences, tokens, patients and sources are kept as infons, BioC's place for what it does not name:
all of a corpus comes back.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from fedner.corpus.document import Corpus, Document
from fedner.corpus.files import atomic_writer
from fedner.corpus.readers.bioc import (
    LABELS_INFON,
    PATIENT_INFON,
    SEGMENTS_INFON,
    SOURCE_INFON,
)
from fedner.corpus.readers.extras import required
from fedner.corpus.writers.jsonl import segments_as_json
from fedner.corpus.writers.writer import WriteOptions, Writer, Written
from fedner.errors import FednerError

CONFIDENCE_INFON: Final = "confidence"
_NEED = "BioC files"
_NEVER: Final = re.compile("[\ud800-\udfff]")
_NOT_IN_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def write_bioc(path: Path, corpus: Corpus) -> None:
    """Write a corpus as BioC XML, wholly or not at all; `.gz` and `.xz` are compressed.

    Raises:
        FednerError: If a text holds a character that XML cannot carry, or the extra is missing.
    """
    biocxml = required("bioc.biocxml.encoder", "formats", _NEED)
    with atomic_writer(path) as file:
        # The library writes bytes; the text wrapper around them has written nothing yet.
        writer = biocxml.BioCXMLDocumentWriter(_Bytes(cast("Any", file).buffer), encoding="utf-8")
        writer.write_collection_info(_collection(corpus.name, corpus.labels, is_xml=True))
        for document in _documents(corpus, is_xml=True):
            writer.write_document(document)
        writer.close()


def write_bioc_json(path: Path, corpus: Corpus) -> None:
    """Write a corpus as one BioC JSON collection; `.gz` and `.xz` are compressed.

    Raises:
        FednerError: If a text holds half a surrogate pair, or the extra is missing.
    """
    as_json = required("bioc.biocjson", "formats", _NEED).toJSON
    opening = as_json(_collection(corpus.name, corpus.labels, is_xml=False))
    opening.pop("documents")
    with atomic_writer(path) as file:
        file.write(_dumped(opening)[:-1] + ',"documents":[')
        for number, document in enumerate(_documents(corpus, is_xml=False)):
            file.write((",\n" if number else "\n") + _dumped(as_json(document)))
        file.write("\n]}\n")


class _Bytes:
    """A stream that the library may write to but not close."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: bytes) -> None:
        """Pass bytes on."""
        self._stream.write(data)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _collection(name: str, labels: Iterable[str], *, is_xml: bool) -> Any:
    """Return the collection without its documents."""
    collection = required("bioc", "formats", _NEED).BioCCollection()
    _check(name, "the name of the corpus", is_xml=is_xml)
    for label in labels:
        _check(label, "a label", is_xml=is_xml)
    collection.source, collection.date, collection.key = name, "", "fedner.key"
    collection.infons[LABELS_INFON] = _dumped(sorted(labels))
    return collection


def _documents(corpus: Corpus, *, is_xml: bool) -> Iterator[Any]:
    """Yield the documents of the library."""
    bioc = required("bioc", "formats", _NEED)
    for each in corpus:
        check_document(each, is_xml=is_xml)
        yield _document(each, bioc)


def check_document(document: Document, *, is_xml: bool = True) -> None:
    """Refuse a document that BioC cannot carry."""
    strings = (document.id, document.text, document.patient or "", document.source)
    for string in (*strings, *(span.label for span in document.spans)):
        _check(string, f"document {document.id!a}", is_xml=is_xml)
    if not document.id or any(not span.label for span in document.spans):
        raise FednerError(
            f"document {document.id!a}: an empty id or label", "BioC needs both; fix it."
        )


def write_found_bioc(
    stream: BinaryIO,
    found: Iterable[tuple[Document, Sequence[float]]],
    *,
    name: str,
    labels: Iterable[str],
) -> None:
    """Write documents as BioC XML as they come, a confidence beside each mention.

    Args:
        stream: What takes the bytes.
        found: Documents that `check_document` accepts, and the confidences of their mentions.
        name: What people call the collection.
        labels: The entity types that were looked for.
    """
    bioc = required("bioc", "formats", _NEED)
    biocxml = required("bioc.biocxml.encoder", "formats", _NEED)
    writer = biocxml.BioCXMLDocumentWriter(_Bytes(stream), encoding="utf-8")
    writer.write_collection_info(_collection(name, labels, is_xml=True))
    for document, confidences in found:
        made = _document(document, bioc)
        annotations = made.passages[0].annotations
        for annotation, confidence in zip(annotations, confidences, strict=True):
            annotation.infons[CONFIDENCE_INFON] = f"{confidence:.6f}"
        writer.write_document(made)
    writer.close()


def _document(document: Document, bioc: Any) -> Any:
    found = bioc.BioCDocument()
    found.id = document.id
    found.infons[SEGMENTS_INFON] = _dumped(segments_as_json(document))
    found.infons[SOURCE_INFON] = document.source
    if document.patient is not None:
        found.infons[PATIENT_INFON] = document.patient
    passage = bioc.BioCPassage()
    passage.offset, passage.text = 0, document.text
    for number, span in enumerate(document.spans, 1):
        annotation = bioc.BioCAnnotation()
        annotation.id = f"T{number}"
        annotation.infons["type"] = span.label
        annotation.text = span.text_in(document.text)
        for start, end in span.fragments:
            annotation.add_location(bioc.BioCLocation(start, end - start))
        passage.add_annotation(annotation)
    found.add_passage(passage)
    return found


def _check(text: str, where: str, *, is_xml: bool) -> None:
    """Refuse characters that the format has no way to write."""
    found = (_NOT_IN_XML if is_xml else _NEVER).search(text)
    if found is not None:
        raise FednerError(
            f"{where}: U+{ord(found[0]):04X} at character {found.start() + 1} cannot stand in BioC",
            "Fix the text, or write JSONL, which carries every character.",
        )


def _write_xml(path: Path, corpus: Corpus, _options: WriteOptions) -> Written:
    write_bioc(path, corpus)
    return Written.whole(corpus)


def _write_json(path: Path, corpus: Corpus, _options: WriteOptions) -> Written:
    write_bioc_json(path, corpus)
    return Written.whole(corpus)


XML_WRITER = Writer(name="bioc", description="BioC in XML", write=_write_xml)
JSON_WRITER = Writer(name="bioc-json", description="BioC in JSON", write=_write_json)
