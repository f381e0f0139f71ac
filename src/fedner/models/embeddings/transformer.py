"""Words in context by a Hugging Face encoder: frozen, from a local folder, nothing cut off.

A word is the mean of its pieces (sub-tokens), a piece the mean of the chosen layers; a word that
gives no piece (an empty one, a control character) is zero. A sentence with more pieces than the
encoder takes is read through windows that overlap, and every word is taken from the window in which
it stands farthest from an edge that cuts text off.

Only safetensors are loaded, code from the folder never runs, and the network is used only where
`online=True` asks for it.

Shapes: B windows, T pieces of the longest, W words, D features.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
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
)
from fedner.models.embeddings.transformer_windows import Window, batched, cut, means

Precision = Literal["float32", "float16", "bfloat16"]

USUAL_WINDOW = 512
# What averaging takes by default, as Devlin et al. 2019 found best for features that stay frozen.
USUAL_LAYERS = 4
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# Whether a tokenizer sees words as they stand inside a text is told by a leading blank.
_BLANK_MATTERS = "ByteLevel"


@dataclass(frozen=True, slots=True)
class Reading:
    """How an encoder is read.

    Attributes:
        layers: The layers to average; 0 is what the first layer sees.
        window: Pieces that it takes at a time, its own special ones included.
        overlap: Pieces that neighbouring windows share at least.
        before: The special pieces at the beginning.
        after: The special pieces at the end.
        padding: The piece that fills short windows up.
        leading_blank: Whether the tokenizer wants a blank before every word.
    """

    layers: tuple[int, ...]
    window: int
    overlap: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    padding: int
    leading_blank: bool

    @property
    def num_special(self) -> int:
        """How many special pieces a window has."""
        return len(self.before) + len(self.after)

    @property
    def capacity(self) -> int:
        """How many pieces of text a window has room for."""
        return self.window - self.num_special


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
        with _quiet(transformers):
            model, config = _load_model(transformers, folder, _DTYPES[precision])
            wrapper = _load_tokenizer(transformers, folder)
        tokenizer = wrapper.backend_tokenizer
        reading = _reading(model, config, wrapper, layers, window, overlap)
        origin = EmbeddingOrigin(
            "transformer",
            folder.resolve().name if Path(source).is_dir() else str(source),
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
        return hashlib.sha256(json.dumps(self._origin.to_json()).encode()).hexdigest()

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
        blank = " " if self.reading.leading_blank else ""
        words = [[blank + _sound(word) if word else "" for word in words] for words in group]
        encodings = self._tokenizer.encode_batch(
            words, is_pretokenized=True, add_special_tokens=False
        )
        windows: list[Window] = []
        word_of_row: list[NDArray[np.int64]] = []
        num_rows = num_words = 0
        for encoding, sentence in zip(encodings, group, strict=True):
            pieces = np.asarray(encoding.ids, dtype=np.int64)
            word_of = np.asarray(encoding.word_ids, dtype=np.int64)
            windows += cut(pieces, word_of, self.reading.capacity, self.reading.overlap, num_rows)
            word_of_row.append(word_of + num_words)
            num_rows, num_words = num_rows + len(pieces), num_words + len(sentence)
        rows_RD = np.empty((num_rows, self.dimension), np.float32)
        for batch in batched(windows, self.reading.num_special):
            rows = np.concatenate([window.rows for window in batch])
            rows_RD[rows] = self._read(batch).numpy()
        return means(rows_RD, np.concatenate(word_of_row), num_words)

    @torch.inference_mode()
    def _read(self, windows: Sequence[Window]) -> Tensor:
        """Return the features of the pieces that are taken from the windows, on the CPU."""
        reading = self.reading
        longest = max(len(window.pieces) for window in windows) + reading.num_special
        pieces_BT = np.full((len(windows), longest), reading.padding, np.int64)
        is_piece_BT = np.zeros((len(windows), longest), np.int64)
        cells = []
        for row, window in enumerate(windows):
            line = np.concatenate([reading.before, window.pieces, reading.after])
            pieces_BT[row, : len(line)] = line
            is_piece_BT[row, : len(line)] = 1
            cells.append(row * longest + len(reading.before) + window.taken)
        output = self._model(
            input_ids=torch.from_numpy(pieces_BT).to(self.device),
            attention_mask=torch.from_numpy(is_piece_BT).to(self.device),
            output_hidden_states=True,
        )
        chosen = torch.from_numpy(np.concatenate(cells)).to(self.device)
        states = [output.hidden_states[layer].flatten(0, 1)[chosen] for layer in reading.layers]
        return torch.stack(states).float().mean(dim=0).cpu()


def _sound(word: str) -> str:
    """Replace halves of surrogate pairs, which no tokenizer can read."""
    return word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@contextmanager
def _quiet(transformers: ModuleType) -> Iterator[None]:
    """Keep the library's bars and reports off the screen, and its random draws from others."""
    talk = transformers.utils.logging
    verbosity, has_bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    talk.set_verbosity_error()
    talk.disable_progress_bar()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        talk.set_verbosity(verbosity)
        if has_bars:
            talk.enable_progress_bar()


def _load_model(
    transformers: ModuleType, folder: Path, dtype: torch.dtype
) -> tuple[nn.Module, Any]:
    """Return the encoder and its configuration."""
    try:
        model, report = transformers.AutoModel.from_pretrained(
            str(folder),
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    except Exception as error:
        raise FednerError(
            f"{folder} is no encoder that transformers {transformers.__version__} loads: {error}",
            "The folder may be damaged, made by a newer version, or need code of its own, which "
            "fedner never runs.",
        ) from error
    # The pooler makes one vector of a sentence; words do not pass through it.
    missing = sorted(name for name in report["missing_keys"] if "pooler." not in name)
    if missing:
        raise FednerError(
            f"{folder}: the weights lack {len(missing)} tensors, such as {missing[0]}",
            "Give the folder of a whole encoder, with the config.json that it was saved with.",
        )
    config = model.config
    encoder: nn.Module = model.get_encoder() if config.is_encoder_decoder else model
    return encoder, config


def _load_tokenizer(transformers: ModuleType, folder: Path) -> Any:
    """Return the tokenizer as transformers wraps it; it neither truncates nor pads."""
    try:
        wrapper = transformers.AutoTokenizer.from_pretrained(
            str(folder), use_fast=True, trust_remote_code=False, local_files_only=True
        )
    except Exception as error:
        raise FednerError(
            f"{folder} has no tokenizer that transformers {transformers.__version__} loads: "
            f"{error}",
            "Copy the whole folder of the encoder, tokenizer.json included.",
        ) from error
    if not wrapper.is_fast:
        raise FednerError(
            f"{folder}: its tokenizer does not tell which piece belongs to which word",
            "Save it as a fast tokenizer (tokenizer.json).",
        )
    wrapper.backend_tokenizer.no_truncation()
    wrapper.backend_tokenizer.no_padding()
    return wrapper


def _reading(
    model: nn.Module,
    config: Any,
    wrapper: Any,
    layers: Sequence[int] | str | None,
    window: int | None,
    overlap: int | None,
) -> Reading:
    """Return how the encoder is read, the settings checked against what it is."""
    longest = _longest(model, config, wrapper)
    probe = wrapper.backend_tokenizer.encode(["a"], is_pretokenized=True)
    inside = [place for place, word in enumerate(probe.word_ids) if word is not None]
    before, after = tuple(probe.ids[: inside[0]]), tuple(probe.ids[inside[-1] + 1 :])
    chosen = longest if window is None else window
    capacity = chosen - len(before) - len(after)
    shared = chosen // 4 if overlap is None else overlap
    if not (chosen <= longest and 0 <= shared < capacity):
        raise FednerError(
            f"window {chosen} with overlap {shared}: the encoder takes at most {longest} pieces, "
            f"{len(before) + len(after)} of them special, and the overlap must leave room",
            f"Choose a window of at most {longest} and an overlap well below it.",
        )
    padding = next((p for p in (config.pad_token_id, wrapper.pad_token_id) if p is not None), 0)
    splitting = json.loads(wrapper.backend_tokenizer.to_str()).get("pre_tokenizer")
    return Reading(
        _layers(layers, int(config.num_hidden_layers)),
        chosen,
        shared,
        before,
        after,
        int(padding),
        _BLANK_MATTERS in json.dumps(splitting),
    )


def _longest(model: nn.Module, config: Any, wrapper: Any) -> int:
    """Return how many pieces the encoder takes at a time."""
    limits = [int(wrapper.model_max_length)]  # an absurdly large number where nobody set it
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # RoBERTa and its kin count positions from behind the padding.
        for name, module in model.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
                skipped = -1 if module.padding_idx is None else module.padding_idx
                positions = min(positions, module.num_embeddings - skipped - 1)
        limits.append(positions)
    longest = min(limits)
    return longest if longest < 1 << 20 else USUAL_WINDOW


def _layers(wanted: Sequence[int] | str | None, number: int) -> tuple[int, ...]:
    """Return the chosen layers counted from below."""
    if wanted is None:
        return tuple(range(max(1, number + 1 - USUAL_LAYERS), number + 1))
    try:
        chosen = [
            int(layer) for layer in (wanted.split(",") if isinstance(wanted, str) else wanted)
        ]
    except ValueError:
        chosen = []
    counted = sorted({layer + number + 1 if layer < 0 else layer for layer in chosen})
    if not counted or counted[0] < 0 or counted[-1] > number:
        raise FednerError(
            f"layers {wanted!r}: the encoder has {number}",
            f"Choose from 0 (below the first) to {number}, or -1 for the last.",
        )
    return tuple(counted)
