"""What a token's context gives: features that were computed before, or an encoder that is trained.

Shapes: B sentences, L tokens, D features.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from fedner.models.embeddings.trained_encoder import TrainedEncoder
from fedner.models.features import Batch
from fedner.models.layers.forms import LayerForms, Missing, Parts
from fedner.models.onnx_writer import GraphWriter
from fedner.models.per_unit.tap import Tap


class PrecomputedContext(nn.Module):
    """The context features of a corpus as they are; there is nothing to train."""

    def forward(self, batch: Batch) -> Tensor:
        """Return the features of every token (B, L, D), 0 where there is none."""
        return batch.context_features


def _forward(context: PrecomputedContext, _parts: Parts, batch: Batch) -> Tensor:
    context_BLD: Tensor = context(batch)
    return context_BLD


def _tap(
    context: PrecomputedContext, _prefix: str, parts: Parts, batch: Batch
) -> tuple[Tensor, list[Tap]]:
    return _forward(context, parts, batch), []


def _onnx(_context: PrecomputedContext, graph: GraphWriter, _parts: Sequence[str]) -> str:
    return graph.read("context")


def _encode(encoder: TrainedEncoder, _parts: Parts, batch: Batch) -> Tensor:
    encoded_BLD: Tensor = encoder(batch.encoder_pieces)
    return encoded_BLD


FORMS = LayerForms("precomputed context", _forward, _tap, _onnx, is_source=True)
ENCODER_FORMS = LayerForms(
    "trained encoder",
    _encode,
    Missing(
        "the noise would destroy the weights of a pretrained encoder long before they learn "
        "anything",
        "Freeze it (requires_grad_(False)) and use its features as they are.",
    ),
    Missing(
        "a pretrained encoder is no part of an export",
        "Export taggers with precomputed context features, which are an input of the graph; "
        "trained context encoders cannot be exported.",
    ),
    is_source=True,
)
