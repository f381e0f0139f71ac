"""What is in a platform's files, what is wrong with them, and what training would see.

Inspection always finishes: it counts what the files declare, before any flattening, and lists the
problems. It streams, so that its memory does not grow with the files.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedner.corpus.document import Document
from fedner.corpus.flatten import Flattening, FlattenPolicy
from fedner.corpus.folder_corpora import Shelved, corpora_in
from fedner.corpus.prepare import Changes, SentenceChoice, iterate_prepared
from fedner.corpus.problems import ProblemLog
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.readers import READERS
from fedner.corpus.readers.options import names
from fedner.corpus.reading import Format, Recognition, open_corpus
from fedner.corpus.repeats import Repeat, Repeats
from fedner.corpus.segment import SentencePolicy
from fedner.corpus.sentence import Sentence
from fedner.corpus.tally import SkippedMentions, Tally, by_folder
from fedner.errors import FednerError

# Examples are sought among the first documents only: enough to find every common label.
_DOCUMENTS_SEARCHED = 2_000
_LONGEST_EXAMPLE = 400


@dataclass(frozen=True, slots=True)
class Example:
    """A sentence to show.

    Attributes:
        document: The id of its document.
        text: Its text.
        mentions: Start, end and label of its flat mentions, in characters of the text.
    """

    document: str
    text: str
    mentions: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything that `fedner data inspect` shows.

    Attributes:
        recognition: The format and why.
        total: The counts of the whole input.
        files: The counts of each file, where there are several.
        changes: What flattening and tokenising would change before training.
        log: The problems and remarks.
        examples: A few sentences.
        num_patients: How many patients the documents name.
        repeats: Files that hold the same sentences, so that they are counted twice.
    """

    recognition: Recognition
    total: Tally
    files: dict[str, Tally]
    changes: Changes
    log: ProblemLog
    examples: tuple[Example, ...]
    num_patients: int = 0
    repeats: tuple[Repeat, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the inspection for `--json`."""
        return {
            "format": self.recognition.format,
            "why": self.recognition.why,
            "tag_scheme": self.recognition.tag_scheme,
            **self.total.as_dict(),
            "patients": self.num_patients,
            "documents_without_patient": self.total.without_patient,
            "skipped_mentions": len(self.log.skipped_mentions),
            "problems": [asdict(problem) for problem in self.log.problems],
            "problems_total": self.log.total,
            "problems_by_kind": dict(self.log.counts),
            "remarks": dict(self.log.remarks),
            "reading_changes": dict(self.log.changes),
            "repeats": [asdict(repeat) for repeat in self.repeats],
            "for_training": self.changes.counts(),
            "files": {name: tally.as_dict() for name, tally in self.files.items()},
        }


def inspect(
    path: Path | str,
    format: Format = "auto",
    *,
    options: ReadOptions | None = None,
    sentences: SentencePolicy | None = None,
    flatten: FlattenPolicy = "longest",
    num_examples: int = 3,
) -> Inspection:
    """Read `path` leniently from end to end and count what is there.

    Args:
        path: A file or a folder.
        format: A name of the readers' table, "auto", or a reader of your own.
        options: What the reader needs to know beyond the path.
        sentences: The sentence policy; None takes the default of the format.
        flatten: The flattening policy whose effect is shown.
        num_examples: How many example sentences to collect.
    """
    recognition, documents, log = open_corpus(Path(path), format, options)
    policy = sentences or recognition.sentence_choice
    survey = _Survey(policy, flatten, num_examples, log, SkippedMentions(log))
    for document in documents:
        survey.add(document)
    return survey.inspection(recognition)


@dataclass(slots=True)
class _Survey:
    """What has been counted so far while a corpus is read.

    Attributes:
        policy: Where sentences come from.
        flatten: The flattening policy whose effect is counted.
        num_examples: How many examples are wanted.
        log: The problems of reading.
        skipped: Declared mentions that nothing could place.
        files: The counts of each file.
        changes: What preparing the documents changed.
        as_is: The counts of documents that need no preparing.
        examples: The examples found.
        patients: Hashes of the patients' ids.
        repeats: Which files hold which sentences.
        num_documents: How many documents were read.
    """

    policy: SentenceChoice
    flatten: FlattenPolicy
    num_examples: int
    log: ProblemLog
    skipped: SkippedMentions
    files: dict[str, Tally] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)
    as_is: Tally = field(default_factory=Tally)
    examples: list[Example] = field(default_factory=list)
    patients: set[int] = field(default_factory=set)
    repeats: Repeats = field(default_factory=Repeats)
    num_documents: int = 0

    def add(self, document: Document) -> None:
        """Count one document."""
        self.num_documents += 1
        tally = self.files.setdefault(document.source, Tally())
        tally.documents += 1
        tally.without_patient += document.patient is None
        if document.patient is not None:
            self.patients.add(hash(document.patient))
        self.repeats.add(document)
        if self._is_ready(document):
            self._count_as_it_is(document, tally)
        else:
            self._count_prepared(document, tally)
        declared = [(span.label, span.fragments) for span in document.spans]
        tally.add_mentions(declared + self.skipped.of(document.id))

    @property
    def _wants_example(self) -> bool:
        few = len(self.examples) < self.num_examples
        return few and self.num_documents <= _DOCUMENTS_SEARCHED

    def _is_ready(self, document: Document) -> bool:
        """Whether a document is what a tagger sees: preparing it is most of the work."""
        if self._wants_example or self.policy not in ("auto", "as given"):
            return False
        return _is_ready(document)

    def _count_as_it_is(self, document: Document, tally: Tally) -> None:
        segments = document.segments or ()
        for counts in (tally, self.as_is):
            counts.sentences += len(segments)
            counts.tokens += sum(len(part.token_starts or ()) for part in segments)
        self.as_is.documents += 1
        self.as_is.mentions[""] += len(document.spans)

    def _count_prepared(self, document: Document, tally: Tally) -> None:
        [prepared] = iterate_prepared([document], sentences=self.policy, flatten=self.flatten)
        self.changes += prepared.changes
        tally.sentences += prepared.changes.sentences
        tally.tokens += prepared.changes.tokens
        if self._wants_example:
            self.examples.extend(_new_examples(document, prepared.sentences, self.examples))

    def inspection(self, recognition: Recognition) -> Inspection:
        """Return the counts when all documents were read."""
        for source, count in self.log.document_markers.items():
            self.files.setdefault(source, Tally()).document_markers = count
        total = Tally()
        for tally in self.files.values():
            total += tally
        for mentions in self.skipped.without_document():
            total.add_mentions(mentions)
        return Inspection(
            recognition=recognition,
            total=total,
            files=by_folder(self.files) if len(self.files) > 1 else {},
            changes=self.changes + _unchanged(self.as_is),
            log=self.log,
            examples=tuple(self.examples[: self.num_examples]),
            num_patients=len(self.patients),
            repeats=tuple(self.repeats.found()),
        )


def inspect_all(
    path: Path,
    *,
    options: ReadOptions | None = None,
    sentences: SentencePolicy | None = None,
    flatten: FlattenPolicy = "longest",
) -> dict[Shelved, Inspection]:
    """Inspect every corpus of a folder; nothing for a folder of one corpus, or what is no folder.

    Args:
        path: The folder.
        options: What the readers need to know beyond the path.
        sentences: The sentence policy; None takes the default of each format.
        flatten: The flattening policy whose effect is shown.
    """
    shelved = corpora_in(path) if path.is_dir() else []
    if len(shelved) < 2:
        return {}
    given = options or ReadOptions()
    _check_some_format_has(given.own, {each.format for each in shelved})
    return {
        each: inspect(
            each.path, each.format, options=_options_that_fit(given, each.format),
            sentences=sentences, flatten=flatten, num_examples=0,
        )
        for each in shelved
    }  # fmt: skip


def _options_that_fit(given: ReadOptions, format: str) -> ReadOptions:
    """Return the options without those that other formats of the folder have."""
    known = names(READERS[format].options)
    return replace(given, own={name: each for name, each in given.own.items() if name in known})


def _check_some_format_has(own: Mapping[str, object], formats: Collection[str]) -> None:
    """Refuse an option that no format of a folder has."""
    known = {name for format in formats for name in names(READERS[format].options)}
    for name in own:
        if name not in known:
            raise FednerError(
                f'options: found "{name}"; expected one that {", ".join(sorted(formats))} have: '
                f"{', '.join(sorted(known)) or 'none'}",
                "`fedner data formats` lists every option.",
            )


def _is_ready(document: Document) -> bool:
    """Whether a document is tokenised, and its mentions are flat and lie on token borders."""
    if document.segments is None or any(part.token_starts is None for part in document.segments):
        return False
    if not document.spans:
        return True
    starts, ends = dict[int, int](), dict[int, int]()
    for number, part in enumerate(document.segments):
        starts.update(dict.fromkeys(part.token_starts or (), number))
        ends.update(dict.fromkeys(part.token_ends or (), number))
    reached = 0
    for span in document.spans:
        sentence = starts.get(span.start)
        if (
            span.is_discontinuous
            or span.start < reached
            or sentence is None
            or ends.get(span.end) != sentence
        ):
            return False
        reached = span.end
    return True


def _unchanged(tally: Tally) -> Changes:
    """Return the record of documents that needed no change."""
    mentions = tally.mentions.total()
    return Changes(
        documents=tally.documents,
        sentences=tally.sentences,
        tokens=tally.tokens,
        mentions=mentions,
        entities=mentions,
        flattening=Flattening(given=mentions, kept=mentions),
    )


def _new_examples(
    document: Document, sentences: Iterable[Sentence], known: Sequence[Example]
) -> Iterator[Example]:
    """Yield sentences that show a label not shown yet."""
    shown = {label for example in known for *_, label in example.mentions}
    for sentence in sentences:
        labels = {entity.label for entity in sentence.entities}
        if labels <= shown:
            continue
        first, last = sentence.starts[0], sentence.ends[-1]
        if last - first > _LONGEST_EXAMPLE:
            continue
        shown |= labels
        spans = [sentence.span(entity) for entity in sentence.entities]
        mentions = tuple((span.start - first, span.end - first, span.label) for span in spans)
        yield Example(document.id, document.text[first:last], mentions)
