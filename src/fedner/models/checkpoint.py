"""A tagger on disk: `model.safetensors` with what was trained, `model.json` with what it is.

Loading executes no code. Both files are sealed: cut short, altered, or of another format they are
refused. Frozen public embeddings are named by their digest and looked for where the user says,
where they were, and in the cache of converted vectors; only on request are they copied along. An
encoder that was trained whole is among the weights, and the small files that say what it is
(configuration, tokenizer) stand beside them: such a model needs nothing else.
"""

import copy
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedner.durable import sync_folder, write_text
from fedner.errors import FednerError
from fedner.models.averaged import AnyTagger, AveragedTagger
from fedner.models.checkpoint_card import (
    CARD,
    KIND,
    UNHARMED,
    VERSION,
    WEIGHTS,
    read_card,
    recipes_of,
    space_of,
    tagger_space,
    weights_in,
)
from fedner.models.checkpoint_embeddings import (
    CONTEXT,
    VECTORS,
    open_context,
    open_trained,
    open_words,
)
from fedner.models.device import require_device
from fedner.models.embeddings.opening import AnyEncoder
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.models.embeddings.words import WordEmbedding, WordSource, WordVectors
from fedner.models.features import TagSpace
from fedner.models.layers.described import DescribedEmissions
from fedner.models.layers.kind_crf import KindCRF
from fedner.models.layers.linear_chain import LinearChain
from fedner.models.layers.softmax import SoftmaxDecoder
from fedner.models.tagger import Tagger
from fedner.models.types import TypeVectors, type_vectors
from fedner.models.zoo import Recipe, build_tagger
from fedner.sealed import file_digest, seal_of
from fedner.tensor_files import write_tensors
from fedner.version import __version__

__all__ = [
    "CARD",
    "KIND",
    "VERSION",
    "WEIGHTS",
    "EmbeddingPaths",
    "LoadedTagger",
    "load_tagger",
    "retyped",
    "save_tagger",
    "tagger_space",
]

_TYPE_VECTORS = "emissions.vectors"
_OF_ANY_TYPES = ("token.", "type.", "outside.")  # what a described head holds of no single type


@dataclass(frozen=True, slots=True)
class EmbeddingPaths:
    """Where the frozen embeddings of a tagger are, on the machine at hand.

    Attributes:
        vectors: Word vectors: a text file, a folder or a converted store.
        context: The weights of the context encoder.
    """

    vectors: Path | None = None
    context: Path | None = None


@dataclass(frozen=True, slots=True)
class LoadedTagger:
    """A tagger from disk and all that prediction needs beside it.

    Attributes:
        tagger: The tagger, in evaluation mode.
        recipe: What it is composed of; of an average, what its first member is.
        space: Its tags.
        encoder: What computes its context features; None where it has no context slot, or trains
            its encoder itself.
        facts: What was noted when it was saved.
        digest: The digest of its weights file: the name of this very model.
        paths: Where its frozen embeddings are.
    """

    tagger: AnyTagger
    recipe: Recipe
    space: TagSpace
    encoder: AnyEncoder | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    paths: EmbeddingPaths = field(default_factory=EmbeddingPaths)

    def __repr__(self) -> str:
        return f"LoadedTagger({self.recipe.name!r}, types={len(self.space.labels)})"

    @property
    def words(self) -> WordEmbedding:
        """Its word embedding."""
        return self.tagger.embeddings.words

    @property
    def descriptions(self) -> dict[str, str]:
        """The descriptions of its types by their names; empty where its head is free."""
        head = _described_head(self.tagger)
        return {} if head is None else dict(head.descriptions)

    @property
    def context(self) -> EmbeddingOrigin | None:
        """Where its context features come from; None where it has no context slot."""
        trained = self.tagger.embeddings.encoder
        if trained is not None:
            return trained.source.origin
        return None if self.encoder is None else self.encoder.origin


def _described_head(tagger: AnyTagger) -> DescribedEmissions | None:
    """Return the described head of a tagger, or the first among an average's."""
    members = tagger.taggers if isinstance(tagger, AveragedTagger) else (tagger,)
    heads = (each.emissions for each in members)
    return next((each for each in heads if isinstance(each, DescribedEmissions)), None)


def save_tagger(
    folder: Path,
    tagger: AnyTagger,
    recipe: Recipe,
    space: TagSpace,
    *,
    context: EmbeddingOrigin | None = None,
    paths: EmbeddingPaths | None = None,
    include_embeddings: bool = False,
    facts: Mapping[str, Any] | None = None,
    descriptions: Mapping[str, str] | None = None,
) -> None:
    """Write a tagger into `folder`; whatever happens, a whole model or none stands there then.

    Args:
        folder: Where the model shall be; made where it does not exist.
        tagger: The tagger.
        recipe: The recipe that it was built from; of an average, that of its first member.
        space: Its tags.
        context: Where its context features come from; needed where it has a context slot.
        paths: Where the frozen embeddings are, for whoever loads the model on this machine.
        include_embeddings: Whether to copy the frozen embeddings into the folder.
        facts: Anything else worth noting, as JSON: scores, rounds, privacy spent.
        descriptions: Those of its types, where its head is described and does not know them;
            whoever loads the model computes their vectors.

    Raises:
        FednerError: A piece is missing, or the folder cannot be written.
    """
    paths = paths or EmbeddingPaths()
    if bool(tagger.embeddings.context_dimension) != (context is not None):
        raise FednerError(
            f"saving {recipe.name}: its context slot has {tagger.embeddings.context_dimension} "
            f"features, their origin is {'missing' if context is None else 'given'}",
            "Give the origin of the context features exactly where the recipe has a context slot.",
        )
    types = _types_record(tagger, space, descriptions)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        whole = _wholly_trained(tagger)
        if whole is not None:
            _copy_texts(folder / CONTEXT / Path(whole.origin.name).name, whole)
        if include_embeddings:
            frozen = context if whole is None else None
            _copy_embeddings(folder, tagger.embeddings.words.source, frozen, paths)
    except OSError as error:
        raise FednerError(
            f"cannot write {folder}: {error.strerror or error}", "Choose another folder."
        ) from error
    card = _describe(tagger, recipe, space, context, paths, facts or {})
    card["types"] = types
    # Between two models there is none: weights of one with the card of the other must never load.
    (folder / CARD).unlink(missing_ok=True)
    sync_folder(folder)
    write_tensors(folder / WEIGHTS, _kept_tensors(tagger), KIND, VERSION)
    card["weights"] = {"file": WEIGHTS, "sha256": file_digest(folder / WEIGHTS)}
    card["seal"] = seal_of(card)
    write_text(folder / CARD, json.dumps(card, indent=2, ensure_ascii=False) + "\n")


def load_tagger(
    folder: Path,
    *,
    vectors: Path | WordSource | None = None,
    context: Path | None = None,
    device: torch.device | str = "cpu",
) -> LoadedTagger:
    """Read a tagger back.

    Args:
        folder: The folder of the model.
        vectors: Its word vectors, where they are not found by themselves; open ones or a path.
        context: The weights of its context encoder, likewise.
        device: Where the tagger shall run.

    Raises:
        FednerError: A file is missing, cut short, altered or of another version, or an embedding
            is not the one that the tagger was trained with, or the device is not there.
    """
    require_device(device)
    folder = Path(folder)
    card = read_card(folder)
    tensors = weights_in(folder, card)
    recipes, space = recipes_of(card), space_of(card)
    source, words_path = open_words(folder, card, vectors)
    trained: PretrainedEncoder | None = None
    encoder: AnyEncoder | None = None
    context_path: Path | None = None
    if recipes[0].trains_encoder:
        trained, context_path = open_trained(folder, card, recipes[0], context)
    elif card["context"]:
        encoder, context_path = open_context(folder, card, context, device)
    parts = _parts(tensors, recipes) if "members" in card else [tensors]
    members = [
        _filled(card, recipe, space, source, encoder or trained, part)
        for recipe, part in zip(recipes, parts, strict=True)
    ]
    tagger = AveragedTagger(members, recipes, space) if "members" in card else members[0]
    facts, digest = card["facts"], card["weights"]["sha256"]
    paths = EmbeddingPaths(words_path, context_path)
    loaded = tagger.to(device).eval()
    return LoadedTagger(loaded, recipes[0], space, encoder, facts, digest, paths)


def _parts(
    tensors: Mapping[str, torch.Tensor], recipes: Sequence[Recipe]
) -> list[dict[str, torch.Tensor]]:
    """Return the tensors of each member of an average."""
    parts: list[dict[str, torch.Tensor]] = [{} for _ in recipes]
    for key, tensor in tensors.items():
        _, number, name = key.split(".", 2)
        if int(number) >= len(parts):
            raise FednerError(f"{WEIGHTS}: the weights do not fit {CARD}: {key}", UNHARMED)
        parts[int(number)][name] = tensor
    return parts


def _filled(
    card: Mapping[str, Any],
    recipe: Recipe,
    space: TagSpace,
    source: WordSource,
    reader: AnyEncoder | PretrainedEncoder | None,
    tensors: Mapping[str, torch.Tensor],
) -> Tagger:
    """Return a tagger of a recipe with the weights of its file."""
    origin = EmbeddingOrigin.from_json(card["context"]["origin"]) if card["context"] else None
    types: TypeVectors | None = None
    held = dict(tensors)
    if recipe.head == "described":
        types = _types_of(card, held.get(_TYPE_VECTORS), reader, source)
        held[_TYPE_VECTORS] = torch.from_numpy(types.vectors)
    tagger = build_tagger(
        recipe,
        WordEmbedding(source, trainable=card["words"]["trainable"]),
        space,
        0 if origin is None else origin.dimension,
        constrained=card["constrained"],
        encoder=reader if isinstance(reader, PretrainedEncoder) else None,
        context_layers=1 if origin is None else origin.layers,
        types=types,
    )
    _check_alphabet(tagger, card)
    wrong = tagger.load_state_dict(held, strict=False)
    if wrong.missing_keys or wrong.unexpected_keys:
        names = [*wrong.missing_keys, *wrong.unexpected_keys]
        raise FednerError(f"{WEIGHTS}: the weights do not fit {CARD}: {names}", UNHARMED)
    return tagger


def retyped(
    loaded: LoadedTagger, descriptions: Mapping[str, str], *, residual: bool = False
) -> LoadedTagger:
    """Return a tagger with the same weights for other types; the one given stays as it is.

    A residual belongs to the tags that it was trained for: it is left out. The facts of the result
    say under "retyped" what the tagger was trained for.

    Args:
        loaded: A tagger with a described head.
        descriptions: The types by name; an empty description stands for the name.
        residual: Whether the new head has a residual, zero at first.

    Raises:
        FednerError: The head is free, no type is given, or a description cannot be read because the
            pretrained weights of a trained encoder are not at hand.
    """
    if isinstance(loaded.tagger, AveragedTagger):
        raise FednerError(
            "an average of taggers was trained for its own types and cannot be used for others",
            "Use the shared model itself.",
        )
    old = loaded.tagger.emissions
    if not isinstance(old, DescribedEmissions):
        raise FednerError(
            f"this tagger ({loaded.recipe.name}) has a free head: its weights belong to the types "
            f"{', '.join(loaded.space.labels)} and to no others",
            'Train a model with head = "described".',
        )
    if not descriptions:
        raise FednerError("no types are given", "Give at least one type with its description.")
    space = TagSpace.of(list(descriptions), loaded.space.scheme)
    types = _known_or_computed(loaded, old, descriptions)
    head = DescribedEmissions(old.outside.in_features, space, types, old.rank, residual=residual)
    kept = {n: each for n, each in old.state_dict().items() if n.startswith(_OF_ANY_TYPES)}
    head.load_state_dict({**head.state_dict(), **kept})
    decoder = loaded.tagger.decoder
    tagger = copy.deepcopy(loaded.tagger)
    tagger.emissions = head
    tagger.decoder = SoftmaxDecoder(len(space.tags))
    if isinstance(decoder, KindCRF):
        tagger.decoder = KindCRF(space, constrained=decoder.is_constrained)
        tagger.decoder.load_state_dict(decoder.state_dict())
    trained_for = {"trained_for": loaded.descriptions, "residual_left_out": bool(old.residual)}
    return replace(
        loaded,
        tagger=tagger.to(old.vectors.device).train(loaded.tagger.training),
        recipe=replace(loaded.recipe, residual=residual),
        space=space,
        facts={**loaded.facts, "retyped": trained_for},
    )


def _known_or_computed(
    loaded: LoadedTagger, old: DescribedEmissions, descriptions: Mapping[str, str]
) -> TypeVectors:
    """Return the types with the vectors that the head has already, the others computed."""
    texts = {label: text.strip() or label for label, text in descriptions.items()}
    places = {label: row for row, label in enumerate(loaded.space.labels)}
    known = {label for label in texts if old.descriptions.get(label) == texts[label]}
    trained = loaded.tagger.embeddings.encoder
    encoder = loaded.encoder if trained is None else trained.source
    fresh = {label: text for label, text in texts.items() if label not in known}
    computed = type_vectors(fresh, encoder=encoder, words=loaded.words.source)
    vectors_TE = old.vectors.cpu().numpy()
    rows = {label: vectors_TE[places[label]] for label in known}
    rows |= dict(zip(computed.labels, computed.vectors, strict=True))
    labels = tuple(sorted(texts))
    stacked_TE = np.stack([rows[label] for label in labels])
    return TypeVectors(labels, tuple(texts[label] for label in labels), stacked_TE, old.source)


def _describe(
    tagger: AnyTagger,
    recipe: Recipe,
    space: TagSpace,
    context: EmbeddingOrigin | None,
    paths: EmbeddingPaths,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    words, characters = tagger.embeddings.words, tagger.embeddings.characters
    decoder = tagger.decoder
    members = tagger.recipes if isinstance(tagger, AveragedTagger) else ()
    return {
        **({"members": [asdict(each) for each in members]} if members else {}),
        "kind": KIND,
        "version": VERSION,
        "fedner": __version__,
        "recipe": asdict(recipe),
        "labels": list(space.labels),
        "scheme": space.scheme,
        "tags": list(space.tags),
        "constrained": isinstance(decoder, LinearChain) and decoder.is_constrained,
        "words": {
            "origin": words.origin.to_json(),
            "trainable": words.trainable,
            "path": None if paths.vectors is None else str(paths.vectors),
        },
        "characters": None if characters is None else characters.origin.to_json(),
        "context": None
        if context is None
        else {
            "origin": context.to_json(),
            "path": None if paths.context is None else str(paths.context),
        },
        "facts": dict(facts),
    }


def _types_record(
    tagger: AnyTagger, space: TagSpace, descriptions: Mapping[str, str] | None
) -> dict[str, Any] | None:
    """Return what the card says of described types; None for a free head."""
    head = _described_head(tagger)
    if head is None:
        return None
    known = head.descriptions or dict(descriptions or {})
    if sorted(known) != list(space.labels):
        raise FednerError(
            f"saving a described head: found descriptions of {sorted(known)}; expected those of "
            f"its types, {list(space.labels)}",
            "Give `descriptions` where the tagger was built without the vectors of its types.",
        )
    return {"descriptions": known, "source": head.source}


def _types_of(
    card: Mapping[str, Any],
    vectors_TE: torch.Tensor | None,
    encoder: AnyEncoder | PretrainedEncoder | None,
    words: WordSource,
) -> TypeVectors:
    """Return the types of a saved tagger: their vectors as they were saved, or computed now."""
    record = card["types"]
    if vectors_TE is None:
        return type_vectors(record["descriptions"], encoder=encoder, words=words)
    labels = tuple(sorted(record["descriptions"]))
    texts = tuple(record["descriptions"][label] for label in labels)
    return TypeVectors(labels, texts, vectors_TE.numpy(), record["source"])


def _kept_tensors(tagger: AnyTagger) -> Mapping[str, torch.Tensor]:
    """Return what is saved of a tagger: of an average its members, from which all else follows."""
    if not isinstance(tagger, AveragedTagger):
        return tagger.state_dict()
    return tagger.members.state_dict(prefix="members.")


def _wholly_trained(tagger: AnyTagger) -> PretrainedEncoder | None:
    """Return what the tagger's encoder began as, where all its weights are the tagger's own."""
    encoder = tagger.embeddings.encoder
    return encoder.source if encoder is not None and encoder.adapters is None else None


def _copy_texts(place: Path, encoder: PretrainedEncoder) -> None:
    """Copy configuration and tokenizer, a few small files."""
    place.parent.mkdir(mode=0o700, exist_ok=True)
    place.mkdir(mode=0o700, exist_ok=True)
    for path in encoder.text_files():
        if path.parent.resolve() != place.resolve():
            shutil.copyfile(path, place / path.name)


def _copy_embeddings(
    folder: Path, source: WordSource, context: EmbeddingOrigin | None, paths: EmbeddingPaths
) -> None:
    if isinstance(source, WordVectors) and source.store.folder != folder / VECTORS:
        shutil.copytree(source.store.folder, folder / VECTORS, dirs_exist_ok=True)
    if context is not None:
        if paths.context is None:
            raise FednerError(
                f"the weights of the context encoder {context.name!r} cannot be copied",
                "Say where they are with `paths`.",
            )
        (folder / CONTEXT).mkdir(exist_ok=True)
        place = folder / CONTEXT / paths.context.name
        if paths.context.is_dir():
            shutil.copytree(paths.context, place, dirs_exist_ok=True)
        else:
            shutil.copy2(paths.context, place)


def _check_alphabet(tagger: Tagger, card: Mapping[str, Any]) -> None:
    characters = tagger.embeddings.characters
    found = None if characters is None else characters.origin.to_json()
    if found != card["characters"]:
        raise FednerError(
            f"{CARD}: the alphabet of the characters is not that of this release",
            "Use the release that wrote the model.",
        )
