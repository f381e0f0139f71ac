"""What one platform sees of the common lexicon, and how often: Zipfian, with its own long tail."""

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Generic, TypeVar

from fedner.corpus.synthetic.drugs import Drug, drugs
from fedner.corpus.synthetic.effects import Concept, Disease, concepts, diseases
from fedner.seeds import seeded_scalars

Item = TypeVar("Item")

# A platform sees this share of the lexicon, so that two platforms share about its square.
SEEN = 0.65
# What the order of frequency goes by: an order common to all platforms, the platform's own liking
# for families (drugs of one ending, effects of one process), and its own for the single item.
COMMON_ORDER = 0.4
FAMILY_ORDER = 0.35


@dataclass(frozen=True, slots=True)
class Ranked(Generic[Item]):
    """Items by falling frequency: rank r has the weight (r + flatness) ** -exponent."""

    items: tuple[Item, ...]
    cumulative: tuple[float, ...]

    def draw(self, rng: random.Random) -> Item:
        """Return one item by its frequency."""
        return self.items[bisect_right(self.cumulative, rng.random())]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The part of the lexicon that a platform sees."""

    drugs: Ranked[Drug]
    effects: Ranked[Concept]


@dataclass(frozen=True, slots=True)
class Topic:
    """What a document is about: sentences of one document come back to the same things.

    Attributes:
        drug: The drug in question.
        other: Another drug that the patient takes.
        disease: What the drug is taken for.
        effects: What happens.
        vocabulary: Where everything else comes from.
    """

    drug: Drug
    other: Drug
    disease: Disease
    effects: tuple[Concept, ...]
    vocabulary: Vocabulary


@cache
def vocabulary(platform: str, exponent: float, flatness: float, internal: float) -> Vocabulary:
    """Return the platform's vocabulary; the same for every seed.

    Args:
        platform: Its name.
        exponent: How steeply frequencies fall.
        flatness: How many of the first ranks are about equally frequent.
        internal: Which share of the internal effects ever comes up there.
    """
    rng = seeded_scalars(0, "synthetic", "internal", platform)
    effects = [
        concept for concept in concepts() if rng.random() < internal or not concept.is_internal
    ]
    return Vocabulary(
        _ranked(drugs(), _drug_family, f"{platform}/drugs", exponent, flatness),
        _ranked(effects, _effect_family, f"{platform}/effects", exponent, flatness),
    )


def topic(rng: random.Random, words: Vocabulary, num_effects: int) -> Topic:
    """Draw what a document is about."""
    drug = words.drugs.draw(rng)
    treated = diseases()[drug.area]
    return Topic(
        drug,
        words.drugs.draw(rng),
        treated[int(rng.random() * len(treated))],
        tuple(words.effects.draw(rng) for _ in range(num_effects)),
        words,
    )


def _drug_family(drug: Drug) -> str:
    return drug.name[-4:]


def _effect_family(concept: Concept) -> str:
    return concept.formal[-1].split(" ")[-1][-6:]


def _ranked(
    items: Sequence[Item],
    family_of: Callable[[Item], str],
    stream: str,
    exponent: float,
    flatness: float,
) -> Ranked[Item]:
    """Choose the items that a platform sees and put them in its order of frequency."""
    rng = seeded_scalars(0, "synthetic", "vocabulary", stream)
    liking: dict[str, float] = {}
    scored = []
    for index, item in enumerate(items):
        is_seen, own = rng.random() < SEEN, rng.random()
        family = family_of(item)
        if family not in liking:
            liking[family] = seeded_scalars(0, "synthetic", "family", stream, family).random()
        if is_seen:
            common = COMMON_ORDER * (index / len(items)) ** 0.5 + FAMILY_ORDER * liking[family]
            scored.append((common + (1 - COMMON_ORDER - FAMILY_ORDER) * own, index, item))
    scored.sort(key=lambda row: row[:2])
    weights = [(rank + flatness) ** -exponent for rank in range(len(scored))]
    total = sum(weights)
    cumulative = [weight / total for weight in accumulate(weights)]
    cumulative[-1] = 1.0
    return Ranked(tuple(item for _, _, item in scored), tuple(cumulative))
