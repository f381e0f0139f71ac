"""The forms of a layer, side by side in one record: forward, per-unit gradient, ONNX.

A tagger is a list of stages: sources (word vectors, characters, ...) read the batch, each gives a
part of what every token is made of; encoders follow one another, each reads the parts before it and
gives one; the last gives the emissions, which a decoder reads. Training, DP-SGD and the ONNX export
walk that list, and find what to do at each stage by the type of its layer.

What lies behind a sentence's end is zero where a source gives it, and where a layer reads it that
looks around its tokens (`window`); elsewhere it may be anything.

Shapes: B sentences, L tokens, K tags, D features.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fedner.errors import FednerError
from fedner.models.features import Batch
from fedner.models.onnx_writer import GraphWriter
from fedner.models.per_unit.tap import Tap

Parts = Sequence[Tensor]  # what every token is made of: (B, L, D_i) each
# The layer itself stands first in every form: `Any`, because each form knows its own type alone.
Forward = Callable[[Any, Parts, Batch], Tensor]
PerUnit = Callable[[Any, str, Parts, Batch], tuple[Tensor, list[Tap]]]
Onnx = Callable[[Any, GraphWriter, Sequence[str]], str]
SentenceGradients = Callable[[Any, Tensor, Tensor, Tensor], tuple[Tensor, dict[str, Tensor]]]
ChainScores = Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Missing:
    """A form that a layer does not have.

    Attributes:
        why: Why it has none; empty where nobody wrote it yet.
        hint: What users can do.
    """

    why: str = ""
    hint: str = ""


NOT_WRITTEN = Missing()


def _one(layer: nn.Module) -> int:  # noqa: ARG001 - every layer is asked in the same way
    return 1


@dataclass(frozen=True, slots=True)
class LayerForms:
    """Everything that fedner needs to know about one type of layer.

    >>> import fedner
    >>> forms = fedner.LayerForms("doubled", forward=lambda layer, parts, batch: 2 * parts[0])
    >>> forms.onnx  # not written yet: an export would be refused, by name
    Missing(why='', hint='')

    Attributes:
        name: Its name in recipes and checkpoints.
        forward: Takes the layer, the outputs of the parts before it and the batch; returns the
            features of every token (B, L, D). A source gets no parts.
        per_unit: The same for DP-SGD: takes the layer, its dotted name, the parts and the batch;
            returns the same features and the taps of its parameters (`per_unit.tap`). The features
            of a token may depend only on its own sentence, to the last bit: multiply with
            `per_unit.products`, and use its `elementwise` for rounded functions such as sigmoid.
        onnx: The same in ONNX operators: takes the layer, the graph and the names of the parts;
            returns the name of the features.
        is_source: Whether it reads the batch instead of parts.
        window: How many neighbouring tokens one value reads; 1 means only the token itself.
        padding_rows: By the name of a table, its row for padding: it stays zero.
        keeps_first_values: Whether its parameters begin as the layer made them, which must be the
            same on every platform; otherwise they are drawn by name and seed.
        build: Makes the layer from its input size and the settings of its recipe; a layer's
            `dimension_out` says how many features it returns.
    """

    name: str
    forward: Forward
    per_unit: PerUnit | Missing = NOT_WRITTEN
    onnx: Onnx | Missing = NOT_WRITTEN
    is_source: bool = False
    window: Callable[[Any], int] = _one
    padding_rows: Mapping[str, int] = field(default_factory=dict)
    keeps_first_values: bool = False
    build: Callable[..., nn.Module] | None = None


@dataclass(frozen=True, slots=True)
class DecoderForms:
    """All that fedner knows of one type of decoder, beyond its methods.

    Attributes:
        name: What recipes call it.
        sentence_gradients: From the decoder, emissions, gold tags and lengths to the gradients of
            each sentence's negative log-likelihood: at the emissions (B, L, K), and by name those
            of the trained parameters (B, ...).
        chain_scores: The scores of beginning, ending and stepping, as JSON, where the decoder is a
            chain: what an export carries beside its graph.
    """

    name: str
    sentence_gradients: SentenceGradients | Missing = NOT_WRITTEN
    chain_scores: ChainScores | Missing = NOT_WRITTEN


def joined(parts: Parts) -> Tensor:
    """Return what every token is made of in one piece (B, L, D).

    Raises:
        FednerError: There is no part.
    """
    if not parts:
        raise FednerError(
            "a layer reads the features of tokens, but nothing comes before it",
            "Give the embeddings at least one source, or mark the layer as one (is_source).",
        )
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=-1)


def trained_names(layer: nn.Module, prefix: str) -> dict[str, str]:
    """Return the trained parameters: their own dotted names to those of the tagger."""
    return {
        name: f"{prefix}.{name}" for name, each in layer.named_parameters() if each.requires_grad
    }
