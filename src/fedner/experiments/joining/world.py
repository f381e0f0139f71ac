"""All platforms of the study on one device: features computed once, sentences by global number."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.corpus.schemes import encode
from fedner.experiments.joining import corpora
from fedner.experiments.joining.corpora import StudyCorpus
from fedner.experiments.joining.stack import Tokens
from fedner.experiments.joining.training import Sentences
from fedner.models.embeddings.characters import encode_words
from fedner.models.embeddings.context import cached_features
from fedner.models.embeddings.opening import open_context_encoder
from fedner.models.embeddings.words import WordVectors
from fedner.models.features import TagSpace
from fedner.models.layers.word_shapes import WordShapes
from fedner.models.types import type_vectors

MOST_CHARACTERS = 24
REAL, PLACEBO = 0, 1  # variants of the gold tags


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
    """

    corpora: Mapping[str, StudyCorpus]
    first: Mapping[str, int]
    sentences: Sentences
    described: Tokens
    published: Tokens
    vectors: Mapping[str, Tensor]
    device: torch.device

    def numbers(self, name: str, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the global numbers of a platform's sentences."""
        return chosen + self.first[name]


def build(
    data: Path, words: Path, context: Path, names: Sequence[str], device: str, cache: Path
) -> World:
    """Read the platforms and compute what their taggers see; context features once for all jobs."""
    place = torch.device(device)
    found = {name: corpora.load(data, name) for name in names}
    first, start = {}, 0
    for name, corpus in found.items():
        first[name] = start
        start += len(corpus.sentences)
    every = [each for corpus in found.values() for each in corpus.sentences]
    encoder = open_context_encoder(context, place)
    features = cached_features(encoder, [each.tokens for each in every], cache)
    context_ND = np.asarray(features.whole())
    spoken = sorted({word for each in every for word in each.tokens})
    number = {word: index for index, word in enumerate(spoken)}
    word_N = np.asarray([number[word] for each in every for word in each.tokens])
    source = WordVectors.open(words)
    vectors_VD = source.take(source.rows(spoken)).astype(np.float16)
    codes_VC = encode_words(spoken, MOST_CHARACTERS)
    shapes_VD = WordShapes()(torch.from_numpy(codes_VC)).numpy().astype(np.float16)

    def on_device(*parts: NDArray[np.float16]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts, 1)).to(place)

    lengths = np.asarray([len(each.tokens) for each in every])
    sentences = Sentences(
        torch.from_numpy(np.cumsum(lengths) - lengths).to(place),
        torch.from_numpy(lengths).to(place),
        torch.from_numpy(np.stack([_gold(found, False), _gold(found, True)])).to(place),
        lengths,
    )
    codes_NC = torch.from_numpy(codes_VC[word_N].astype(np.int16)).to(place)
    vectors = {
        name: torch.from_numpy(
            type_vectors(corpus.descriptions, encoder=encoder, words=source).vectors
        )
        for name, corpus in found.items()
    }
    return World(
        found,
        first,
        sentences,
        Tokens(on_device(vectors_VD[word_N], shapes_VD[word_N], context_ND)),
        Tokens(on_device(vectors_VD[word_N], context_ND), codes_NC, vectors_VD.shape[1]),
        vectors,
        place,
    )


def _gold(found: Mapping[str, StudyCorpus], is_placebo: bool) -> NDArray[np.int64]:
    """Return the tag of every token of every platform, in the platform's own tags."""
    tags: list[int] = []
    for name, corpus in found.items():
        space = TagSpace.of(corpus.labels, "BIO")
        number = {tag: index for index, tag in enumerate(space.tags)}
        sentences = corpora.moved(corpus.sentences, 1) if is_placebo else corpus.sentences
        del name
        for each in sentences:
            tags += [number[tag] for tag in encode(each.entities, len(each.tokens), "BIO")]
    return np.asarray(tags, dtype=np.int64)


def first_weights(
    seeds: Sequence[int],
    num_features: int,
    device: torch.device,
    *,
    head: str,
    num_tags: int = 0,
    type_dimension: int = 384,
    published: bool = False,
    hidden: int = 200,
    rank: int = 128,
    prefixes: Sequence[str] = ("",),
) -> dict[str, Tensor]:
    """Return fresh weights of one model for each seed, by the rules of `models.initialise`."""
    shapes: dict[str, tuple[tuple[int, ...], float]] = {}
    width = num_features
    if published:
        shapes["embeddings.characters.embedding.weight"] = ((369, 100), math.sqrt(0.03))
        shapes["embeddings.characters.convolution.weight"] = ((200, 100, 3), 1 / math.sqrt(300))
        shapes["embeddings.characters.convolution.bias"] = ((200,), 1 / math.sqrt(300))
        width += 200
        shapes["word_cnn.convolutions.0.weight"] = ((200, width, 3), 1 / math.sqrt(3 * width))
        shapes["word_cnn.convolutions.0.bias"] = ((200,), 1 / math.sqrt(3 * width))
        width = 200
    bound = 1 / math.sqrt(hidden)
    for suffix in ("", "_reverse"):
        shapes[f"bilstm.lstm.weight_ih_l0{suffix}"] = ((4 * hidden, width), bound)
        shapes[f"bilstm.lstm.weight_hh_l0{suffix}"] = ((4 * hidden, hidden), bound)
        shapes[f"bilstm.lstm.bias_ih_l0{suffix}"] = ((4 * hidden,), bound)
        shapes[f"bilstm.lstm.bias_hh_l0{suffix}"] = ((4 * hidden,), bound)
    size = 2 * hidden
    for prefix in prefixes:
        if head == "described":
            for kind in ("B", "I"):
                shapes[f"{prefix}emissions.token.{kind}.weight"] = ((rank, size), size**-0.5)
                shapes[f"{prefix}emissions.type.{kind}.weight"] = (
                    (rank, type_dimension),
                    type_dimension**-0.5,
                )
            shapes[f"{prefix}emissions.outside.weight"] = ((1, size), size**-0.5)
            shapes[f"{prefix}decoder.steps"] = ((8,), 0.0)
        else:
            shapes[f"{prefix}emissions.weight"] = ((num_tags, size), size**-0.5)
            shapes[f"{prefix}emissions.bias"] = ((num_tags,), size**-0.5)
            shapes[f"{prefix}decoder.start"] = ((num_tags,), 0.0)
            shapes[f"{prefix}decoder.end"] = ((num_tags,), 0.0)
            shapes[f"{prefix}decoder.transitions"] = ((num_tags, num_tags), 0.0)
    generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
    found = {}
    for name, (shape, limit) in shapes.items():
        rows = [
            (torch.rand(shape, generator=each, device=device) * 2 - 1) * limit
            for each in generators
        ]
        found[name] = torch.stack(rows)
    for suffix in ("", "_reverse"):
        found[f"bilstm.lstm.bias_ih_l0{suffix}"][:, hidden : 2 * hidden] = 1.0
        found[f"bilstm.lstm.bias_hh_l0{suffix}"][:, hidden : 2 * hidden] = 0.0
    return found
