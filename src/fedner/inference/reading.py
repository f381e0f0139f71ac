"""From texts to sentences and from their entities back to mentions, whatever finds the entities.

The torch tagger (`predict.py`) and the exported one (`onnx_tagger.py`) both read through here, so
that they see the same sentences and tokens. Documents are taken in chunks of bounded size and come
out in the order in which they came in. Nothing here needs torch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fedner.corpus.document import Document
from fedner.corpus.prepare import prepare
from fedner.corpus.schemes import decode
from fedner.corpus.segment import SentencePolicy
from fedner.corpus.sentence import Entity, Sentence
from fedner.inference.ranking import uncertainty_of

BYTE_ORDER_MARK = "\ufeff"
# A chunk has about this many characters, or one document.
CHUNK_CHARACTERS = 1 << 17
# At most about this many tokens are tagged at a time: a document may be as long as a book.
CHUNK_TOKENS = 1 << 15
# Longer sentences are cut, at a punctuation mark if there is one.
LONGEST_SENTENCE = 1_000

# The entities of each sentence, with their confidences.
Found = list[list[tuple[Entity, float]]]
Finder = Callable[[Sequence[Sentence]], Found]
# The same, and beside them the negative log-likelihood of the best path of each sentence.
Judged = list[tuple[list[tuple[Entity, float]], float]]
Judge = Callable[[Sequence[Sentence]], Judged]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """A mention that the tagger found.

    >>> import fedner
    >>> mention = fedner.Mention(13, 20, "Drug", "aspirin", 0.93)
    >>> mention
    Mention(13-20, confidence=0.93)
    >>> mention.label, mention.text
    ('Drug', 'aspirin')

    Attributes:
        start: Where it begins, in characters of the text.
        end: Where it ends (exclusive).
        label: The entity type.
        text: Its words.
        confidence: The probability of exactly this mention under the tagger (`confidence.py`).
    """

    start: int
    end: int
    label: str
    text: str
    confidence: float

    def __repr__(self) -> str:
        return f"Mention({self.start}-{self.end}, confidence={self.confidence:.2f})"


@dataclass(frozen=True, slots=True)
class TokenMention:
    """A mention over given tokens: half-open token indices, label and confidence."""

    start: int
    end: int
    label: str
    confidence: float

    def __repr__(self) -> str:
        return f"TokenMention({self.start}-{self.end}, confidence={self.confidence:.2f})"


@dataclass(frozen=True, slots=True)
class Predicted:
    """A document and what the tagger found in it.

    Attributes:
        document: The document as it came in.
        mentions: In the order of the text.
        uncertainty: How unsure the tagger is of all of it, where that was asked (`ranking.py`).
    """

    document: Document
    mentions: tuple[Mention, ...]
    uncertainty: float | None = None


def read_documents(find: Finder, documents: Iterable[Document]) -> Iterator[Predicted]:
    """Yield each document with its mentions; only a chunk of them is held in memory.

    The sentences and tokens of a document are its own where it has them.
    """
    for document, read in _read(find, documents):
        mentions = [
            _mention(document, sentence, entity, confidence)
            for sentence, found in read
            for entity, confidence in found
        ]
        yield Predicted(document, tuple(mentions))


def judge_documents(judge: Judge, documents: Iterable[Document]) -> Iterator[Predicted]:
    """Yield each document with its mentions and how unsure the tagger is of it."""
    for document, read in _read(judge, documents):
        mentions = [
            _mention(document, sentence, entity, confidence)
            for sentence, (found, _) in read
            for entity, confidence in found
        ]
        doubt = sum(each for _, (_, each) in read)
        num_tokens = sum(len(sentence.tokens) for sentence, _ in read)
        yield Predicted(document, tuple(mentions), uncertainty_of(doubt, num_tokens))


def _read(
    ask: Callable[[Sequence[Sentence]], list[Answer]], documents: Iterable[Document]
) -> Iterator[tuple[Document, list[tuple[Sentence, Answer]]]]:
    """Yield each document with its sentences and the tagger's answer to each."""
    for chunk in _chunks(documents):
        by_document = [sentences_of(document) for document in chunk]
        answers = _asked(ask, [one for each in by_document for one in each])
        for document, sentences in zip(chunk, by_document, strict=True):
            yield document, [(sentence, next(answers)) for sentence in sentences]


def _asked(
    ask: Callable[[Sequence[Sentence]], list[Answer]], sentences: Sequence[Sentence]
) -> Iterator[Answer]:
    """Yield the answer to each sentence, a bounded number of them at a time."""
    part: list[Sentence] = []
    size = 0
    for sentence in sentences:
        if part and size + len(sentence.tokens) > CHUNK_TOKENS:
            yield from ask(part)
            part, size = [], 0
        part.append(sentence)
        size += len(sentence.tokens)
    yield from ask(part)


def read_texts(find: Finder, texts: Iterable[str]) -> list[tuple[Mention, ...]]:
    """Return the mentions of each text, split into sentences by rule."""
    documents = (Document(str(number), text) for number, text in enumerate(texts))
    return [predicted.mentions for predicted in read_documents(find, documents)]


def read_tokens(find: Finder, sentences: Iterable[Sequence[str]]) -> list[tuple[TokenMention, ...]]:
    """Return the mentions of sentences that are tokenised already."""
    made = [Sentence.of(tuple(tokens)) for tokens in sentences]
    return [
        tuple(TokenMention(*entity, confidence) for entity, confidence in found)
        for found in find(made)
    ]


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    size = 0
    for document in documents:
        if chunk and size + len(document.text) > CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
        chunk.append(document)
        size += len(document.text)
    if chunk:
        yield chunk


def sentences_of(document: Document) -> tuple[Sentence, ...]:
    """Return the sentences that a tagger reads: those of the document, or split by rule."""
    text = document.text
    if text.startswith(BYTE_ORDER_MARK):  # no word: offsets stay, and the tagger never sees it
        text = " " + text[1:]
    bare = Document(document.id, text, (), document.segments)
    policy: SentencePolicy = "rule" if document.segments is None else "as given"
    return prepare([bare], sentences=policy, max_tokens=LONGEST_SENTENCE).sentences


def _mention(document: Document, sentence: Sentence, entity: Entity, confidence: float) -> Mention:
    start, end = sentence.starts[entity.start], sentence.ends[entity.end - 1]
    return Mention(start, end, entity.label, document.text[start:end], confidence)


def joins(tags: Sequence[str], scheme: str) -> list[list[bool]]:
    """Return for each tag (row) which tags (columns) go on with its mention right behind it."""
    return [
        [
            decode([before, after], scheme)[:1] == [Entity(0, 2, before.partition("-")[2])]
            for after in tags
        ]
        for before in tags
    ]
