"""Entity types as vectors of their descriptions: what a described head tells types by.

Descriptions are public one-line texts ("adverse drug reaction, an unwanted effect of a medicine").
The vector of one is the mean over its words of the first of these that there is:

    context   the features of the tagger's context encoder, as it was before any training here
    words     the published word vectors, of the words that they know
    names     neither: a fixed random vector that the name of the type decides

All are scaled to one norm. Nothing of a platform's text has a part in them.

Shapes: T types, E numbers of a vector, L words of a description.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedner.corpus.tokenise import tokenise
from fedner.errors import FednerError
from fedner.models.embeddings.context import ContextEncoder
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.models.embeddings.words import WordSource, WordVectors, public_noise

TYPE_NORM = 8.0

Source = Literal["context", "words", "names"]


@dataclass(frozen=True, slots=True, eq=False)
class TypeVectors:
    """Entity types with their descriptions and vectors.

    Attributes:
        labels: The names of the types, sorted as those of a `TagSpace`.
        descriptions: One for each type.
        vectors: Their vectors (T, E), each of norm `TYPE_NORM`.
        source: Where the vectors come from.
    """

    labels: tuple[str, ...]
    descriptions: tuple[str, ...]
    vectors: NDArray[np.float32]
    source: str

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return int(self.vectors.shape[1])

    def of(self, labels: Sequence[str]) -> "TypeVectors":
        """Return the types that `labels` names, in that order.

        Raises:
            FednerError: One of them is not described.
        """
        missing = sorted(set(labels) - set(self.labels))
        if missing:
            raise FednerError(
                f"entity types {missing} have no description; described are {list(self.labels)}",
                "Describe every type of the tagger: `[types]` in the settings, --types NAME=TEXT.",
            )
        places = [self.labels.index(label) for label in labels]
        chosen = tuple(self.descriptions[place] for place in places)
        return TypeVectors(tuple(labels), chosen, self.vectors[places], self.source)


def type_dimension(words: WordSource | int, context: EmbeddingOrigin | None) -> int:
    """Return how many numbers the vector of a type has, without opening any file.

    Args:
        words: The word source, or the dimension of its vectors.
        context: Where the tagger's context features come from, trained or frozen; None without.
    """
    if context is not None:
        return context.dimension
    return words if isinstance(words, int) else words.dimension


def type_vectors(
    descriptions: Mapping[str, str],
    *,
    encoder: ContextEncoder | PretrainedEncoder | None,
    words: WordSource,
) -> TypeVectors:
    """Return the vectors of described types; each depends on its own name and description alone.

    Args:
        descriptions: By the name of the type; an empty one stands for that name.
        encoder: What computes the tagger's context features, or what its trained encoder began as;
            None without context.
        words: The tagger's word source.
    """
    labels = tuple(sorted(descriptions))
    texts = tuple(descriptions[label].strip() or label for label in labels)
    dimension = words.dimension if encoder is None else encoder.dimension
    source: Source = "context"
    if encoder is None:
        source = "words" if isinstance(words, WordVectors) else "names"
    vectors_TE = np.zeros((len(labels), dimension), np.float32)
    for row, (label, text) in enumerate(zip(labels, texts, strict=True)):
        tokens = [text[start:end] for start, end in tokenise(text)]
        features_LE = _features(tokens, encoder, words)
        vectors_TE[row] = _scaled(features_LE, label, dimension)
    return TypeVectors(labels, texts, vectors_TE, source)


def _features(
    tokens: list[str], encoder: ContextEncoder | PretrainedEncoder | None, words: WordSource
) -> NDArray[np.float32]:
    """Return the features of the words of one description; none where nothing is known of them."""
    if not tokens:
        return np.zeros((0, 0), np.float32)
    if encoder is not None:
        return encoder.encode([tokens])[0]
    if isinstance(words, WordVectors):
        known = [token for token, has in zip(tokens, words.is_known(tokens), strict=True) if has]
        return words.take(words.rows(known))
    return np.zeros((0, 0), np.float32)


def _scaled(features_LE: NDArray[np.float32], label: str, dimension: int) -> NDArray[np.float64]:
    """Return the mean of the features at norm `TYPE_NORM`; without any, the vector of the name."""
    mean_E = np.zeros(dimension)
    if len(features_LE):
        mean_E = features_LE.astype(np.float64).mean(0)
    if not mean_E.any():
        mean_E = public_noise(f"entity type {label}", 1, dimension)[0].astype(np.float64)
    scaled: NDArray[np.float64] = mean_E * (TYPE_NORM / np.linalg.norm(mean_E))
    return scaled
