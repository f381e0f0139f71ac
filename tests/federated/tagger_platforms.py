"""The three built-in platforms with small taggers, for tests of the real thing."""

from dataclasses import replace
from functools import lru_cache

from fedner.corpus.prepare import prepare
from fedner.corpus.sentence import Sentence
from fedner.corpus.synthetic import PLATFORMS, generate
from fedner.federated.annotation import marginalised_losses, union_space
from fedner.federated.dp_steps import DPSteps
from fedner.federated.learner import TaggerLearner, gold_losses
from fedner.federated.platform import LocalSettings, Platform, platform
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, encode_corpus
from fedner.models.partition import partition
from fedner.models.tagger import Tagger
from fedner.models.zoo import Recipe, build_tagger, recipe_named, resized
from fedner.tensors import SharedState
from fedner.training import Evaluation, trainable

NAMES = sorted(PLATFORMS)
SOURCE = HashedWords(500, 16)
SEED = 11


def recipe(dropout: float = 0.2, name: str = "CNN-CLSTM-CRF") -> Recipe:
    small = resized(recipe_named(name), hidden=8, filters=8, character_filters=6)
    return replace(small, dropout=dropout, character_dimension=6)


@lru_cache(maxsize=16)
def sentences_of(name: str, size: int = 40) -> tuple[Sentence, ...]:
    return prepare(generate(name, size, seed=3).documents).sentences[:size]


UNION = union_space([PLATFORMS[name].labels for name in NAMES], "BIO")


def space_of(name: str, cut: str) -> TagSpace:
    return UNION if cut == "everything" else TagSpace.of(PLATFORMS[name].labels, "BIO")


def new_tagger(
    name: str, cut: str, dropout: float = 0.2, trainable_words: bool = False, model: str = ""
) -> Tagger:
    words = WordEmbedding(SOURCE, trainable=trainable_words)
    chosen = recipe(dropout, model) if model else recipe(dropout)
    return build_tagger(chosen, words, space_of(name, cut), seed=SEED)


def tagger_platform(
    name: str,
    cut: str = "fedner",
    dropout: float = 0.2,
    *,
    size: int = 40,
    marginal: bool = False,
    trainable_words: bool = False,
    settings: LocalSettings | None = None,
    privacy: DPSteps | None = None,
) -> Platform:
    tagger = new_tagger(name, cut, dropout, trainable_words)
    space = space_of(name, cut)
    sentences = sentences_of(name, size)
    corpus = encode_corpus(sentences, tagger.embeddings.words, space=space)
    labels = PLATFORMS[name].labels
    learner = TaggerLearner(
        tagger,
        corpus,
        marginalised_losses(space, labels) if marginal else gold_losses,
        Evaluation(corpus, sentences, space),
        labels,
    )
    cut_at = partition(trainable(tagger), cut)
    return platform(name, learner, cut_at, SEED, settings, privacy=privacy)


def first_shared(
    cut: str = "fedner", dropout: float = 0.2, *, trainable_words: bool = False
) -> SharedState:
    weights = trainable(new_tagger(NAMES[0], cut, dropout, trainable_words))
    named = {name: weight.detach().clone() for name, weight in weights.items()}
    return partition(named, cut).shared_state(named)
