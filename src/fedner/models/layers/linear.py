"""A linear layer, token by token; the gradients of a unit are sum_t g_t x_t^T and sum_t g_t.

Shapes: B sentences, L tokens, R rows of tokens, M tokens of a row, K outputs, D inputs.
"""

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from fedner.models.features import Batch
from fedner.models.layers.forms import LayerForms, Parts, joined, trained_names
from fedner.models.onnx_writer import GraphWriter
from fedner.models.per_unit.products import batch_product
from fedner.models.per_unit.tap import (
    Factors,
    Measured,
    Tap,
    Totals,
    direct_sizes,
    gram,
    gram_sizes,
    is_gram_cheaper,
    tapped,
)
from fedner.models.per_unit.units import Sizes, Units


def _forward(layer: nn.Linear, parts: Parts, _batch: Batch) -> Tensor:
    output_BLK: Tensor = layer(joined(parts))
    return output_BLK


def tap_linear(
    layer: nn.Linear, prefix: str, parts: Parts, _batch: Batch
) -> tuple[Tensor, list[Tap]]:
    """Return what the layer gives, and its tap if it trains anything."""
    x_BLD = joined(parts)
    fixed = {name: each.detach() for name, each in layer.named_parameters()}
    output_BLK = batch_product(x_BLD, fixed["weight"].t(), fixed.get("bias"))
    names = trained_names(layer, prefix)
    if not names:
        return output_BLK, []
    return output_BLK, [Tap(tapped(output_BLK), partial(measure_linear, x_BLD.detach(), names))]


def measure_linear(
    x_BLD: Tensor, names: dict[str, str], gradient_BLK: Tensor, units: Units
) -> Measured:
    """Measure the gradients sum_t g_t x_t^T of a weight and sum_t g_t of a bias.

    Args:
        x_BLD: What the layer reads.
        names: Of what is trained, "weight" and "bias", the names in the tagger.
        gradient_BLK: The gradient at what the layer gives.
        units: The units of the batch.
    """
    sizes = [
        _sizes(units.rows(gradient_BLK, chunk), units.rows(x_BLD, chunk), names)
        for chunk in units.chunks()
    ]

    def add_weighted(factors: Factors, totals: Totals) -> None:
        scaled_NK = factors.scale(gradient_BLK, units.unit_B).flatten(0, 1)
        if "weight" in names:
            x_ND = factors.widen(x_BLD, units.unit_B).flatten(0, 1)
            totals[names["weight"]].addmm_(scaled_NK.t(), x_ND)
        if "bias" in names:
            totals[names["bias"]].add_(scaled_NK.sum(0))

    return Measured(units.by_unit(sizes), add_weighted)


def _sizes(gradient_RMK: Tensor, x_RMD: Tensor, names: dict[str, str]) -> Sizes:
    has_bias = int("bias" in names)
    if "weight" not in names:
        return direct_sizes(gradient_RMK, [], has_bias)
    if is_gram_cheaper(x_RMD.shape[1], gradient_RMK.shape[2], x_RMD.shape[2]):
        return gram_sizes(gram(gradient_RMK), gram(x_RMD).add_(has_bias))
    return direct_sizes(gradient_RMK, [x_RMD], has_bias)


def _onnx(layer: nn.Linear, graph: GraphWriter, parts: Sequence[str]) -> str:
    return graph.linear(graph.joined(parts), layer.weight, layer.bias)


FORMS = LayerForms("linear", _forward, tap_linear, _onnx)
