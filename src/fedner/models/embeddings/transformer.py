"""Words in context by a Hugging Face encoder: frozen, from a local folder, nothing cut off.

A word is the mean of its pieces (sub-tokens), a piece the mean of the chosen layers; a word that
gives no piece (an empty one, a control character) is zero. A sentence with more pieces than the
encoder takes is read through windows that overlap, and every word is taken from the window in which
it stands farthest from an edge that cuts text off.

Only safetensors are loaded, code from the folder never runs, and the network is used only where
`online=True` asks for it.

Shapes: B windows, T pieces of the longest, W words, D features.
"""

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedner.errors import FednerError
from fedner.models.embeddings.context import Sentences, plan_batches
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.transformer_files import (
    checked_files,
    digest_of,
    folder_of,
    library,
    plain_name,
)
from fedner.models.embeddings.transformer_loading import (
    Reading,
    load_model,
    load_tokenizer,
    quiet,
    reading_of,
    split_into_pieces,
)
from fedner.models.embeddings.transformer_windows import (
    GROUP_PIECES_READ,
    SHORTER_READ,
    Window,
    batched,
    by_length,
    cut,
    lay_out,
    means,
)

Precision = Literal["float32", "float16", "bfloat16"]

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class TransformerEncoder:
    """A frozen Hugging Face encoder as a context encoder.

    Attributes:
        device: Where it runs.
        reading: How it is read.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,  # a tokenizers.Tokenizer, which may not be installed
        reading: Reading,
        origin: EmbeddingOrigin,
        device: torch.device,
    ) -> None:
        self.device = device
        self.reading = reading
        self._model = model.to(device).requires_grad_(False).eval()
        self._tokenizer = tokenizer
        self._origin = origin

    @classmethod
    def load(
        cls,
        source: Path | str,
        device: torch.device | str = "cpu",
        *,
        layers: Sequence[int] | str | None = None,
        precision: Precision = "float32",
        window: int | None = None,
        overlap: int | None = None,
        online: bool = False,
    ) -> "TransformerEncoder":
        """Load an encoder.

        Args:
            source: Its folder (config.json, tokenizer files, model.safetensors), or its name on
                the hub, which is looked up in the local cache of downloads.
            device: Where to run.
            layers: The layers to average: 1 to the number of layers from below, 0 for what the
                first sees, -1 for the last; or in writing, "3,4", as the origin has them. None:
                the last four.
            precision: What to compute in; half precision is meant for GPUs.
            window: Pieces at a time, special ones included. None: what the encoder is made for.
            overlap: Pieces that windows share at least. None: a quarter of the window.
            online: Whether a name may be downloaded from the hub.

        Raises:
            FednerError: If the folder is missing, incomplete, damaged or unsafe, a setting does
                not fit the encoder, or `transformers` is not installed.
        """
        if precision not in _DTYPES:
            raise FednerError(f"precision {precision!r}", f"Choose one of {', '.join(_DTYPES)}.")
        folder = folder_of(source, online=online)
        files = checked_files(folder)
        transformers = library("transformers")
        with quiet(transformers):
            model, config = load_model(transformers, folder, _DTYPES[precision])
            wrapper = load_tokenizer(transformers, folder)
        tokenizer = wrapper.backend_tokenizer
        reading = reading_of(model, config, wrapper, layers, window, overlap)
        origin = EmbeddingOrigin(
            "transformer",
            plain_name(source),
            digest_of(files),
            int(config.hidden_size),
            {
                "layers": ",".join(map(str, reading.layers)),
                "precision": precision,
                "window": reading.window,
                "overlap": reading.overlap,
            },
        )
        return cls(model, tokenizer, reading, origin, torch.device(device))

    @property
    def name(self) -> str:
        """The name of the folder, or the name on the hub."""
        return self._origin.name

    @property
    def dimension(self) -> int:
        """The hidden size of the encoder."""
        return self._origin.dimension

    @property
    def origin(self) -> EmbeddingOrigin:
        """The files by their digest, and the settings."""
        return self._origin

    @property
    def digest(self) -> str:
        """A hash of weights, configuration, tokenizer and settings."""
        return self._origin.digest

    def read_in(self, precision: Precision) -> "TransformerEncoder":
        """Return the encoder computing in another precision, for quick reading alone.

        Its features are no longer quite those of its origin: nothing is trained on them.
        """
        model = copy.deepcopy(self._model).to(_DTYPES[precision])
        return TransformerEncoder(model, self._tokenizer, self.reading, self._origin, self.device)

    def encode(self, sentences: Sentences) -> list[NDArray[np.float32]]:
        """Return the features (L, D) of each sentence."""
        features = [np.zeros((len(s), self.dimension), np.float32) for s in sentences]
        for batch in plan_batches(sentences):
            group = [sentences[index] for index in batch]
            ends = np.cumsum([len(sentence) for sentence in group])
            parts = np.split(self._encode_group(group), ends[:-1])
            for index, part in zip(batch, parts, strict=True):
                features[index] = part
        return features

    def _encode_group(self, group: Sentences) -> NDArray[np.float32]:
        """Return the features of all words of some sentences (W, D)."""
        windows: list[Window] = []
        word_of_row: list[NDArray[np.int64]] = []
        num_rows = num_words = 0
        found = split_into_pieces(self._tokenizer, group, self.reading)
        for (pieces, word_of), sentence in zip(found, group, strict=True):
            windows += cut(pieces, word_of, self.reading.capacity, self.reading.overlap, num_rows)
            word_of_row.append(word_of + num_words)
            num_rows, num_words = num_rows + len(pieces), num_words + len(sentence)
        rows_RD = np.empty((num_rows, self.dimension), np.float32)
        for batch in self._batches(windows):
            rows = np.concatenate([window.rows for window in batch])
            rows_RD[rows] = self._read(batch).numpy()
        return means(rows_RD, np.concatenate(word_of_row), num_words)

    def _batches(self, windows: Sequence[Window]) -> Iterator[list[Window]]:
        """Yield windows of like length together; a GPU takes more at once, padding and all."""
        num_special = self.reading.num_special
        for batch in batched(windows, num_special):
            if self.device.type == "cpu":
                yield from by_length(batch, num_special, SHORTER_READ, GROUP_PIECES_READ)
            else:
                yield batch

    @torch.inference_mode()
    def _read(self, windows: Sequence[Window]) -> Tensor:
        """Return the features of the pieces that are taken from the windows, on the CPU."""
        reading = self.reading
        pieces_BT, is_piece_BT, cells = lay_out(
            windows, reading.before, reading.after, reading.padding
        )
        output = self._model(
            input_ids=torch.from_numpy(pieces_BT).to(self.device),
            attention_mask=torch.from_numpy(is_piece_BT).to(self.device),
            output_hidden_states=True,
        )
        chosen = torch.from_numpy(cells).to(self.device)
        states = [output.hidden_states[layer].flatten(0, 1)[chosen] for layer in reading.layers]
        return torch.stack(states).float().mean(dim=0).cpu()
