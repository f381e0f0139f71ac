"""A study small enough for a test: random words and features, types as the real study has them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from fedner.corpus.sentence import Entity, Sentence
from fedner.experiments.joining.corpora import DESCRIPTIONS, StudyCorpus
from fedner.experiments.joining.stack import Tokens
from fedner.experiments.joining.world import World, first_numbers, sentences_of
from fedner.models.embeddings.characters import encode_words
from fedner.models.embeddings.words import HashedWords
from fedner.models.layers.word_shapes import WordShapes

NUM_CONTEXT = NUM_TYPE = 4
WORDS = HashedWords(200, 5)


def sentence(
    tokens: Sequence[str], entities: Sequence[tuple[int, int, str]] = (), document: str = "d"
) -> Sentence:
    """Return a sentence of these tokens."""
    found = tuple(Entity(*each) for each in entities)
    return replace(Sentence.of(tokens, found), document=document)


def corpus(name: str, number: int, seed: int = 0, by: str = "sentence") -> StudyCorpus:
    """Return random sentences with random entities of the platform's types."""
    draw = np.random.default_rng((seed, *name.encode()))
    labels = tuple(sorted(DESCRIPTIONS[name]))
    return StudyCorpus(
        name, labels, tuple(_random(draw, labels, place // 3) for place in range(number)), by
    )


def _random(draw: np.random.Generator, labels: Sequence[str], document: int) -> Sentence:
    length = int(draw.integers(1, 9))
    tokens = ["".join(draw.choice(list("abcdeXY19-"), draw.integers(1, 6))) for _ in range(length)]
    entities, at = [], 0
    while at < length:
        size = int(draw.integers(1, 4))
        if draw.random() < 0.4 and at + size <= length:
            entities.append((at, at + size, str(draw.choice(labels))))
            at += size
        else:
            at += 1
    return sentence(tokens, entities, f"document {document}")


def world_of(corpora: Sequence[StudyCorpus], seed: int = 0, **settings: object) -> World:
    """Return a world of these platforms with random features."""
    found = {each.name: each for each in corpora}
    every = [each for corpus in corpora for each in corpus.sentences]
    spoken = [token for each in every for token in each.tokens]
    generator = torch.Generator().manual_seed(seed)
    words = torch.from_numpy(WORDS.take(WORDS.rows(spoken)))
    codes = torch.from_numpy(encode_words(spoken))
    context = torch.randn(len(spoken), NUM_CONTEXT, generator=generator)
    vectors = {
        name: torch.randn(len(each.labels), NUM_TYPE, generator=generator)
        for name, each in found.items()
    }
    return World(
        found,
        first_numbers(found),
        sentences_of(found, torch.device("cpu")),
        Tokens(torch.cat((words, WordShapes()(codes), context), 1)),
        Tokens(torch.cat((words, context), 1), codes, WORDS.dimension),
        vectors,
        torch.device("cpu"),
        **settings,
    )
