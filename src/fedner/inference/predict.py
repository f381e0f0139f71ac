"""Any text in, mentions with character offsets and confidences out, however large the input is.

Documents are taken in chunks of bounded size; within a chunk sentences are sorted by length, and
the documents come out in the order in which they came in.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedner.corpus.document import Document
from fedner.corpus.prepare import prepare
from fedner.corpus.schemes import decode
from fedner.corpus.segment import SentencePolicy
from fedner.corpus.sentence import Entity, Sentence
from fedner.inference.confidence import joining, mention_confidences
from fedner.models.checkpoint import LoadedTagger, load_tagger
from fedner.models.features import collate, encode_corpus
from fedner.training import evaluation_batches

# A chunk has about this many characters, or one document.
CHUNK_CHARACTERS = 1 << 17
# Longer sentences are cut, at a punctuation mark if there is one.
LONGEST_SENTENCE = 1_000


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """A mention that the tagger found.

    Attributes:
        start: Where it begins, in characters of the text.
        end: Where it ends, half-open.
        label: The entity type.
        text: Its words.
        confidence: The probability of exactly this mention under the tagger (`confidence.py`).
    """

    start: int
    end: int
    label: str
    text: str
    confidence: float


@dataclass(frozen=True, slots=True)
class TokenMention:
    """A mention over given tokens: half-open token indices, label and confidence."""

    start: int
    end: int
    label: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """A document and what the tagger found in it.

    Attributes:
        document: The document as it came in.
        mentions: In the order of the text.
    """

    document: Document
    mentions: tuple[Mention, ...]


@dataclass(frozen=True, slots=True)
class Predictor:
    """A loaded tagger, ready to read.

    Attributes:
        model: The tagger and what it needs.
        joins_KK: Which tag goes on with the mention of which.
    """

    model: LoadedTagger
    joins_KK: Tensor = field(repr=False)

    @classmethod
    def of(cls, model: LoadedTagger) -> "Predictor":
        """Return a predictor with a tagger that is in memory."""
        model.tagger.eval()
        return cls(model, joining(model.space).to(_device_of(model)))

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        vectors: Path | None = None,
        context: Path | None = None,
        device: torch.device | str = "cpu",
    ) -> "Predictor":
        """Load a saved tagger; `load_tagger` explains the arguments."""
        return cls.of(load_tagger(Path(folder), vectors=vectors, context=context, device=device))

    def predict(self, text: str) -> tuple[Mention, ...]:
        """Return the mentions of one text, split into sentences by rule."""
        return next(self.predict_documents([Document("", text)])).mentions

    def predict_texts(self, texts: Iterable[str]) -> list[tuple[Mention, ...]]:
        """Return the mentions of each text."""
        documents = (Document(str(number), text) for number, text in enumerate(texts))
        return [predicted.mentions for predicted in self.predict_documents(documents)]

    def predict_tokens(self, sentences: Sequence[Sequence[str]]) -> list[tuple[TokenMention, ...]]:
        """Return the mentions of sentences that are tokenised already."""
        made = [Sentence.of(tuple(tokens)) for tokens in sentences]
        return [
            tuple(TokenMention(*entity, confidence) for entity, confidence in found)
            for found in self.predict_sentences(made)
        ]

    def predict_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        """Yield each document with its mentions; only a chunk of them is held in memory.

        The sentences and tokens of a document are its own where it has them.
        """
        for chunk in _chunks(documents):
            yield from self._predict_chunk(chunk)

    def predict_sentences(self, sentences: Sequence[Sentence]) -> list[list[tuple[Entity, float]]]:
        """Return the entities of each sentence with their confidences."""
        found: list[list[tuple[Entity, float]]] = [[] for _ in sentences]
        corpus = encode_corpus(
            sentences,
            self.model.words,
            context_TD=self._context(sentences),
            device=_device_of(self.model),
        )
        for chosen in evaluation_batches(corpus.lengths):
            batch = collate(corpus, chosen)
            with torch.no_grad():
                emissions_BLK = self.model.tagger(batch)
                tags_BL, _ = self.model.tagger.decoder.viterbi(emissions_BLK, batch.lengths_B)
            entities = self._entities(tags_BL, batch.lengths_B)
            confidences = mention_confidences(
                self.model.tagger.decoder,
                emissions_BLK,
                tags_BL,
                batch.lengths_B,
                entities,
                self.joins_KK,
            )
            for (row, entity), confidence in zip(entities, confidences, strict=True):
                found[batch.sentences[row]].append((entity, confidence))
        return found

    def _entities(self, tags_BL: Tensor, lengths_B: Tensor) -> list[tuple[int, Entity]]:
        """Return the entities of a batch with their rows."""
        numbers = tags_BL.cpu().numpy()
        names = np.asarray(self.model.space.tags, dtype=object)
        entities = []
        # Most sentences hold nothing, and need no decoding.
        for row in np.flatnonzero(numbers.any(axis=1)).tolist():
            tags = names[numbers[row, : int(lengths_B[row])]].tolist()
            entities += [(row, entity) for entity in decode(tags, self.model.space.scheme)]
        return entities

    def _context(self, sentences: Sequence[Sentence]) -> Tensor | None:
        encoder = self.model.encoder
        if encoder is None:
            return None
        features = encoder.encode([sentence.tokens for sentence in sentences])
        joined = np.concatenate([*features, np.zeros((0, encoder.dimension), np.float32)])
        # Half precision, as the cache of training has it.
        return torch.from_numpy(joined.astype(np.float16))

    def _predict_chunk(self, chunk: Sequence[Document]) -> Iterator[Predicted]:
        by_document = [_sentences_of(document) for document in chunk]
        found = iter(self.predict_sentences([one for each in by_document for one in each]))
        for document, sentences in zip(chunk, by_document, strict=True):
            mentions = [
                _mention(document, sentence, entity, confidence)
                for sentence in sentences
                for entity, confidence in next(found)
            ]
            yield Predicted(document, tuple(mentions))


def _device_of(model: LoadedTagger) -> torch.device:
    return model.tagger.emissions.weight.device


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


def _sentences_of(document: Document) -> tuple[Sentence, ...]:
    bare = Document(document.id, document.text, (), document.segments)
    policy: SentencePolicy = "rule" if document.segments is None else "as given"
    return prepare([bare], sentences=policy, max_tokens=LONGEST_SENTENCE).sentences


def _mention(document: Document, sentence: Sentence, entity: Entity, confidence: float) -> Mention:
    start, end = sentence.starts[entity.start], sentence.ends[entity.end - 1]
    return Mention(start, end, entity.label, document.text[start:end], confidence)
