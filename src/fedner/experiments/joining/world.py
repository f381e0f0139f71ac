"""All platforms of the study on one device: features computed once, sentences by global number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.corpus.sentence import Sentence
from fedner.experiments.joining import corpora
from fedner.experiments.joining.corpora import StudyCorpus
from fedner.experiments.joining.stack import Tokens
from fedner.experiments.joining.training import Sentences
from fedner.models.embeddings.characters import encode_words
from fedner.models.embeddings.context import cached_features
from fedner.models.embeddings.opening import open_context_encoder
from fedner.models.embeddings.words import WordSource, WordVectors
from fedner.models.features import TagSpace, tag_indices
from fedner.models.layers.word_shapes import WordShapes
from fedner.models.types import type_vectors

MOST_CHARACTERS = 24
VARIANTS = REAL, PLACEBO = 0, 1  # of the gold tags


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the taggers' layers, as `models.zoo.Recipe` names them."""

    hidden: int = 200
    filters: int = 200
    character_filters: int = 200
    rank: int = 128


@dataclass(frozen=True, slots=True)
class World:
    """What every arm of the study reads.

    Attributes:
        corpora: The platforms by name.
        first: The number of each platform's first sentence.
        sentences: All sentences.
        described: The tokens as the described head's recipe reads them: words, shapes, context.
        published: The tokens as ELMoNER reads them: words, characters, context.
        vectors: The vectors of each platform's types (T, E), in the order of its labels.
        device: Where it all lies.
        sizes: Of the layers.
        is_rehearsal: Whether everything is small: newcomers try one setting for one epoch.
    """

    corpora: Mapping[str, StudyCorpus]
    first: Mapping[str, int]
    sentences: Sentences
    described: Tokens
    published: Tokens
    vectors: Mapping[str, Tensor]
    device: torch.device
    sizes: Sizes = Sizes()
    is_rehearsal: bool = False

    def numbers(self, name: str, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the global numbers of a platform's sentences."""
        return chosen + self.first[name]


def build(
    data: Path, words: Path, context: Path, names: Sequence[str], device: str, cache: Path
) -> World:
    """Read the platforms and compute what their taggers see; context features once for all jobs."""
    found = {name: corpora.load(data, name) for name in names}
    return built(found, WordVectors.open(words), context, device, cache)


def built(
    found: Mapping[str, StudyCorpus], source: WordSource, context: Path, device: str, cache: Path
) -> World:
    """Compute what the taggers of some platforms see.

    Args:
        found: The platforms.
        source: The word vectors.
        context: The frozen encoder.
        device: Where it all lies.
        cache: Where context features are stored.
    """
    place = torch.device(device)
    every = [each for corpus in found.values() for each in corpus.sentences]
    encoder = open_context_encoder(context, place)
    features = cached_features(encoder, [each.tokens for each in every], cache)
    described, published = _tokens(every, np.asarray(features.whole()), source, place)
    vectors = {
        name: torch.from_numpy(
            type_vectors(corpus.descriptions, encoder=encoder, words=source).vectors
        )
        for name, corpus in found.items()
    }
    return World(
        found,
        first_numbers(found),
        sentences_of(found, place),
        described,
        published,
        vectors,
        place,
    )


def first_numbers(found: Mapping[str, StudyCorpus]) -> dict[str, int]:
    """Return the number of each platform's first sentence."""
    counts = [len(corpus.sentences) for corpus in found.values()]
    return dict(zip(found, (np.cumsum(counts) - counts).tolist(), strict=True))


def sentences_of(found: Mapping[str, StudyCorpus], device: torch.device) -> Sentences:
    """Return all sentences with their own gold tags and the placebo's."""
    every = [each for corpus in found.values() for each in corpus.sentences]
    lengths = np.asarray([len(each.tokens) for each in every])
    gold_VN = np.stack([gold_tags(found, is_placebo=variant == PLACEBO) for variant in VARIANTS])
    return Sentences(
        torch.from_numpy(np.cumsum(lengths) - lengths).to(device),
        torch.from_numpy(lengths).to(device),
        torch.from_numpy(gold_VN).to(device),
        lengths,
    )


def _tokens(
    every: Sequence[Sentence],
    context_ND: NDArray[np.float16],
    source: WordSource,
    device: torch.device,
) -> tuple[Tokens, Tokens]:
    """Return the tokens as the described head's recipe and as ELMoNER read them."""
    spoken = sorted({word for each in every for word in each.tokens})
    number = {word: index for index, word in enumerate(spoken)}
    word_N = np.asarray([number[word] for each in every for word in each.tokens])
    vectors_VD = source.take(source.rows(spoken)).astype(np.float16)
    codes_VC = encode_words(spoken, MOST_CHARACTERS)
    shapes_VD = WordShapes()(torch.from_numpy(codes_VC)).numpy().astype(np.float16)

    def on_device(*parts: NDArray[np.float16]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts, 1)).to(device)

    codes_NC = torch.from_numpy(codes_VC[word_N].astype(np.int16)).to(device)
    return (
        Tokens(on_device(vectors_VD[word_N], shapes_VD[word_N], context_ND)),
        Tokens(on_device(vectors_VD[word_N], context_ND), codes_NC, vectors_VD.shape[1]),
    )


def gold_tags(found: Mapping[str, StudyCorpus], *, is_placebo: bool) -> NDArray[np.int64]:
    """Return the tag of every token of every platform, in the platform's own tags."""
    parts = []
    for corpus in found.values():
        sentences = corpora.moved(corpus.sentences, 1) if is_placebo else corpus.sentences
        parts.append(tag_indices(sentences, TagSpace.of(corpus.labels, "BIO")))
    return np.concatenate(parts)
