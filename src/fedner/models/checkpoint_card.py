"""What a saved tagger says of itself, read without its embeddings: `model.json` and the weights.

A coordinator begins a run with a model whose word vectors and encoder it may not have.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from fedner.corpus.schemes import canonical
from fedner.errors import FednerError
from fedner.models.embeddings.low_rank import Adapter
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.features import TagSpace
from fedner.models.stages import StageRecipe
from fedner.models.zoo import Recipe
from fedner.sealed import file_digest, read_sealed, seal_of
from fedner.tensor_files import read_tensors

WEIGHTS, CARD = "model.safetensors", "model.json"
KIND, VERSION = "fedner tagger", 1
UNHARMED = "Use an undamaged copy of the model, or train it again."


@dataclass(frozen=True, slots=True)
class SavedTagger:
    """A tagger as its files have it; nothing is built.

    Attributes:
        recipe: What it is composed of; of an average, what its first member is.
        space: Its tags.
        words: Where its word vectors come from.
        trains_words: Whether its word table is trained.
        context: Where its context features come from; None without.
        characters: The alphabet of its characters, as JSON; None where it reads none.
        tensors: Its weights and buffers by name.
        facts: What was noted when it was saved.
        digest: The seal of its card, which names weights and facts together.
        is_average: Whether it is an average of several.
    """

    recipe: Recipe
    space: TagSpace
    words: EmbeddingOrigin
    trains_words: bool
    context: EmbeddingOrigin | None
    characters: Mapping[str, Any] | None
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]
    digest: str
    is_average: bool


def read_saved(folder: Path) -> SavedTagger:
    """Read a saved tagger without opening its embeddings.

    Raises:
        FednerError: A file is missing, cut short, altered or of another version.
    """
    card = read_card(folder)
    context = card["context"]
    return SavedTagger(
        recipe=recipes_of(card)[0],
        space=space_of(card),
        words=EmbeddingOrigin.from_json(card["words"]["origin"]),
        trains_words=card["words"]["trainable"],
        context=EmbeddingOrigin.from_json(context["origin"]) if context else None,
        characters=card["characters"],
        tensors=weights_in(folder, card),
        facts=card["facts"],
        digest=seal_of(card),
        is_average="members" in card,
    )


def weights_in(folder: Path, card: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the tensors of a saved tagger.

    Args:
        folder: The folder of the model.
        card: What its card says.

    Raises:
        FednerError: They are cut short or altered, or belong to another card.
    """
    if file_digest(folder / WEIGHTS) != card["weights"]["sha256"]:
        raise FednerError(f"{folder / WEIGHTS} does not belong to {CARD}", UNHARMED)
    return read_tensors(folder / WEIGHTS, KIND, VERSION)[0]


def read_card(folder: Path) -> dict[str, Any]:
    """Return what the card of a saved tagger says.

    Raises:
        FednerError: There is none, or it is damaged.
    """
    path = folder / CARD
    if not path.is_file() or not (folder / WEIGHTS).is_file():
        raise FednerError(
            f"{folder} holds no model: {CARD} and {WEIGHTS} must both be there",
            "Name the folder of a saved tagger; if saving was interrupted, save it again.",
        )
    return read_sealed(path, KIND, VERSION, UNHARMED)


def tagger_space(folder: Path) -> TagSpace:
    """Return the tags of a saved tagger; nothing else of it is opened.

    Raises:
        FednerError: There is none, or it is damaged.
    """
    return space_of(read_card(folder))


def recipes_of(card: Mapping[str, Any]) -> tuple[Recipe, ...]:
    """Return what a tagger is composed of: several recipes where it is an average."""
    return tuple(_recipe_of(each) for each in card.get("members", [card["recipe"]]))


def _recipe_of(stated: Mapping[str, Any]) -> Recipe:
    given = dict(stated)
    given["widths"] = tuple(given["widths"])
    unknown = sorted(set(given) - {one.name for one in fields(Recipe)})
    if unknown:
        raise FednerError(
            f"{CARD}: the recipe has fields {unknown} that this release lacks",
            "Use the release that wrote the model.",
        )
    if given.get("adapter") is not None:
        adapter = given["adapter"]
        given["adapter"] = Adapter(**{**adapter, "targets": tuple(adapter["targets"])})
    given["extra_stages"] = tuple(StageRecipe(**each) for each in given.get("extra_stages", ()))
    # A field that an older release did not have yet stands for what its models did without.
    return Recipe(**given)


def space_of(card: Mapping[str, Any]) -> TagSpace:
    """Return the tags that a card names."""
    space = TagSpace.of(card["labels"], canonical(card["scheme"]))
    if list(space.tags) != card["tags"]:
        raise FednerError(
            f"{CARD}: tags {card['tags']} are not those of its labels under {space.scheme}",
            "Use the release that wrote the model.",
        )
    return space
