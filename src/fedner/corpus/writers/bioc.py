"""Writes BioC (`readers/bioc.py` says what it looks like) in XML or JSON, a document at a time.

Every document is one passage at offset 0, so that all offsets are those of its text. Labels,
sentences, tokens, patients and sources are kept as infons, BioC's place for what it does not name:
all of a corpus comes back.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

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

_NEED = "BioC files"


def write_bioc(path: Path, corpus: Corpus) -> None:
    """Write a corpus as BioC XML, wholly or not at all; `.gz` and `.xz` are compressed.

    Raises:
        FednerError: If a text holds a character that XML cannot carry, or the extra is missing.
    """
    biocxml = required("bioc.biocxml.encoder", "formats", _NEED)
    with atomic_writer(path) as file:
        # The library writes bytes; the text wrapper around them has written nothing yet.
        writer = biocxml.BioCXMLDocumentWriter(_Bytes(cast("Any", file).buffer), encoding="utf-8")
        writer.write_collection_info(_collection(corpus, is_xml=True))
        for document in _documents(corpus, is_xml=True):
            writer.write_document(document)
        writer.close()


def write_bioc_json(path: Path, corpus: Corpus) -> None:
    """Write a corpus as one BioC JSON collection; `.gz` and `.xz` are compressed.

    Raises:
        FednerError: If a text holds half a surrogate pair, or the extra is missing.
    """
    as_json = required("bioc.biocjson", "formats", _NEED).toJSON
    opening = as_json(_collection(corpus, is_xml=False))
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


def _collection(corpus: Corpus, *, is_xml: bool) -> Any:
    """Return the collection without its documents."""
    collection = required("bioc", "formats", _NEED).BioCCollection()
    _check(corpus.name, "the name of the corpus", is_xml=is_xml)
    for label in corpus.labels:
        _check(label, "a label", is_xml=is_xml)
    collection.source, collection.date, collection.key = corpus.name, "", "fedner.key"
    collection.infons[LABELS_INFON] = _dumped(sorted(corpus.labels))
    return collection


def _documents(corpus: Corpus, *, is_xml: bool) -> Iterator[Any]:
    """Yield the documents of the library."""
    bioc = required("bioc", "formats", _NEED)
    for each in corpus:
        strings = (each.id, each.text, each.patient or "", each.source)
        for string in (*strings, *(span.label for span in each.spans)):
            _check(string, f"document {each.id!a}", is_xml=is_xml)
        if not each.id or any(not span.label for span in each.spans):
            raise FednerError(
                f"document {each.id!a}: an empty id or label", "BioC needs both; fix it."
            )
        yield _document(each, bioc)


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
    for index, character in enumerate(text):
        code = ord(character)
        is_surrogate = 0xD800 <= code <= 0xDFFF
        is_control = code < 0x20 and character not in "\t\n\r"
        if is_surrogate or (is_xml and (is_control or code in (0xFFFE, 0xFFFF))):
            raise FednerError(
                f"{where}: U+{code:04X} at character {index + 1} cannot stand in BioC",
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
