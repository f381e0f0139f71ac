"""BioC, the exchange format of biomedical text mining, in XML and in JSON.

Comeau et al.: "BioC: a minimalist approach to interoperability for biomedical text processing",
Database 2013; https://bioc.sourceforge.net. Read through the `bioc` library, one document at a
time: XML is streamed, and so is JSON with a document a line; a JSON collection is held as text.
PubTator's JSON (`{"PubTator3": [...]}`) is read too.

The text is put together from the passages, each at its offset, a line break before each. An
annotation's `type` is its label, its locations are its fragments; relations are left out. Passages
without sentences are split by rule. What fedner's own writer adds as infons (labels, sentences,
patient, source) comes back.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.files import display_name, files_in, head
from fedner.corpus.problems import Kind, Problem, ProblemLog
from fedner.corpus.readers import standoff, xml_files
from fedner.corpus.readers.extras import Fault, attempt, required
from fedner.corpus.readers.folder import choose, reason_in
from fedner.corpus.readers.json_records import MalformedError, as_list, as_object, probe, records
from fedner.corpus.readers.jsonl import read_segments
from fedner.corpus.readers.options import option
from fedner.corpus.readers.reader import Declared, Reader
from fedner.corpus.segment import split_by_rule

LABELS_INFON = "fedner.labels"
SEGMENTS_INFON = "fedner.segments"
PATIENT_INFON = "patient"
SOURCE_INFON = "fedner.source"

CHANGE_HALVES = "halves of surrogate pairs (stored as ?)"

MAX_GAP = 100_000
"""The widest gap between passages that is kept; beyond it offsets are taken for wrong."""

_FARTHEST = 10**12
_NEED = "BioC files"
_COLLECTION = re.compile(r"<collection[\s>]")
_INNER = re.compile(r"<(?:document|source|date|key|infon)[\s/>]")
_INFON = re.compile(rf'<infon key="{re.escape(LABELS_INFON)}">([^<]*)</infon>')
_SOURCE = re.compile(r"<source>([^<]*)</source>")


@dataclass(frozen=True, slots=True)
class BiocOptions:
    """The options of BioC.

    Attributes:
        patient_column: The infon that holds the patient.
    """

    patient_column: str = option(
        PATIENT_INFON, "the key of the documents' infon that holds the patient"
    )


def recognise(path: Path) -> str | None:
    """Say why a file, or some file of a folder, looks like BioC."""
    return reason_in(path, _reason)


def declared_labels(path: Path) -> tuple[str, ...]:
    """Return the labels that collections written by fedner declare, sorted."""
    found = {label for file in files_in(path) for label in _declared_in(file)[1]}
    return tuple(sorted(found))


def declared(path: Path, _options: BiocOptions, _encoding: str | None) -> Declared:
    """Return the name of a collection that fedner wrote."""
    names = {_declared_in(file)[0] for file in files_in(path)} - {None}
    return Declared(name=names.pop() if len(names) == 1 else None)


def stream(path: Path, log: ProblemLog, options: BiocOptions) -> Iterator[Document]:
    """Read a file, or those files of a folder that are BioC."""
    for file in choose(path, lambda each: _reason(each) is not None, log, "BioC"):
        source = display_name(file, path)
        is_xml = (head(file, 4096) or "").lstrip().startswith("<")
        for line, found in _from_xml(file, log) if is_xml else _from_json(file, log):
            if isinstance(found, Fault):
                _report(log, file, line, "malformed line", found.found, "a document of BioC")
                continue
            try:
                yield _Assembly(file, line, log).document(found, source, options.patient_column)
            except MalformedError as fault:
                _report(log, file, line, fault.kind, fault.found, fault.expected)


def _reason(path: Path) -> str | None:
    beginning = (head(path) or "").lstrip()
    if beginning.startswith("<"):
        is_bioc = _COLLECTION.search(beginning) and _INNER.search(beginning)
        return "XML with a <collection> of documents" if is_bioc else None
    found = probe(path)
    if found is None:
        return None
    if "bioctype" in found.keys or ("passages" in found.keys and "id" in found.keys):
        return "JSON of BioC's documents and passages"
    is_collection = found.keys >= {"documents", "source"} or "PubTator3" in found.keys
    return "a JSON collection of BioC" if is_collection else None


def _declared_in(path: Path) -> tuple[str | None, list[str]]:
    """Return name and labels that stand at the head of a collection that fedner wrote."""
    beginning = head(path) or ""
    if beginning.lstrip().startswith("{"):
        start = beginning.find('"documents"')
        shown = probe_collection(beginning[:start]) if start > 0 else {}
        infons = shown.get("infons")
        listed = infons.get(LABELS_INFON) if isinstance(infons, dict) else None
        name = shown.get("source")
    else:
        match, source = _INFON.search(beginning), _SOURCE.search(beginning)
        listed = xml_files.unescaped(match[1]) if match else None
        name = xml_files.unescaped(source[1]) if source else None
    try:
        labels = json.loads(listed) if isinstance(listed, str) else None
    except (ValueError, RecursionError):
        labels = None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        return None, []
    return name if isinstance(name, str) else None, labels


def probe_collection(beginning: str) -> dict[str, Any]:
    """Return what stands before the documents of a JSON collection, from its head."""
    try:
        found = json.loads(beginning.rstrip().rstrip(",") + "}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# From a file to documents of the library.

Found = tuple[int | None, Any]


def _from_xml(path: Path, log: ProblemLog) -> Iterator[Found]:
    """Yield the documents of a collection as they are parsed, and forget each."""
    biocxml = required("bioc.biocxml", "formats", _NEED)
    for line, element in xml_files.elements(path, "document", log, "formats", _NEED):
        whole = f"<collection>{element}</collection>"
        collection = attempt(partial(biocxml.loads, whole))
        if isinstance(collection, Fault) or len(collection.documents) != 1:
            yield line, collection if isinstance(collection, Fault) else Fault("no document")
        else:
            yield line, collection.documents[0]


def _from_json(path: Path, log: ProblemLog) -> Iterator[Found]:
    decode = required("bioc.biocjson", "formats", _NEED).fromJSON
    for line, record in records(path, log):
        key = next((key for key in ("documents", "PubTator3") if key in record), None)
        try:
            items = [record] if key is None else as_list(record[key], key)
            for item in items:
                complete = _complete(as_object(item))
                yield line, attempt(partial(decode, complete, "BioCDocument"))
        except MalformedError as fault:
            log.report(fault.problem(path, line, "Fix the document; it is skipped."))


def _complete(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the keys that the library insists on; empty ones are often absent."""
    passages = []
    for each in as_list(document.get("passages"), "passages"):
        passage = as_object(each)
        sentences = as_list(passage.get("sentences"), "sentences")
        passages.append(
            {**_completed(passage), "sentences": [_completed(as_object(one)) for one in sentences]}
        )
    return {"id": None, **_completed(document), "passages": passages}


def _completed(part: dict[str, Any]) -> dict[str, Any]:
    """Return a document, passage or sentence with all that its annotations need."""
    annotations = [
        {"id": "", "infons": {}, "text": None, "locations": [], **as_object(each)}
        for each in as_list(part.get("annotations"), "annotations")
    ]
    relations = [
        {"id": "", "infons": {}, "nodes": [], **as_object(each)}
        for each in as_list(part.get("relations"), "relations")
    ]
    lists = {"annotations": annotations, "relations": relations}
    return {"offset": 0, "text": None, "infons": {}, **part, **lists}


# From a document of the library to one of ours.


@dataclass(slots=True)
class _Assembly:
    """Puts one text together from passages and sentences, and finds its mentions in it.

    Attributes:
        path: The file.
        line: Where the document begins in it.
        log: Where problems go.
        parts: The pieces of the text so far.
        length: How many characters they have.
        segments: The sentences.
        waiting: Annotations, each with how far its offsets are from those of the text.
    """

    path: Path
    line: int | None
    log: ProblemLog
    parts: list[str] = field(default_factory=list)
    length: int = 0
    segments: list[Segment] = field(default_factory=list)
    waiting: list[tuple[Any, int]] = field(default_factory=list)

    def document(self, found: Any, source: str, infon: str) -> Document:
        """Return the document; `infon` is the key of its patient."""
        shift = 0
        for number, passage in enumerate(found.passages):
            begin = -_whole(passage.offset) if number == 0 else shift
            shift = self._passage(passage, begin)
        self.waiting.extend((annotation, shift) for annotation in found.annotations)
        text = "".join(self.parts)
        identity = _text(found.id)
        if not identity:
            identity = f"{source}#{self.line}"
        spans = [
            self._span(annotation, shift, text, identity) for annotation, shift in self.waiting
        ]
        num_relations = len(found.relations) + sum(len(each.relations) for each in found.passages)
        for _ in range(num_relations):
            self.log.remark("BioC relation (left out)")
        infons = found.infons if isinstance(found.infons, dict) else {}
        return Document(
            identity,
            text,
            tuple(span for span in spans if span is not None),
            self._segments(infons, text),
            _text(infons[infon]) if infon in infons else None,
            _text(infons[SOURCE_INFON]) if SOURCE_INFON in infons else source,
        )

    def _passage(self, passage: Any, shift: int) -> int:
        """Add a passage; returns how far the text is from the offsets of the file after it."""
        text = self._own_text(passage.text)
        if text or not passage.sentences:
            shift = self._add(text, _whole(passage.offset), shift, "\n")
            begin = self.length - len(text)
            if not passage.sentences:
                ranges = split_by_rule(text)
                self.segments.extend(Segment(begin + start, begin + end) for start, end in ranges)
        self.waiting.extend((annotation, shift) for annotation in passage.annotations)
        for number, sentence in enumerate(passage.sentences):
            piece = self._own_text(sentence.text)
            if text:  # the sentence only says where it stands in the passage
                start = _whole(sentence.offset) + shift
                end = start + len(piece)
                if not 0 <= start <= end <= self.length:
                    _report(
                        self.log, self.path, self.line, "offset outside the text",
                        f"a sentence at {sentence.offset}", "a sentence within its passage",
                        kept=True,
                    )  # fmt: skip
                    start, end = self.length - len(text), self.length
            else:
                shift = self._add(
                    piece, _whole(sentence.offset), shift, "\n" if not number else " "
                )
                start, end = self.length - len(piece), self.length
            self.segments.append(Segment(start, end))
            self.waiting.extend((annotation, shift) for annotation in sentence.annotations)
        return shift

    def _own_text(self, value: object) -> str:
        """Return a text of whole characters; halves of surrogate pairs are counted as changes."""
        text = _text(value)
        if not text.isascii() or "?" in text:
            halves = sum("\ud800" <= character <= "\udfff" for character in str(value))
            if halves:
                self.log.changes[CHANGE_HALVES] += halves
        return text

    def _add(self, text: str, offset: int, shift: int, separator: str) -> int:
        """Put a piece at its offset, the gap filled; returns the shift of its offsets."""
        gap = offset + shift - self.length
        if self.length and gap > 0:
            gap = gap if gap <= MAX_GAP else -1
        if self.length and gap < 0:
            _report(
                self.log, self.path, self.line, "offset outside the text",
                f"a passage or sentence at {offset} where the text before it has {self.length} "
                "characters", "passages one after the other, in the order of their offsets",
                kept=True,
            )  # fmt: skip
            gap = 1
        if self.length and gap:
            self.parts.append(separator + " " * (gap - 1))
            self.length += gap
        self.parts.append(text)
        self.length += len(text)
        return self.length - len(text) - offset

    def _segments(self, infons: dict[str, Any], text: str) -> tuple[Segment, ...] | None:
        """Return the sentences: those that fedner wrote, or those of the passages."""
        written = infons.get(SEGMENTS_INFON)
        if not isinstance(written, str):
            return tuple(self.segments)
        try:
            return read_segments(json.loads(written), len(text))
        except (ValueError, RecursionError):
            _report(
                self.log, self.path, self.line, "malformed line", f"infon {SEGMENTS_INFON}",
                "sentences as fedner writes them", kept=True,
            )  # fmt: skip
            return tuple(self.segments)

    def _span(self, annotation: Any, shift: int, text: str, document: str) -> Span | None:
        infons = annotation.infons if isinstance(annotation.infons, dict) else {}
        label = _text(infons.get("type"))
        try:
            fragments = tuple(
                (_whole(place.offset) + shift, _whole(place.offset) + shift + _whole(place.length))
                for place in annotation.locations
            )
        except MalformedError:
            fragments = ()
        if not label or not fragments:
            found = f"annotation {_text(annotation.id)[:40]} without {_lack(label)}"
            problem = Problem(
                "malformed line", str(self.path), self.line, found,
                "an infon of the key type, and a location", "Fix or remove it.",
            )  # fmt: skip
            self.log.skip_mention(problem, document, label)
            return None
        quote = annotation.text if isinstance(annotation.text, str) else None
        mention = standoff.TextBound(self.line, _text(annotation.id), label, fragments, quote)
        return standoff.place(mention, text, self.path, document, self.log)


def _lack(label: str) -> str:
    return "a location" if label else "a type"


def _whole(value: object) -> int:
    """Return an offset or a length."""
    if type(value) is not int or abs(value) > _FARTHEST:
        found = f"{str(value)[:40]} as an offset or a length"
        raise MalformedError(found, "a whole number of moderate size")
    return value


def _text(value: object) -> str:
    """Return a text of whole characters; halves of surrogate pairs are replaced."""
    if value is None or isinstance(value, (dict, list)):
        return ""
    return str(value).encode("utf-8", errors="replace").decode("utf-8")


def _report(
    log: ProblemLog,
    path: Path,
    line: int | None,
    kind: Kind,
    found: str,
    expected: str,
    *,
    kept: bool = False,
) -> None:
    hint = "Fix it; it is read as if it followed." if kept else "Fix it; it is skipped."
    log.report(Problem(kind, str(path), line, found, expected, hint, kept))


READER = Reader(
    name="bioc",
    description="BioC in XML or JSON: a collection of documents with passages",
    recognise=recognise,
    stream=stream,
    sentences="as given",
    options=BiocOptions,
    declared_labels=declared_labels,
    declared=declared,
)
