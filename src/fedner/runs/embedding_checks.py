"""Whether word vectors and encoder are what the file says: looked at before any data are read."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedner.errors import FednerError
from fedner.models.embeddings.opening import AnyEncoder, open_context_encoder
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.models.embeddings.vectors_source import recognise_vectors
from fedner.models.embeddings.words import HashedWords, WordSource, WordVectors
from fedner.models.zoo import RECIPES, recipe_named
from fedner.settings import (
    HASHED,
    HUB,
    NO_CONTEXT,
    SettingProblem,
    Settings,
    SettingsError,
    Study,
)

WORDS, CONTEXT = "embeddings.words", "embeddings.context"
SOURCE = "the embeddings"


def path_problems(settings: Settings) -> Iterator[SettingProblem]:
    """Yield paths of embeddings where nothing lies, or something that is none."""
    held = settings.embeddings
    for key, path, absent in ((WORDS, held.words, HASHED), (CONTEXT, held.context, NO_CONTEXT)):
        if path == absent or path.startswith(HUB):
            continue
        if not Path(path).exists():
            yield SettingProblem(key, path, f"a path, or {absent!r}", nearest_path(Path(path)))
        elif key == WORDS:
            try:
                recognise_vectors(Path(path))
            except (FednerError, OSError) as error:
                yield _problem(key, error)
        elif trains_encoder(settings.model.recipe) and not (Path(path) / "config.json").is_file():
            yield SettingProblem(
                key, path, "the folder of a Hugging Face encoder",
                "It has config.json, tokenizer.json and model.safetensors.",
            )  # fmt: skip


def initial_problems(settings: Settings) -> Iterator[SettingProblem]:
    """Yield an initial model where nothing lies, or where nothing could begin with it."""
    path = settings.model.initial
    if path is not None and not Path(path).is_dir():
        expected = "the folder of a released model (RUN/model), or of a finished run"
        yield SettingProblem("model.initial", path, expected, nearest_path(Path(path)))
    elif path is not None and settings.partition.shared == "nothing":
        yield SettingProblem(
            "model.initial", path, "no such key where nothing is shared",
            "Only shared weights begin with it: share a module (partition.shared).",
        )  # fmt: skip


def trains_encoder(recipe: str) -> bool:
    """Whether a recipe, if there is such a one, trains its encoder."""
    named = {each.name.lower(): each for each in RECIPES.values()}
    return recipe.lower() in named and named[recipe.lower()].trains_encoder


def open_words(settings: Settings | Study, path: Path | None) -> WordSource:
    """Open the word vectors, or make the hashed table; recipes without words need one row.

    Args:
        settings: Says how words are looked up.
        path: Where the vectors lie; None for hashed words.

    Raises:
        SettingsError: There are none, or the file has problems.
    """
    held = settings.embeddings
    if not recipe_named(settings.model.recipe).words:
        return HashedWords(1, 1, "always")
    if path is None:
        never = held.lowercase == "never"
        return HashedWords(held.buckets, held.dimension, "never" if never else "always")
    with _under_key(WORDS):
        return WordVectors.open(path, lowercase=held.lowercase or "fallback", unknown=held.unknown)


def open_encoder(
    settings: Settings | Study, path: str | None, device: str
) -> AnyEncoder | PretrainedEncoder | None:
    """Open the encoder that the recipe reads frozen or trains; None where there is none.

    Raises:
        SettingsError: There is none at the path, or it cannot be opened.
    """
    if path is None:
        return None
    with _under_key(CONTEXT):
        if recipe_named(settings.model.recipe).trains_encoder:
            return PretrainedEncoder.open(path)
        return open_context_encoder(Path(path), device)


def nearest_path(path: Path) -> str:
    """Return a question that names the nearest entry of the folder, or says that it is missing."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f"There is no folder {path.parent}."
    near = difflib.get_close_matches(path.name, names, 1)
    return f"Did you mean {path.parent / near[0]}?" if near else ""


@contextmanager
def _under_key(key: str) -> Iterator[None]:
    """Report what goes wrong under the key of the file that it comes from."""
    try:
        yield
    except FednerError as error:
        raise SettingsError(SOURCE, [_problem(key, error)]) from error


def _problem(key: str, error: FednerError | OSError) -> SettingProblem:
    expected = "word vectors" if key == WORDS else "an encoder"
    if isinstance(error, FednerError):
        return SettingProblem(key, error.message, expected, error.hint)
    return SettingProblem(key, str(error), expected)
