"""Any text in, mentions with character offsets and confidences out, however large the input is.

Documents are taken in chunks of bounded size (`reading.py`); within a chunk sentences are sorted by
length.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedner.corpus.document import Document
from fedner.corpus.schemes import decode
from fedner.corpus.sentence import Entity, Sentence
from fedner.inference.confidence import joining, mention_confidences
from fedner.inference.reading import (
    Found,
    Judged,
    Mention,
    Predicted,
    TokenMention,
    judge_documents,
    read_documents,
    read_texts,
    read_tokens,
)
from fedner.models.checkpoint import LoadedTagger, load_tagger
from fedner.models.embeddings.opening import AnyEncoder
from fedner.models.embeddings.pieces import Pieces
from fedner.models.features import Batch, collate, encode_corpus
from fedner.training import evaluation_batches

__all__ = [
    "Mention",
    "Predicted",
    "Predictor",
    "TaggedBatch",
    "TokenMention",
    "context_features",
]


@dataclass(frozen=True, slots=True)
class TaggedBatch:
    """Some sentences and what the tagger makes of them.

    Attributes:
        batch: The sentences; `batch.sentences` says which ones.
        emissions_BLK: The score of every tag at every token.
        tags_BL: The best tags.
        entities: The entities in these tags, each with its row in the batch.
    """

    batch: Batch
    emissions_BLK: Tensor
    tags_BL: Tensor
    entities: list[tuple[int, Entity]]


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
        """Load a saved tagger.

        Args:
            folder: The folder of the tagger.
            vectors: Its word vectors, where they are not found by themselves.
            context: The weights of its context encoder, likewise.
            device: Where it shall run.

        Raises:
            FednerError: There is no such tagger.
        """
        return cls.of(load_tagger(Path(folder), vectors=vectors, context=context, device=device))

    @property
    def labels(self) -> tuple[str, ...]:
        """The entity types that it finds."""
        return self.model.space.labels

    @property
    def digest(self) -> str:
        """The name of this very tagger: the digest of its weights."""
        return self.model.digest

    def predict(self, text: str) -> tuple[Mention, ...]:
        """Return the mentions of one text, split into sentences by rule."""
        return self.predict_texts([text])[0]

    def predict_texts(self, texts: Iterable[str]) -> list[tuple[Mention, ...]]:
        """Return the mentions of each text."""
        return read_texts(self.predict_sentences, texts)

    def predict_tokens(self, sentences: Sequence[Sequence[str]]) -> list[tuple[TokenMention, ...]]:
        """Return the mentions of sentences that are tokenised already."""
        return read_tokens(self.predict_sentences, sentences)

    def predict_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        """Yield each document with its mentions; only a chunk of them is held in memory.

        The sentences and tokens of a document are its own where it has them.
        """
        return read_documents(self.predict_sentences, documents)

    def judge_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        """Yield each document with its mentions and how unsure the tagger is of it."""
        return judge_documents(self.judge_sentences, documents)

    def predict_sentences(self, sentences: Sequence[Sentence]) -> Found:
        """Return the entities of each sentence with their confidences."""
        found: Found = [[] for _ in sentences]
        for tagged in self.tag(sentences):
            self._note(tagged, found)
        return found

    def judge_sentences(self, sentences: Sequence[Sentence]) -> Judged:
        """Return the entities of each sentence, and the doubt about its best path.

        The doubt is the negative log-likelihood of that path; 0 of a sentence without tokens.
        """
        found: Found = [[] for _ in sentences]
        doubts = [0.0] * len(sentences)
        for tagged in self.tag(sentences):
            self._note(tagged, found)
            with torch.no_grad():
                sure_B = self.model.tagger.decoder.log_likelihood(
                    tagged.emissions_BLK, tagged.tags_BL, tagged.batch.lengths_B
                )
            for number, sure in zip(tagged.batch.sentences, sure_B.tolist(), strict=True):
                doubts[number] = max(0.0, -sure)
        return list(zip(found, doubts, strict=True))

    def _note(self, tagged: TaggedBatch, found: Found) -> None:
        """Add the entities of a batch to those of their sentences."""
        confidences = mention_confidences(
            self.model.tagger.decoder,
            tagged.emissions_BLK,
            tagged.tags_BL,
            tagged.batch.lengths_B,
            tagged.entities,
            self.joins_KK,
        )
        for (row, entity), confidence in zip(tagged.entities, confidences, strict=True):
            found[tagged.batch.sentences[row]].append((entity, confidence))

    def tag(self, sentences: Sequence[Sentence]) -> "Iterator[TaggedBatch]":
        """Yield the sentences in batches, each with its emissions, best tags and entities."""
        corpus = encode_corpus(
            sentences,
            self.model.words,
            context_TD=self._context(sentences),
            pieces=self._pieces(sentences),
            device=_device_of(self.model),
        )
        for chosen in evaluation_batches(corpus.lengths):
            batch = collate(corpus, chosen)
            with torch.no_grad():
                emissions_BLK = self.model.tagger(batch)
                tags_BL, _ = self.model.tagger.decoder.viterbi(emissions_BLK, batch.lengths_B)
            entities = self._entities(tags_BL, batch.lengths_B)
            yield TaggedBatch(batch, emissions_BLK, tags_BL, entities)

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

    def _pieces(self, sentences: Sequence[Sentence]) -> Pieces | None:
        encoder = self.model.tagger.embeddings.encoder
        if encoder is None:
            return None
        return encoder.source.pieces([sentence.tokens for sentence in sentences])

    def _context(self, sentences: Sequence[Sentence]) -> Tensor | None:
        encoder = self.model.encoder
        return None if encoder is None else context_features(encoder, sentences)


def context_features(encoder: AnyEncoder, sentences: Sequence[Sentence]) -> Tensor:
    """Return the context features of every token, in half precision as the cache has them."""
    features = encoder.encode([sentence.tokens for sentence in sentences])
    joined = np.concatenate([*features, np.zeros((0, encoder.dimension), np.float32)])
    return torch.from_numpy(joined.astype(np.float16))


def _device_of(model: LoadedTagger) -> torch.device:
    return next(model.tagger.parameters()).device
