"""The public files that a study names: word vectors and encoder, opened where they lie.

A study names them by digest, and whoever opens them checks it. Who only coordinates needs no file,
unless the files themselves are trained: their dimensions stand in the study.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.errors import FednerError
from fedner.models.checkpoint import EmbeddingPaths
from fedner.models.embeddings.lookup import DEFAULT_LOWERCASE, Lowercase
from fedner.models.embeddings.opening import AnyEncoder
from fedner.models.embeddings.origin import DECLARED, EmbeddingOrigin, Setting
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.models.embeddings.words import DEFAULT_BUCKETS, HashedWords, Unknown, WordSource
from fedner.models.zoo import recipe_named
from fedner.runs.embedding_checks import open_encoder, open_words
from fedner.settings import (
    HASHED,
    NO_CONTEXT,
    NamedEncoder,
    NamedVectors,
    OwnEmbeddings,
    Settings,
    Study,
)


@dataclass(frozen=True, slots=True)
class PublicFiles:
    """The embeddings of a study, opened or as declared.

    Attributes:
        words: The word vectors, or the hashed table.
        context: Where the context comes from; None without one.
        reader: Computes frozen context features; None where there are none or nothing was opened.
        trained: What taggers that train their encoder begin with; None for the others.
        paths: Where they were opened, for whoever loads a tagger on this machine.
    """

    words: WordSource
    context: EmbeddingOrigin | None = None
    reader: AnyEncoder | None = None
    trained: PretrainedEncoder | None = None
    paths: EmbeddingPaths = field(default_factory=EmbeddingPaths)

    @property
    def can_describe(self) -> bool:
        """Whether what descriptions of types are read with is here, and not only declared."""
        if self.context is not None:
            return self.reader is not None or self.trained is not None
        return not isinstance(self.words, DeclaredWords)


class DeclaredWords:
    """Word vectors of which only the public facts are known: enough to build a model of them."""

    def __init__(self, declared: NamedVectors, lowercase: Lowercase, unknown: Unknown) -> None:
        """Take the public facts.

        Args:
            declared: Name, digest and dimension.
            lowercase: How words are looked up.
            unknown: What unknown words get.
        """
        self._declared = declared
        self._settings: dict[str, Setting] = {"lowercase": lowercase, "unknown": unknown}
        if unknown == "hash-bucket":
            self._settings["buckets"] = DEFAULT_BUCKETS

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self._declared.dimension

    @property
    def num_rows(self) -> int:
        """Padding and unknown words: nothing else is here."""
        return 2

    @property
    def origin(self) -> EmbeddingOrigin:
        """The file that the study names."""
        held = self._declared
        return EmbeddingOrigin(
            "word vectors", held.name, held.digest, held.dimension, self._settings
        )

    def rows(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Refuse: there are no vectors here."""
        del words
        self._refuse()

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Refuse: there are no vectors here."""
        del rows
        self._refuse()

    def on(self, device: torch.device) -> Tensor:
        """Refuse: there are no vectors here."""
        del device
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise FednerError(
            f"the word vectors {self._declared.name!r} are declared here, not opened",
            "Open them (PublicFiles) where texts are read or the vectors are trained.",
        )


def declared_files(study: Study) -> PublicFiles:
    """Return the embeddings of a study by their public facts, without a file.

    Raises:
        FednerError: The study trains its word vectors or its encoder, so that its first weights
            are in those files.
    """
    held, recipe = study.embeddings, recipe_named(study.model.recipe)
    words, context = _stated(study)
    if recipe.trains_encoder or (held.trainable and held.words is not None and recipe.words):
        raise FednerError(
            "this study trains its embeddings: the initial weights are in their files",
            "Give the coordinator the files that the study names (its own embeddings.words or "
            "embeddings.context).",
        )
    return PublicFiles(words, context)


def stated_origins(study: Study) -> tuple[EmbeddingOrigin, EmbeddingOrigin | None]:
    """Return what a study says of its word vectors and of its encoder; no file is opened."""
    words, context = _stated(study)
    return words.origin, context


def _stated(study: Study) -> tuple[WordSource, EmbeddingOrigin | None]:
    held, context = study.embeddings, None
    words: WordSource
    if not recipe_named(study.model.recipe).words:
        words = HashedWords(1, 1, "always")
    elif held.words is not None:
        words = DeclaredWords(held.words, held.lowercase or DEFAULT_LOWERCASE, held.unknown)
    else:
        words = open_words(study, None)
    if held.context is not None:
        facts = held.context
        context = EmbeddingOrigin(
            DECLARED, facts.name, facts.digest, facts.dimension, layers=facts.layers
        )
    return words, context


def open_files(study: Study, own: OwnEmbeddings, device: str) -> PublicFiles:
    """Open the embeddings of a study where they lie, and check their digests.

    Raises:
        FednerError: A file is missing, or is another than the study names.
    """
    held = study.embeddings
    for key, named, path in (
        ("words", held.words, own.words),
        ("context", held.context, own.context),
    ):
        if named is not None and path is None:
            raise FednerError(
                f"the study names embeddings.{key} {named.name!r}, and nothing says where it is",
                f'Add to platform.toml: [embeddings] {key} = "PATH".',
            )
    opened = _opened(study, path_of(own.words), own.context, device)
    if held.words is not None and recipe_named(study.model.recipe).words:
        _require_digest("words", held.words, opened.words.origin)
    if held.context is not None and opened.context is not None:
        _require_digest("context", held.context, opened.context)
    return opened


def open_named_files(settings: Settings, device: str) -> PublicFiles:
    """Open the embeddings that a federation file names by their paths."""
    held = settings.embeddings
    context = None if held.context == NO_CONTEXT else held.context
    return _opened(settings, path_of(held.words), context, device)


def _opened(
    settings: Settings | Study, words: Path | None, context: str | None, device: str
) -> PublicFiles:
    source, encoder = open_words(settings, words), open_encoder(settings, context, device)
    paths = EmbeddingPaths(words, path_of(context))
    if encoder is None:
        return PublicFiles(source, paths=paths)
    if isinstance(encoder, PretrainedEncoder):
        return PublicFiles(source, encoder.origin, trained=encoder, paths=paths)
    return PublicFiles(source, encoder.origin, reader=encoder, paths=paths)


def path_of(given: str | None) -> Path | None:
    """Return the path that a key of embeddings means; None where it means no file."""
    return None if given in (None, HASHED, NO_CONTEXT) else Path(given)


def _require_digest(
    key: str, declared: NamedVectors | NamedEncoder, found: EmbeddingOrigin
) -> None:
    if declared.digest != found.sha256:
        raise FednerError(
            f"embeddings.{key}: {found.name!r} has digest {found.sha256[:12]}...; the study names "
            f"{declared.name!r} with {declared.digest[:12]}...",
            "Use exactly the file that the study names: other vectors would train another model.",
        )
