"""A training step on a CUDA device as a few recorded graphs instead of hundreds of launches.

An LSTM launches kernels token by token: on a fast GPU the host, not the device, then sets the pace.
Here everything from embeddings to emissions, forward and backward, is recorded once for each padded
shape and replayed with new inputs. Batches are padded up to a small number of shapes; padding
changes no result. The decoder stays outside: it looks at its numbers to decide how to reckon.

Shapes: B sentences, L tokens, U distinct words, C characters, D features, K tags.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedner.models.features import Batch, TokenLayout
from fedner.models.tagger import Tagger

LENGTH_STEP, WORDS_STEP, CHARACTERS_STEP = 4, 256, 8
# Each recording holds the activations of its shape in memory that all recordings share.
MOST_GRAPHS = 64

Inputs = tuple[Tensor, ...]
_NO_SENTENCES = np.zeros(0, dtype=np.int64)


class _Emissions(nn.Module):
    """From the tensors of a batch to emissions: a tagger without its decoder."""

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        for name, module in tagger.named_children():
            if module is not tagger.decoder:
                self.add_module(name, module)
        self._tagger = [tagger]  # in a list: its decoder is not to be one of our modules

    def forward(
        self,
        word_BL: Tensor,
        mirrored_BL: Tensor,
        vectors_UD: Tensor,
        characters_UC: Tensor,
        *context: Tensor,
    ) -> Tensor:
        layout = TokenLayout(word_BL, word_BL, mirrored_BL, None)
        cell_L = torch.arange(word_BL.shape[1], device=word_BL.device)
        # The first token of a sentence is mirrored to its last one.
        lengths_B = mirrored_BL[:, 0] % word_BL.shape[1] + 1
        batch = Batch(
            sentences=_NO_SENTENCES,
            lengths_B=lengths_B,
            mask_BL=cell_L < lengths_B.unsqueeze(1),
            word_BL=word_BL,
            rows_U=word_BL,
            vectors_UD=vectors_UD,
            characters_UC=characters_UC,
            context_BLD=context[0] if context else None,
            tags_BL=None,
            layout=layout,
        )
        return Tagger.forward(self._tagger[0], batch)


@dataclass(slots=True)
class GraphedTagger:
    """Emissions of a tagger on a CUDA device, recorded for each shape that comes along.

    Attributes:
        tagger: The tagger, in training mode, with a frozen word table.
        recorded: The recordings by shape.
    """

    tagger: Tagger
    recorded: dict[tuple[tuple[int, ...], ...], nn.Module] = field(default_factory=dict)
    _pool: Any = None  # torch keeps the type of its memory pools to itself

    @staticmethod
    def fits(tagger: Tagger, device: torch.device) -> bool:
        """Whether a tagger can be recorded: on CUDA, with as many rows whatever the words are."""
        embeddings = tagger.embeddings
        is_fixed = embeddings.encoder is None and not embeddings.words.trainable
        return device.type == "cuda" and is_fixed

    def emissions(self, batch: Batch) -> Tensor:
        """Return the emissions of a batch (B, L, K), differentiable as those of the tagger."""
        inputs = _padded(batch)
        shapes = tuple(tuple(tensor.shape) for tensor in inputs)
        if shapes not in self.recorded:
            if len(self.recorded) >= MOST_GRAPHS:
                eager: Tensor = self.tagger(batch)
                return eager
            self.recorded[shapes] = self._record(inputs)
        emissions_BLK: Tensor = self.recorded[shapes](*inputs)
        return emissions_BLK[:, : batch.word_BL.shape[1]]

    def _record(self, inputs: Inputs) -> nn.Module:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        module = _Emissions(self.tagger).train(self.tagger.training)
        samples = tuple(tensor.clone() for tensor in inputs)
        with warnings.catch_warnings():
            # cuDNN wants the weights of both directions as one block; copying them is cheap.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
            # Recording computes on a stream of its own, whatever ran before.
            warnings.filterwarnings("ignore", message="The AccumulateGrad node's stream does not")
            recorded = torch.cuda.make_graphed_callables(
                module, samples, allow_unused_input=True, pool=self._pool
            )
        if not isinstance(recorded, nn.Module):
            raise TypeError(f"recording gave a {type(recorded).__name__}")
        return recorded


def _padded(batch: Batch) -> Inputs:
    """Return the tensors of a batch padded up to a shape that many batches share."""
    num_sentences, length = batch.word_BL.shape
    full = _up(length, LENGTH_STEP)
    word_BL = functional.pad(batch.word_BL, (0, full - length))
    # Cells are counted anew in the longer rows; cells without a token mirror themselves.
    first_B1 = torch.arange(num_sentences, device=word_BL.device).unsqueeze(1)
    token_L = torch.arange(full, device=word_BL.device)
    mirrored_BL = (first_B1 * full + token_L).contiguous()
    mirrored_BL[:, :length] = batch.layout.mirrored_BL + first_B1 * (full - length)
    vectors_UD, characters_UC = batch.vectors_UD, batch.characters_UC
    if vectors_UD is None:
        raise TypeError("a trained word table cannot be recorded")
    more_words = _up(len(characters_UC), WORDS_STEP) - len(characters_UC)
    more_characters = _up(characters_UC.shape[1], CHARACTERS_STEP) - characters_UC.shape[1]
    inputs = (
        word_BL,
        mirrored_BL,
        functional.pad(vectors_UD, (0, 0, 0, more_words)),
        functional.pad(characters_UC, (0, more_characters, 0, more_words)),
    )
    if batch.context_BLD is None:
        return inputs
    return (*inputs, functional.pad(batch.context_BLD, (0, 0, 0, full - length)))


def _up(number: int, step: int) -> int:
    return -(-number // step) * step
