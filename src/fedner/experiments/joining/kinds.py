"""What is trained: two recipes of the zoo, each with a described or a free head, and first weights.

The order in which first weights are drawn is part of the study's numbers: it stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedner.experiments.joining.stack import Tokens, Weights, stacked
from fedner.experiments.joining.world import World
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.initialise import initialise_by
from fedner.models.tagger import Tagger
from fedner.models.zoo import HeadKind, Recipe, build_tagger, recipe_named, resized
from fedner.training import trainable

_HEAD = ("emissions.", "decoder.")


@dataclass(frozen=True, slots=True)
class Kind:
    """A recipe and a head.

    Attributes:
        name: What tables call it.
        head: Whether tags have weights of their own, or come from descriptions.
        published: Whether the recipe is ELMoNER (characters, word CNN) instead of words, shapes
            and context under the BiLSTM.
    """

    name: str
    head: HeadKind
    published: bool

    def tokens(self, world: World) -> Tokens:
        """Return the features that it reads."""
        return world.published if self.published else world.described

    def recipe(self, world: World) -> Recipe:
        """Return the recipe of the zoo, in the sizes of this world; dropout is the plan's."""
        sizes = world.sizes
        found = resized(
            recipe_named("ELMoNER" if self.published else "DP-BI-LSTM-CRF"),
            hidden=sizes.hidden,
            filters=sizes.filters,
            character_filters=sizes.character_filters,
        )
        return replace(found, head=self.head, rank=sizes.rank)


DESCRIBED = Kind("described head", "described", False)
DESCRIBED_PUBLISHED = Kind("described head, ELMoNER", "described", True)
FREE = Kind("free head", "free", False)
PUBLISHED = Kind("ELMoNER", "free", True)


def blank_tagger(world: World, kind: Kind, num_tags: int) -> Tagger:
    """Return a tagger of a kind for so many tags, whose types are not known."""
    num_words = world.published.num_words
    num_context = world.published.features_ND.shape[1] - num_words
    labels = [f"{number:04d}" for number in range((num_tags - 1) // 2)]
    type_dimension = next(iter(world.vectors.values())).shape[1]
    return build_tagger(
        kind.recipe(world),
        WordEmbedding(HashedWords(1, num_words)),
        TagSpace.of(labels, "BIO"),
        num_context,
        types=type_dimension if kind.head == "described" else None,
    )


def first_weights(
    world: World, kind: Kind, seeds: Sequence[int], *, num_tags: int = 3, prefix: str = ""
) -> Weights:
    """Return fresh weights of one model for each seed, by the rules of `models.initialise`.

    Args:
        world: Features, sizes and device.
        kind: What is trained.
        seeds: One for each model.
        num_tags: Of a free head.
        prefix: Put before the names of the head's weights.
    """
    tagger = blank_tagger(world, kind, num_tags).to(world.device)
    shapes = {name: tuple(weight.shape) for name, weight in trainable(tagger).items()}
    order = sorted(shapes, key=_turn)
    members = []
    for seed in seeds:
        generator = torch.Generator(world.device).manual_seed(seed)
        drawn = {
            name: torch.rand(shapes[name], generator=generator, device=world.device) * 2 - 1
            for name in order
        }
        _fill(tagger, drawn)
        members.append({name: each.clone() for name, each in trainable(tagger).items()})
    found = stacked(members, world.device)
    return {f"{prefix}{name}" if name.startswith(_HEAD) else name: found[name] for name in order}


def _fill(tagger: Tagger, drawn: dict[str, Tensor]) -> None:
    """Set first values from what was drawn between -1 and 1."""

    def draw(name: str, _shape: tuple[int, ...], bound: float) -> Tensor:
        return drawn[name] * bound

    initialise_by(tagger, draw)


def _turn(name: str) -> tuple[int, str]:
    """Return when a weight is drawn: as the tagger has them, the described maps kind by kind."""
    if not name.startswith(_HEAD):
        return 0, ""
    is_map = name.startswith(("emissions.token.", "emissions.type."))
    return (1, name.split(".")[2]) if is_map else (2, "")
