"""The model and the tokenizer of a Hugging Face folder, and how the two are to be read.

Only safetensors are loaded, code from the folder never runs, and nothing is downloaded here.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedner.errors import FednerError

USUAL_WINDOW = 512
# What averaging takes by default, as Devlin et al. 2019 found best for features that stay frozen.
USUAL_LAYERS = 4
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


@contextmanager
def quiet(transformers: ModuleType) -> Iterator[None]:
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


def load_model(transformers: ModuleType, folder: Path, dtype: torch.dtype) -> tuple[nn.Module, Any]:
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
    return _encoder_of(model), model.config


def model_of_config(transformers: ModuleType, folder: Path) -> tuple[nn.Module, Any]:
    """Return an encoder as its configuration has it, with first values of no meaning."""
    try:
        config = transformers.AutoConfig.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
        model = transformers.AutoModel.from_config(
            config, trust_remote_code=False, dtype=torch.float32
        )
    except Exception as error:
        raise FednerError(
            f"{folder} describes no encoder that transformers {transformers.__version__} makes: "
            f"{error}",
            "The folder may be damaged, made by a newer version, or need code of its own, which "
            "fedner never runs.",
        ) from error
    return _encoder_of(model), model.config


def _encoder_of(model: Any) -> nn.Module:
    encoder: nn.Module = model.get_encoder() if model.config.is_encoder_decoder else model
    return encoder


def load_tokenizer(transformers: ModuleType, folder: Path) -> Any:
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
            f"{folder}: its tokenizer does not say which piece belongs to which word",
            "Save it as a fast tokenizer (tokenizer.json).",
        )
    wrapper.backend_tokenizer.no_truncation()
    wrapper.backend_tokenizer.no_padding()
    return wrapper


def reading_of(
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


def split_into_pieces(
    tokenizer: Any, sentences: Sequence[Sequence[str]], reading: Reading
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the pieces of each sentence, and which of its words each belongs to.

    Args:
        tokenizer: A tokenizers.Tokenizer that neither truncates nor pads.
        sentences: The words of each sentence; words may have no piece at all.
        reading: How the encoder is read.
    """
    blank = " " if reading.leading_blank else ""
    lines = [[blank + _sound(word) if word else "" for word in words] for words in sentences]
    for encoding in tokenizer.encode_batch(lines, is_pretokenized=True, add_special_tokens=False):
        yield np.asarray(encoding.ids, np.int64), np.asarray(encoding.word_ids, np.int64)


def _sound(word: str) -> str:
    """Replace halves of surrogate pairs, which no tokenizer can read."""
    return word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
