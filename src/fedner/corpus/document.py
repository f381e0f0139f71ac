"""What a platform holds: documents with annotated spans, and the labels that it annotates.

Offsets are half-open character offsets into the document's text. Nothing here is flat: mentions may
be discontinuous and may overlap. `sentence.py` has the flat, tokenised view that a tagger sees.
What is printed of an object are places and counts: never a text, a name, a type or a path.
"""

from collections.abc import Iterator
from dataclasses import dataclass

Fragment = tuple[int, int]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A mention: a label over one or more character ranges, in text order.

    >>> import fedner
    >>> span = fedner.Span.of(13, 20, "Drug")
    >>> span.label, span.text_in("Nausea after aspirin.")
    ('Drug', 'aspirin')

    Attributes:
        fragments: Half-open, non-empty character ranges, sorted and not overlapping each other.
        label: The entity type.
    """

    fragments: tuple[Fragment, ...]
    label: str

    def __repr__(self) -> str:
        return f"Span({', '.join(f'{start}-{end}' for start, end in self.fragments)})"

    @classmethod
    def of(cls, start: int, end: int, label: str) -> "Span":
        """Return a contiguous mention."""
        return cls(((start, end),), label)

    @property
    def start(self) -> int:
        """Where the first fragment begins."""
        return self.fragments[0][0]

    @property
    def end(self) -> int:
        """Where the last fragment ends."""
        return self.fragments[-1][1]

    @property
    def is_discontinuous(self) -> bool:
        """Whether the mention has more than one fragment."""
        return len(self.fragments) > 1

    def text_in(self, text: str) -> str:
        """Return the words of the mention in `text`, fragments joined by a blank."""
        return " ".join(text[start:end] for start, end in self.fragments)


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence as its file gave it, with its tokens where the file gave those too.

    Attributes:
        start: Where the sentence begins in the document's text.
        end: Where it ends.
        token_starts: Where each token begins, or None where the file has no tokens.
        token_ends: Where each token ends, or None likewise.
    """

    start: int
    end: int
    token_starts: tuple[int, ...] | None = None
    token_ends: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its mentions.

    >>> import fedner
    >>> text = "Nausea after aspirin."
    >>> fedner.Document("note-1", text, (fedner.Span.of(13, 20, "Drug"),))
    Document(characters=21, spans=1)

    Attributes:
        id: The name of the document, unique within its corpus.
        text: The text. If the file gave only tokens, they are joined by blanks and the
            sentences by line breaks.
        spans: The mentions, in the order of the file.
        segments: The sentences as given, or None if the file has none.
        patient: Whose text it is, if the file says so: the unit of a patient-level split.
        source: The file that it was read from, or an empty string.
    """

    id: str
    text: str
    spans: tuple[Span, ...] = ()
    segments: tuple[Segment, ...] | None = None
    patient: str | None = None
    source: str = ""

    def __repr__(self) -> str:
        return f"Document(characters={len(self.text)}, spans={len(self.spans)})"


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents of one platform and the labels that it annotates.

    A label outside `labels` is unknown here, never "O": nobody looked for it.

    >>> import fedner
    >>> note = fedner.Document("note-1", "Nausea after aspirin.", (fedner.Span.of(0, 6, "ADE"),))
    >>> corpus = fedner.Corpus("notes", ("ADE", "Drug"), (note,))
    >>> corpus
    Corpus(documents=1, types=2)
    >>> [document.id for document in corpus]
    ['note-1']

    Attributes:
        name: What people call the corpus.
        labels: The entity types that were annotated, sorted, whether or not they occur.
        documents: The documents, in the order of the files.
    """

    name: str
    labels: tuple[str, ...]
    documents: tuple[Document, ...]

    def __repr__(self) -> str:
        return f"Corpus(documents={len(self.documents)}, types={len(self.labels)})"

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    def __len__(self) -> int:
        return len(self.documents)


def labels_of(documents: "Corpus | tuple[Document, ...] | list[Document]") -> tuple[str, ...]:
    """Return the sorted labels that occur in `documents`."""
    return tuple(sorted({span.label for document in documents for span in document.spans}))
