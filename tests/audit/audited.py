"""Small platforms to attack."""

from dataclasses import replace
from functools import lru_cache

from fedner.audit.observation import Protection, Target
from fedner.corpus.prepare import prepare
from fedner.corpus.sentence import Sentence
from fedner.corpus.synthetic import generate
from fedner.federated.dp_steps import padding_rows
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, encode_corpus
from fedner.models.partition import partition
from fedner.models.types import type_vectors
from fedner.models.zoo import RECIPES, build_tagger
from fedner.training import trainable

PROTECTION = Protection(max_grad_norm=1.0, noise_multiplier=1.0, num_platforms=3)
BROKEN = "broken"


@lru_cache(maxsize=4)
def synthetic_sentences(num: int = 120, seed: int = 1) -> tuple[Sentence, ...]:
    corpus = generate("case-reports", num, seed=seed)
    return tuple(each for each in prepare(corpus).sentences if 3 <= len(each.tokens) <= 24)[:num]


def tags() -> TagSpace:
    return TagSpace.of(("ADE", "Dosage", "Drug"), "BIO")


def target(
    name: str = "LSTM-CRF",
    *,
    trains_words: bool = True,
    shared: str = "everything",
    num: int = 120,
    dimension: int = 24,
    **changes: object,
) -> Target:
    sizes = {"hidden": 12, "filters": 8, "character_filters": 6, "character_dimension": 5,
             "dropout": 0.0, "rank": 8}  # fmt: skip
    recipe = replace(RECIPES[name], **(sizes | changes))  # type: ignore[arg-type]
    words = WordEmbedding(HashedWords(2000, dimension), trainable=trains_words)
    held = synthetic_sentences(num)
    space = tags()
    types = None
    if recipe.head == "described":
        types = type_vectors(dict.fromkeys(space.labels, ""), encoder=None, words=words.source)
    tagger = build_tagger(recipe, words, space, 0, 1, types=types)
    travels = partition(trainable(tagger), shared).shared
    return Target(tagger, encode_corpus(held, words, space=space), travels, padding_rows(tagger))
