"""What a tagger sees: one tokenised sentence with flat entities over its tokens.

`document.py` has the annotations as they were made; `prepare.py` leads from there to here.
"""

from dataclasses import dataclass
from typing import NamedTuple

from fedner.corpus.document import Span


class Entity(NamedTuple):
    """A flat mention: half-open token indices within one sentence, and a label.

    >>> import fedner
    >>> start, end, label = fedner.Entity(2, 3, "Drug")
    >>> label
    'Drug'
    """

    start: int
    end: int
    label: str

    def __repr__(self) -> str:
        return f"Entity({self.start}-{self.end})"


@dataclass(frozen=True, slots=True)
class Sentence:
    """The tokens of one sentence, their offsets in the document, and the flat entities.

    >>> import fedner
    >>> tokens = ("Nausea", "after", "aspirin", ".")
    >>> sentence = fedner.Sentence.of(tokens, (fedner.Entity(2, 3, "Drug"),))
    >>> sentence
    Sentence(tokens=4, entities=1)
    >>> sentence.span(sentence.entities[0])
    Span(13-20)

    Attributes:
        document: The id of the document.
        index: The position of the sentence in its document.
        tokens: The words.
        starts: Where each token begins in the document's text.
        ends: Where each token ends.
        entities: Flat entities, sorted, never overlapping.
        patient: Whose text it is, where known.
    """

    document: str
    index: int
    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    entities: tuple[Entity, ...] = ()
    patient: str | None = None

    def __repr__(self) -> str:
        return f"Sentence(tokens={len(self.tokens)}, entities={len(self.entities)})"

    def span(self, entity: Entity) -> Span:
        """Return the span, in characters of the document, of an entity of this sentence."""
        return Span.of(self.starts[entity.start], self.ends[entity.end - 1], entity.label)

    @classmethod
    def of(
        cls, tokens: "tuple[str, ...] | list[str]", entities: "tuple[Entity, ...]" = ()
    ) -> "Sentence":
        """Return a sentence made of tokens alone, as if they were joined by blanks."""
        starts, position = [], 0
        for token in tokens:
            starts.append(position)
            position += len(token) + 1
        ends = tuple(start + len(token) for start, token in zip(starts, tokens, strict=True))
        return cls("", 0, tuple(tokens), tuple(starts), ends, tuple(entities))
