"""What is in a platform's files, what is wrong with them, and what training would see.

Inspection always finishes: it counts what the files declare, before any flattening, and lists the
problems. It streams, so that its memory does not grow with the files.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from fedner.corpus.document import Document, Fragment
from fedner.corpus.flatten import Flattening, FlattenPolicy
from fedner.corpus.folder_corpora import Shelved, corpora_in
from fedner.corpus.prepare import Changes, iterate_prepared
from fedner.corpus.problems import ProblemLog
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.readers import READERS
from fedner.corpus.readers.options import names
from fedner.corpus.reading import Format, Recognition, open_corpus
from fedner.corpus.repeats import Repeat, Repeats
from fedner.corpus.segment import SentencePolicy
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError

# A mention as a file declares it, whether or not it can be placed.
Declared = tuple[str, tuple[Fragment, ...]]

# Examples are sought among the first documents only: enough to find every common label.
_DOCUMENTS_SEARCHED = 2_000
_LONGEST_EXAMPLE = 400
# Beyond this many files the counts are given by folder.
_FILES_NAMED = 50


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


@dataclass(slots=True)
class Tally:
    """What one file declares, or all of them together.

    Attributes:
        documents: How many documents there are.
        sentences: How many sentences, under the sentence policy.
        document_markers: -DOCSTART- lines, which some count as sentences.
        tokens: How many tokens, as given or by the tokeniser.
        mentions: Mentions by label, before flattening, those that cannot be placed included.
        discontinuous: Mentions of more than one fragment.
        overlapping: Mentions that share a character with another one of the same document.
        without_patient: Documents that do not say whose they are.
    """

    documents: int = 0
    sentences: int = 0
    document_markers: int = 0
    tokens: int = 0
    mentions: Counter[str] = field(default_factory=Counter)
    discontinuous: int = 0
    overlapping: int = 0
    without_patient: int = 0

    def __iadd__(self, other: "Tally") -> "Tally":
        self.documents += other.documents
        self.sentences += other.sentences
        self.document_markers += other.document_markers
        self.tokens += other.tokens
        self.mentions += other.mentions
        self.discontinuous += other.discontinuous
        self.overlapping += other.overlapping
        self.without_patient += other.without_patient
        return self

    def add_mentions(self, declared: Sequence[Declared]) -> None:
        """Count the mentions that one document declares."""
        if declared:
            self.mentions.update(label for label, _ in declared)
            self.discontinuous += sum(len(fragments) > 1 for _, fragments in declared)
            self.overlapping += num_overlapping([fragments for _, fragments in declared])

    def as_dict(self) -> dict[str, Any]:
        """Return the counts; `sentences` includes the document markers, as the papers count."""
        return {
            "documents": self.documents,
            "sentences": self.sentences + self.document_markers,
            "document_markers": self.document_markers,
            "tokens": self.tokens,
            "mentions": dict(sorted(self.mentions.items())),
            "discontinuous": self.discontinuous,
            "overlapping": self.overlapping,
        }


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
    recognition, documents, log = open_corpus(Path(path), format, options or ReadOptions())
    policy = sentences or recognition.sentence_choice
    files, changes, as_is = dict[str, Tally](), Changes(), Tally()
    examples: list[Example] = []
    skipped = _Skipped(log)
    patients, repeats = set[int](), Repeats()
    for number, document in enumerate(documents, start=1):
        tally = files.setdefault(document.source, Tally())
        tally.documents += 1
        tally.without_patient += document.patient is None
        if document.patient is not None:
            patients.add(hash(document.patient))
        repeats.add(document)
        declared = [(span.label, span.fragments) for span in document.spans]
        wants_example = len(examples) < num_examples and number <= _DOCUMENTS_SEARCHED
        if not wants_example and policy in ("auto", "as given") and _is_ready(document):
            # Already what a tagger sees: nothing to prepare, which is most of the work.
            for counts in (tally, as_is):
                counts.sentences += len(document.segments or ())
                counts.tokens += sum(
                    len(part.token_starts or ()) for part in document.segments or ()
                )
            as_is.documents += 1
            as_is.mentions[""] += len(declared)
        else:
            prepared = next(iterate_prepared([document], sentences=policy, flatten=flatten))
            changes += prepared.changes
            tally.sentences += prepared.changes.sentences
            tally.tokens += prepared.changes.tokens
            if wants_example:
                examples.extend(_new_examples(document, prepared.sentences, examples))
        tally.add_mentions(declared + skipped.of(document.id))
    changes += _unchanged(as_is)
    for source, count in log.document_markers.items():
        files.setdefault(source, Tally()).document_markers = count
    total = Tally()
    for tally in files.values():
        total += tally
    for mentions in skipped.without_document():
        total.add_mentions(mentions)
    several = _by_folder(files) if len(files) > 1 else {}
    shown = tuple(examples[:num_examples])
    found = tuple(repeats.found())
    return Inspection(recognition, total, several, changes, log, shown, len(patients), found)


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


def num_overlapping(mentions: Sequence[tuple[Fragment, ...]]) -> int:
    """Count the mentions that share a character with another one, by fragments."""
    if len(mentions) < 2:
        return 0
    pieces = sorted((*piece, owner) for owner, pieces in enumerate(mentions) for piece in pieces)
    overlapping: set[int] = set()
    open_pieces: list[tuple[int, int]] = []
    for start, end, owner in pieces:
        open_pieces = [piece for piece in open_pieces if piece[0] > start]
        others = [other for _, other in open_pieces if other != owner]
        if others:
            overlapping.update(others, (owner,))
        open_pieces.append((end, owner))
    return len(overlapping)


@dataclass(slots=True)
class _Skipped:
    """The mentions that nothing could place, by document, as the reader reports them.

    A reader reports them before it yields their document, if it yields that at all.
    """

    log: ProblemLog
    taken: int = 0
    waiting: dict[str, list[Declared]] = field(default_factory=dict)

    def of(self, document: str) -> list[Declared]:
        """Return what was skipped of a document that has just been read."""
        for owner, label, fragments in self.log.skipped_mentions[self.taken :]:
            self.waiting.setdefault(owner, []).append((label, fragments))
        self.taken = len(self.log.skipped_mentions)
        return self.waiting.pop(document, [])

    def without_document(self) -> Iterator[list[Declared]]:
        """Yield what is left at the end: mentions of documents that could not be read."""
        self.of("")
        yield from self.waiting.values()


def _by_folder(files: dict[str, Tally]) -> dict[str, Tally]:
    """Return the counts by file or, where there are many files, by folder."""
    if len(files) <= _FILES_NAMED:
        return files
    folders: dict[str, Tally] = {}
    for name, tally in files.items():
        folder = str(PurePosixPath(name).parent)
        folders[folder] = folders.get(folder, Tally())
        folders[folder] += tally
    return folders if len(folders) > 1 else {}


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
