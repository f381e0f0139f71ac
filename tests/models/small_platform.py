"""Fifty synthetic sentences, ready for a tagger: what the tests of this folder train on."""

from dataclasses import dataclass

import torch

from fedner.corpus.prepare import prepare
from fedner.corpus.sentence import Sentence
from fedner.corpus.synthetic import generate
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import EncodedCorpus, TagSpace, encode_corpus
from fedner.models.zoo import RECIPES, Recipe, resized

CONTEXT_DIMENSION = 12
# Those that train an encoder have tests of their own: test_trained_encoder.py.
FROZEN_RECIPES = [name for name, recipe in RECIPES.items() if not recipe.trains_encoder]


@dataclass(frozen=True)
class SmallPlatform:
    sentences: tuple[Sentence, ...]
    space: TagSpace
    words: WordEmbedding

    def context(self, dimension: int = CONTEXT_DIMENSION) -> torch.Tensor:
        num_tokens = sum(len(sentence.tokens) for sentence in self.sentences)
        generator = torch.Generator().manual_seed(5)
        return torch.randn(num_tokens, dimension, generator=generator).half()

    def encoded(self, recipe: Recipe, dimension: int = CONTEXT_DIMENSION) -> EncodedCorpus:
        context_TD = self.context(dimension) if recipe.context else None
        return encode_corpus(self.sentences, self.words, space=self.space, context_TD=context_TD)


def small_platform(trainable: bool = False) -> SmallPlatform:
    corpus = generate("case-reports", 50, seed=1)
    sentences = prepare(corpus.documents).sentences[:50]
    words = WordEmbedding(HashedWords(4000, 40), trainable=trainable)
    return SmallPlatform(sentences, TagSpace.of(corpus.labels, "BIOES"), words)


def small(recipe: Recipe) -> Recipe:
    return resized(recipe, hidden=40, filters=40, character_filters=20)


def context_size(recipe: Recipe) -> int:
    return CONTEXT_DIMENSION if recipe.context else 0
