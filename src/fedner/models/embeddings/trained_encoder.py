"""A Hugging Face encoder that is trained with its tagger: whole, or through low-rank adapters.

`PretrainedEncoder` is what all taggers begin with: architecture, tokenizer and first weights.
`TrainedEncoder` is the part of one tagger. Trained whole, every weight that words pass through is a
parameter of the tagger. With adapters, only they are: the encoder itself is then no more part of
the tagger's weights than a frozen word table is. It is named by its digest, all taggers of a
process share it, and it is in no update and no checkpoint.

Shapes: B sentences, L tokens of the longest, R cells of all windows, D features.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fedner.errors import FednerError
from fedner.models.embeddings.low_rank import Adapter, attach, merged
from fedner.models.embeddings.origin import EmbeddingOrigin, Setting
from fedner.models.embeddings.pieces import PieceBatch, Pieces, gather_pieces
from fedner.models.embeddings.transformer_files import (
    checked_files,
    digest_of,
    folder_of,
    library,
    plain_name,
    text_files,
)
from fedner.models.embeddings.transformer_loading import (
    Reading,
    load_model,
    load_tokenizer,
    model_of_config,
    quiet,
    reading_of,
    split_into_pieces,
)

KIND = "trained transformer"
_LAST_LAYER = (-1,)


@dataclass(frozen=True, slots=True, eq=False)
class PretrainedEncoder:
    """An encoder as it was before anybody here trained it; read-only, shared by all taggers.

    Attributes:
        folder: Where its configuration and its tokenizer are.
        origin: Its files by their digest, and how it is read.
        reading: The same, for whoever reads.
        untrained: Weights that words do not pass through: they are never trained.
        has_weights: Whether its first weights were opened, or its architecture alone.
    """

    folder: Path
    origin: EmbeddingOrigin
    reading: Reading
    untrained: frozenset[str]
    has_weights: bool
    _model: nn.Module
    _tokenizer: Any  # a tokenizers.Tokenizer, which may not be installed

    @classmethod
    def open(
        cls,
        source: Path | str,
        *,
        window: int | None = None,
        overlap: int | None = None,
        online: bool = False,
    ) -> "PretrainedEncoder":
        """Open an encoder; its weights become float32, whatever the file holds.

        Args:
            source: Its folder, or its name on the hub, looked up among the local downloads;
                "hub:" before the name allows to download it.
            window: Pieces at a time, special ones included. None: what the encoder is made for.
            overlap: Pieces that windows share at least. None: a quarter of the window.
            online: Whether a name may be downloaded from the hub.

        Raises:
            FednerError: If the folder is missing, incomplete, damaged or unsafe, a setting does
                not fit the encoder, or `transformers` is not installed.
        """
        folder = folder_of(source, online=online)
        digest = digest_of(checked_files(folder))
        return _opened(folder, plain_name(source), digest, window, overlap, has_weights=True)

    @classmethod
    def open_architecture(cls, folder: Path, origin: EmbeddingOrigin) -> "PretrainedEncoder":
        """Open configuration and tokenizer alone, for a tagger that holds the weights itself.

        Where they are not those that `origin` records, the origin of the result tells.

        Raises:
            FednerError: If they are missing or damaged, or `transformers` is not installed.
        """
        settings: Mapping[str, Any] = origin.settings
        window, overlap = settings.get("window"), settings.get("overlap")
        found = _opened(folder, origin.name, origin.sha256, window, overlap, has_weights=False)
        if found.origin.settings == origin.settings:
            return found
        return replace(found, origin=replace(found.origin, sha256=""))

    @property
    def dimension(self) -> int:
        """The hidden size of the encoder."""
        return self.origin.dimension

    @property
    def piece_table(self) -> str:
        """The name of the table that pieces are looked up in; empty where there is none."""
        lookup: Callable[[], nn.Module] | None = getattr(self._model, "get_input_embeddings", None)
        weight = None if lookup is None else lookup().weight
        return next((name for name, each in self._model.named_parameters() if each is weight), "")

    def text_files(self) -> list[Path]:
        """Return configuration and tokenizer: all that a wholly trained encoder needs of them."""
        return text_files(self.folder)

    def pieces(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """Split the words of sentences into pieces."""
        ids, counts = [np.zeros(0, np.int64)], [np.zeros(1, np.int64)]
        found = split_into_pieces(self._tokenizer, sentences, self.reading)
        for (own, word_of), sentence in zip(found, sentences, strict=True):
            ids.append(own)
            counts.append(np.bincount(word_of, minlength=len(sentence)))
        return Pieces(np.concatenate(ids), np.cumsum(np.concatenate(counts)), self.reading)

    def copy_of_model(self) -> nn.Module:
        """Return a copy of the encoder with weights of its own, ready to be trained."""
        model = copy.deepcopy(self._model)
        for name, weight in model.named_parameters():
            weight.requires_grad_(name not in self.untrained)
        return model

    def frozen_model(self) -> nn.Module:
        """Return a copy of the encoder's modules over the very same weights, which stay frozen."""
        shared: dict[int, Any] = {id(weight): weight for weight in self._model.parameters()}
        return copy.deepcopy(self._model, shared)

    @torch.no_grad()
    def encode(self, sentences: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """Return the features (L, D) of each sentence, as they are before any training.

        Raises:
            FednerError: The architecture alone was opened.
        """
        if not self.has_weights:
            raise FednerError(
                f"the pretrained weights of the encoder {self.origin.name!r} were not found",
                "Say where they are: `context=` in Python, --context on the command line.",
            )
        model = self.frozen_model().eval()
        device = next(model.parameters()).device
        model = model.to(device)  # its buffers too: the weights may have moved with a tagger
        features = []
        for sentence in sentences:
            first, length = np.zeros(1, np.int64), np.array([len(sentence)])
            batch = gather_pieces(self.pieces([sentence]), first, length, device)
            features.append(token_states(model, batch)[0].cpu().numpy())
        return features

    def __deepcopy__(self, memo: dict[int, object]) -> "PretrainedEncoder":
        return self  # read-only

    def __reduce__(self) -> tuple[Callable[..., "PretrainedEncoder"], tuple[object, ...]]:
        return _reopened, (self.folder, self.origin)


def _reopened(folder: Path, origin: EmbeddingOrigin) -> PretrainedEncoder:
    """Open an encoder in another process; it must still be what it was."""
    settings: Mapping[str, Any] = origin.settings
    found = PretrainedEncoder.open(folder, window=settings["window"], overlap=settings["overlap"])
    if found.origin.sha256 != origin.sha256:
        raise FednerError(f"{folder} was altered while it was in use", "Copy the folder again.")
    return replace(found, origin=origin)


def _opened(
    folder: Path,
    name: str,
    digest: str,
    window: int | None,
    overlap: int | None,
    *,
    has_weights: bool,
) -> PretrainedEncoder:
    texts = digest_of(text_files(folder))
    transformers = library("transformers")
    with quiet(transformers):
        model, config = _model_in(transformers, folder, has_weights=has_weights)
        wrapper = load_tokenizer(transformers, folder)
    if isinstance(getattr(model, "pooler", None), nn.Module):
        # It makes one vector of a sentence; words do not pass through it.
        model.register_module("pooler", None)
    model.requires_grad_(False).eval()
    reading = reading_of(model, config, wrapper, _LAST_LAYER, window, overlap)
    settings: dict[str, Setting] = {
        "window": reading.window,
        "overlap": reading.overlap,
        "word": "first piece",
        "texts": texts,
    }
    origin = EmbeddingOrigin(KIND, name, digest, int(config.hidden_size), settings)
    untrained = frozenset(_unused(model, reading))
    tokenizer = wrapper.backend_tokenizer
    return PretrainedEncoder(folder, origin, reading, untrained, has_weights, model, tokenizer)


def _model_in(
    transformers: ModuleType, folder: Path, *, has_weights: bool
) -> tuple[nn.Module, Any]:
    if has_weights:
        return load_model(transformers, folder, torch.float32)
    return model_of_config(transformers, folder)


def _unused(model: nn.Module, reading: Reading) -> Iterator[str]:
    """Yield the names of weights that do not change what words become: a step shows it."""
    line = torch.tensor([[*reading.before, reading.padding, *reading.after]])
    weights = dict(model.named_parameters())
    try:
        model.requires_grad_(True)
        with torch.enable_grad():
            states = model(input_ids=line, attention_mask=torch.ones_like(line)).last_hidden_state
            found: Sequence[Tensor | None] = torch.autograd.grad(
                states.sum(), list(weights.values()), allow_unused=True
            )
    finally:
        model.requires_grad_(False)
    yield from (name for name, each in zip(weights, found, strict=True) if each is None)


class TrainedEncoder(nn.Module):
    """An encoder as a part of one tagger.

    Attributes:
        source: What it began as.
        model: The encoder, where it is trained whole; else None.
        adapters: The low-rank changes of a frozen encoder by the names of the maps that they
            change, with "-" for "."; None where it is trained whole.
    """

    def __init__(self, source: PretrainedEncoder, adapter: Adapter | None = None) -> None:
        super().__init__()
        self.source = source
        self.model: nn.Module | None = None
        self.adapters: nn.ModuleDict | None = None
        self._frozen: list[nn.Module] = []  # in a list: its weights are not the tagger's
        if adapter is None:
            self.model = source.copy_of_model()
            return
        model = source.frozen_model()
        changes = attach(model, adapter)
        self.adapters = nn.ModuleDict({n.replace(".", "-"): each for n, each in changes.items()})
        self._frozen.append(model)

    @property
    def encoder(self) -> nn.Module:
        """The Hugging Face module, with the adapters in their places if there are any."""
        return self._frozen[0] if self.model is None else self.model

    def merged(self) -> nn.Module:
        """Return a copy of the encoder as a plain one, the adapters added to its weights."""
        return merged(self.encoder)

    def forward(self, batch: PieceBatch) -> Tensor:
        """Return the features of every token (B, L, D), zero where it has no piece."""
        return token_states(self.encoder, batch)

    def train(self, mode: bool = True) -> "TrainedEncoder":
        """Turn the encoder's own dropout on or off, that of a frozen one too."""
        super().train(mode)
        for model in self._frozen:
            model.train(mode)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "TrainedEncoder":
        """Move a frozen encoder along with the tagger."""
        for move in (super()._apply, *(model._apply for model in self._frozen)):
            typed: Callable[..., object] = move
            typed(fn, recurse)
        return self


def token_states(encoder: nn.Module, batch: PieceBatch) -> Tensor:
    """Return what an encoder makes of every token (B, L, D), zero where it has no piece."""
    states = []
    for pieces, is_piece in batch.groups:
        with _repeatable(pieces):
            output = encoder(input_ids=pieces, attention_mask=is_piece)
        states.append(output.last_hidden_state.flatten(0, 1))
    states_RD = states[0] if len(states) == 1 else torch.cat(states)
    taken_BLD = states_RD.index_select(0, batch.cell_BL.flatten())
    taken_BLD = taken_BLD.view(*batch.cell_BL.shape, -1)
    return taken_BLD * batch.has_piece_BL.unsqueeze(-1)


def _repeatable(pieces: Tensor) -> AbstractContextManager[object]:
    """On a GPU, train with the attention whose gradients are the same in every run."""
    if pieces.is_cuda and torch.is_grad_enabled():
        return sdpa_kernel(SDPBackend.MATH)
    return nullcontext()
