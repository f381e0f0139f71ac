"""What files declare, counted: documents, sentences, tokens and mentions, placed or not."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from fedner.corpus.document import Fragment
from fedner.corpus.problems import ProblemLog

# A mention as a file declares it, whether or not it can be placed.
Declared = tuple[str, tuple[Fragment, ...]]

# Beyond this many files the counts are given by folder.
_FILES_NAMED = 50


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
class SkippedMentions:
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


def by_folder(files: dict[str, Tally]) -> dict[str, Tally]:
    """Return the counts by file or, where there are many files, by folder."""
    if len(files) <= _FILES_NAMED:
        return files
    folders: dict[str, Tally] = {}
    for name, tally in files.items():
        folder = str(PurePosixPath(name).parent)
        folders[folder] = folders.get(folder, Tally())
        folders[folder] += tally
    return folders if len(folders) > 1 else {}
