"""What a newcomer receives: a released model, or the shared weights of a finished run. Read only.

A described head knows types by their descriptions, so all of such a model serves any types. Of
other runs the shared weights are received and the rest begins afresh; where those include what
belongs to single tags, the tags of the same name are taken over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedner.corpus.schemes import Scheme
from fedner.errors import FednerError
from fedner.federated.checkpoints import read_state, stored_rounds
from fedner.models.averaged import AveragedTagger
from fedner.models.checkpoint import CARD, EmbeddingPaths, load_tagger
from fedner.models.device import require_device
from fedner.models.embeddings.opening import AnyEncoder
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.models.embeddings.words import WordEmbedding, WordSource
from fedner.models.features import TagSpace
from fedner.models.partition import ALWAYS_PRIVATE, HEAD, lies_under
from fedner.models.tagger import Tagger
from fedner.models.types import TypeVectors, type_vectors
from fedner.models.zoo import Recipe, build_tagger
from fedner.runs.blueprint import shares_tags, sized_recipe
from fedner.runs.folder import FACTS, SETTINGS, RunFolder, open_run, resume_command
from fedner.runs.public_files import open_named_files, path_of
from fedner.runs.records import PrivacySpent, RunFacts
from fedner.runs.shared_model import SHARED_MODEL
from fedner.settings import Settings
from fedner.tensor_files import tensors_digest
from fedner.training import load

SHARED = "shared/"
# What has a row, or a row and a column, for each tag.
_BY_TAG = ("emissions.weight", "emissions.bias", "decoder.start", "decoder.end")
_BY_TAGS = ("decoder.transitions",)


@dataclass(frozen=True, slots=True)
class Received:
    """A shared model as it was received, and all that building taggers from it needs.

    Attributes:
        title: What its makers call it.
        recipe: What it is composed of.
        scheme: The tag scheme that it was trained in.
        weights: The received weights by name.
        words: The word vectors that it reads.
        trains_words: Whether its word table is trained.
        context: Where its context features come from; None without.
        encoder: What computes them where they are frozen.
        pretrained: What a trained encoder began as.
        descriptions: The types that it was trained with, as it describes them.
        tags: The tags that rows of the weights stand for; None where no weight belongs to a tag.
        digest: Names these very weights.
        facts: What its makers noted: rounds, privacy.
        privacy: What it cost the platforms of its run, where that is at hand.
        paths: Where its frozen embeddings are.
        device: Where taggers compute.
    """

    title: str
    recipe: Recipe
    scheme: Scheme
    weights: Mapping[str, Tensor]
    words: WordSource
    trains_words: bool
    context: EmbeddingOrigin | None
    encoder: AnyEncoder | None
    pretrained: PretrainedEncoder | None
    descriptions: Mapping[str, str]
    tags: tuple[str, ...] | None
    digest: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    privacy: PrivacySpent | None = None
    paths: EmbeddingPaths = field(default_factory=EmbeddingPaths)
    device: str = "cpu"

    def __repr__(self) -> str:
        return f"Received({self.recipe.name!r}, {self.digest[:12]}...)"

    @property
    def has_described_head(self) -> bool:
        """Whether a head that knows types by their descriptions is among what was received."""
        is_described = self.recipe.head == "described"
        return is_described and any(lies_under(name, HEAD) for name in self.weights)

    def word_embedding(self) -> WordEmbedding:
        """Return the word embedding, frozen or trained as it was."""
        return WordEmbedding(self.words, trainable=self.trains_words)

    def types(self, descriptions: Mapping[str, str]) -> TypeVectors:
        """Return the vectors of described types, as this model's own were made."""
        reader = self.encoder if self.pretrained is None else self.pretrained
        return type_vectors(descriptions, encoder=reader, words=self.words)

    def fresh(self, recipe: Recipe, space: TagSpace, types: TypeVectors, seed: int) -> Tagger:
        """Return a tagger at its beginning that reads what the received model reads."""
        return build_tagger(
            recipe,
            self.word_embedding(),
            space,
            0 if self.context is None else self.context.dimension,
            seed,
            context_layers=1 if self.context is None else self.context.layers,
            encoder=self.pretrained,
            types=types if recipe.head == "described" else None,
        ).to(self.device)

    def give(self, tagger: Tagger, space: TagSpace) -> Tagger:
        """Load the received weights into a fresh tagger of the received recipe; return it."""
        own = dict(tagger.named_parameters())
        weights = dict(self.weights)
        if self.tags is not None:
            shared = [(space.tags.index(tag), self.tags.index(tag))
                      for tag in space.tags if tag in self.tags]  # fmt: skip
            for name in {*_BY_TAG, *_BY_TAGS} & set(weights):
                weights[name] = _rows_of(own[name].detach(), weights[name], shared, name)
        load(tagger, weights)
        return tagger


def _rows_of(own: Tensor, given: Tensor, places: list[tuple[int, int]], name: str) -> Tensor:
    """Return a tagger's own values with those given for the tags that both know."""
    here, there = (torch.tensor(each, dtype=torch.int64) for each in zip(*places, strict=True))
    merged, given = own.clone(), given.to(own.device)
    if name in _BY_TAGS:
        merged[here[:, None], here] = given[there[:, None], there]
    else:
        merged[here] = given[there]
    return merged


def open_received(
    path: Path, *, vectors: Path | None = None, context: Path | None = None, device: str = "cpu"
) -> Received:
    """Open what a newcomer receives: the folder of a released model, or of a finished run.

    Args:
        path: The folder; nothing is written there.
        vectors: The model's word vectors, where they moved.
        context: The model's context encoder, where it moved.
        device: "cpu", "cuda" or "auto".

    Raises:
        FednerError: There is no such model, the run is not finished, or the head knows no
            descriptions and is no run.
    """
    chosen = _device(device)
    is_run, is_released = (path / SETTINGS).is_file(), (path / SHARED_MODEL / CARD).is_file()
    if not is_run:
        if not is_released and not (path / CARD).is_file():
            raise FednerError(
                f"{path} holds neither a shared model nor a finished run",
                "Name the folder RUN/model that `fedner train` wrote, or RUN itself.",
            )
        return _released(path / SHARED_MODEL if is_released else path, vectors, context, chosen)
    run = open_run(path)
    encoder = context or _encoder_path(run)  # a run that is harmed says so before all else
    _require_finished(run)
    if is_released:
        return replace(
            _released(path / SHARED_MODEL, vectors, encoder, chosen), privacy=run.privacy()
        )
    return _of_run(run, vectors, context, chosen)


def _device(wanted: str) -> str:
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    require_device(wanted)
    return wanted


def _encoder_path(run: RunFolder) -> Path | None:
    found = path_of(run.settings().embeddings.context)
    return found if found is not None and found.exists() else None


def _released(folder: Path, vectors: Path | None, context: Path | None, device: str) -> Received:
    """Open a saved tagger whose head knows types by their descriptions."""
    loaded = load_tagger(folder, vectors=vectors, context=context, device=device)
    tagger = loaded.tagger
    if isinstance(tagger, AveragedTagger):
        raise FednerError(
            f"{folder} is an average of taggers, made by `fedner join` for its own platform",
            "Receive the shared model itself.",
        )
    if loaded.recipe.head != "described":
        raise FednerError(
            f"{folder}: its head is {loaded.recipe.head!r} and has only the types "
            f"{', '.join(loaded.space.labels)}; expected a described head",
            'Join a run that was trained with model.head = "described", or name the folder of a '
            "whole finished run.",
        )
    weights = {
        name: each.detach().cpu().clone()
        for name, each in tagger.named_parameters()
        if each.requires_grad and not lies_under(name, ALWAYS_PRIVATE)
    }
    facts = loaded.facts
    return Received(
        title=str(facts.get("run") or folder.resolve().name),
        recipe=loaded.recipe,
        scheme=loaded.space.scheme,
        weights=weights,
        words=loaded.words.source,
        trains_words=loaded.words.trainable,
        context=loaded.context,
        encoder=loaded.encoder,
        pretrained=_pretrained(tagger),
        descriptions=loaded.descriptions,
        tags=None,
        digest=loaded.digest,
        facts=facts,
        paths=loaded.paths,
        device=device,
    )


def _pretrained(tagger: Tagger) -> PretrainedEncoder | None:
    """Return what a trained encoder began as: local-only taggers begin with it too."""
    encoder = tagger.embeddings.encoder
    if encoder is None:
        return None
    if not encoder.source.has_weights:
        raise FednerError(
            f"the model fine-tuned its whole encoder {encoder.source.origin.name!r}; the "
            "pretrained one, with which local-only taggers begin, was not found",
            "Say where it is: --context FOLDER.",
        )
    return encoder.source


def _of_run(run: RunFolder, vectors: Path | None, context: Path | None, device: str) -> Received:
    """Take the shared weights of a run whose heads are its platforms' own."""
    settings = _with_paths(run.settings(), vectors, context)
    files = open_named_files(settings, device)
    weights = shared_weights(run)
    if not weights:
        raise FednerError(
            f"{run.path} shared nothing, so there is nothing to receive",
            "Join a run whose partition shares a module.",
        )
    facts = run.read_as(RunFacts, FACTS)
    tags = None
    if shares_tags(run.study()):
        labels = sorted({label for each in facts.platforms.values() for label in each.labels})
        tags = TagSpace.of(labels, settings.model.tag_scheme).tags
    held = settings.embeddings
    return Received(
        title=settings.title,
        recipe=sized_recipe(settings.model),
        scheme=settings.model.tag_scheme,
        weights=weights,
        words=files.words,
        trains_words=held.trainable,
        context=files.context,
        encoder=files.reader,
        pretrained=files.trained,
        descriptions=settings.types,
        tags=tags,
        digest=tensors_digest(weights),
        facts={"rounds": facts.rounds, "seed": settings.seed},
        privacy=run.privacy(),
        paths=EmbeddingPaths(path_of(held.words), path_of(held.context)),
        device=device,
    )


def _with_paths(settings: Settings, vectors: Path | None, context: Path | None) -> Settings:
    """Return the settings with embeddings where they lie now."""
    moved = {"words": vectors, "context": context}
    update = {key: str(path) for key, path in moved.items() if path is not None}
    held = settings.embeddings.model_copy(update=update)
    return settings.model_copy(update={"embeddings": held})


def _require_finished(run: RunFolder) -> int:
    rounds = stored_rounds(run.weights_folder())
    if not rounds or rounds[-1] != run.read_as(RunFacts, FACTS).rounds:
        raise FednerError(
            f"{run.path} is not finished", f"`{resume_command(run.path)}` goes on with it."
        )
    return rounds[-1]


def shared_weights(run: RunFolder) -> dict[str, Tensor]:
    """Return the shared weights of a finished run.

    Raises:
        FednerError: The run has not stored any.
    """
    tensors, _ = read_state(run.weights_folder(), _require_finished(run))
    return {
        key.removeprefix(SHARED): tensor
        for key, tensor in tensors.items()
        if key.startswith(SHARED)
    }
