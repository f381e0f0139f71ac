"""The embeddings that a saved tagger names, looked for where they may be.

What the user names comes first and must be the right one; then the folder of the model, the place
where they were when it was saved, and the cache of converted vectors.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from fedner.errors import FednerError
from fedner.models.embeddings.opening import AnyEncoder, open_context_encoder
from fedner.models.embeddings.origin import DECLARED, EmbeddingOrigin
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.models.embeddings.vectors_file import default_cache
from fedner.models.embeddings.vectors_store import VERSION as STORE_VERSION
from fedner.models.embeddings.words import HashedWords, WordSource, WordVectors
from fedner.models.zoo import Recipe

VECTORS, CONTEXT = "vectors", "context"
Opened = TypeVar("Opened", WordVectors, AnyEncoder, PretrainedEncoder)


def open_words(
    folder: Path, card: Mapping[str, Any], given: Path | WordSource | None
) -> tuple[WordSource, Path | None]:
    """Open the word vectors; say where they were, unless they were open already or need no file."""
    record = card["words"]
    origin = EmbeddingOrigin.from_json(record["origin"])
    settings: dict[str, Any] = dict(origin.settings)
    if origin.kind == "hashed words":
        return HashedWords(dimension=origin.dimension, **settings), None
    if given is not None and not isinstance(given, str | Path):
        _check_origin(given.origin, origin, "the word vectors given")
        return given, None

    def opened(path: Path) -> WordVectors:
        return WordVectors.open(path, **settings)

    cached = default_cache() / f"{origin.sha256}.v{STORE_VERSION}"
    places = _places(given, folder / VECTORS, record["path"], cached)
    return _first_fitting(places, opened, origin, "vectors", is_given=given is not None)


def open_context(
    folder: Path, card: Mapping[str, Any], given: Path | None, device: torch.device | str
) -> tuple[AnyEncoder, Path]:
    """Open the frozen context encoder; say where it was."""
    record = card["context"]
    origin = EmbeddingOrigin.from_json(record["origin"])
    settings: dict[str, Any] = dict(origin.settings)

    def opened(path: Path) -> AnyEncoder:
        return open_context_encoder(path, device, settings)

    copied = sorted((folder / CONTEXT).glob("*"))
    places = _places(given, *copied, record["path"])
    return _first_fitting(places, opened, origin, "context", is_given=given is not None)


def open_trained(
    folder: Path, card: Mapping[str, Any], recipe: Recipe, given: Path | None
) -> tuple[PretrainedEncoder, Path]:
    """Open what a trained encoder began as.

    Its weights are needed where they stayed frozen. A described head wants them for new types:
    there they are opened where they are found.
    """
    record = card["context"]
    origin = EmbeddingOrigin.from_json(record["origin"])
    settings: Mapping[str, Any] = origin.settings

    def whole(path: Path) -> PretrainedEncoder:
        return PretrainedEncoder.open(path, window=settings["window"], overlap=settings["overlap"])

    def opened(path: Path) -> PretrainedEncoder:
        if recipe.adapter is None:
            return PretrainedEncoder.open_architecture(path, origin)
        return whole(path)

    if recipe.adapter is None and recipe.head == "described":
        for place in filter(Path.exists, _places(given, record["path"])):
            with suppress(FednerError):
                found = whole(place)
                if _are_equal(found.origin, origin):
                    return found, place
    copied = sorted((folder / CONTEXT).glob("*"))
    places = _places(given, *copied, record["path"])
    return _first_fitting(places, opened, origin, "context", is_given=given is not None)


def _places(*candidates: Path | str | None) -> Iterator[Path]:
    return (Path(candidate) for candidate in candidates if candidate is not None)


def _first_fitting(
    places: Iterator[Path],
    opened: Callable[[Path], Opened],
    origin: EmbeddingOrigin,
    option: str,
    *,
    is_given: bool,
) -> tuple[Opened, Path]:
    """Open the first place where something is; what the user named must be what is wanted."""
    for place in places:
        if not place.exists() and not is_given:
            continue
        found = opened(place)
        if is_given or _are_equal(found.origin, origin):
            _check_origin(found.origin, origin, str(place))
            return found, place
    raise FednerError(
        f"the model needs the {origin.kind} {origin.name!r} (sha256 {origin.sha256[:16]}...), "
        "found neither in its folder nor where they were",
        f"Say where to look: `{option}=` in Python, --{option} on the command line.",
    )


def _are_equal(one: EmbeddingOrigin, other: EmbeddingOrigin) -> bool:
    """Whether the numbers are the same: a file may have been renamed, or only declared."""
    if DECLARED in (one.kind, other.kind):
        facts = [(each.sha256, each.dimension, each.layers) for each in (one, other)]
        return facts[0] == facts[1]
    return replace(one, name="") == replace(other, name="")


def _check_origin(found: EmbeddingOrigin, expected: EmbeddingOrigin, what: str) -> None:
    if not _are_equal(found, expected):
        raise FednerError(
            f"{what}: {found.kind} {found.name!r}, sha256 {found.sha256[:16]}, "
            f"{dict(found.settings)}; the model was trained with {expected.kind} "
            f"{expected.name!r}, sha256 {expected.sha256[:16]}, {dict(expected.settings)}",
            "Give the embeddings that it was trained with.",
        )
