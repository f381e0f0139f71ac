"""Per-unit gradients of a linear layer: sum_t g_t x_t^T and sum_t g_t.

Shapes: B sentences, L tokens, R rows of tokens, M tokens of a row, K outputs, D inputs.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedner.privacy.per_layer.tap import (
    Factors,
    Measured,
    Tap,
    Totals,
    direct_norms,
    gram,
    gram_norms,
    is_gram_cheaper,
    squared_sum,
    tapped,
)
from fedner.privacy.per_layer.units import Units


def tap_linear(layer: nn.Linear, prefix: str, x_BLD: Tensor) -> tuple[Tensor, Tap | None]:
    """Return what the layer, which has a bias, gives, and its tap if it trains anything."""
    output_BLK = functional.linear(x_BLD, layer.weight.detach(), layer.bias.detach())
    trained = {name for name, each in layer.named_parameters() if each.requires_grad}
    if not trained:
        return output_BLK, None
    names = {name: f"{prefix}.{name}" for name in trained}
    return output_BLK, Tap(tapped(output_BLK), partial(_measure, x_BLD.detach(), names))


def _measure(x_BLD: Tensor, names: dict[str, str], gradient_BLK: Tensor, units: Units) -> Measured:
    squares = []
    for chunk in units.chunks():
        gradient_RMK = units.rows(gradient_BLK, chunk)
        squares_R = gradient_RMK.new_zeros(len(gradient_RMK), dtype=torch.float64)
        if "weight" in names:
            squares_R += _weight_norms(gradient_RMK, units.rows(x_BLD, chunk))
        if "bias" in names:
            squares_R += squared_sum(gradient_RMK.sum(1))
        squares.append(squares_R)

    def add_weighted(factors: Factors, totals: Totals) -> None:
        scaled_NK = factors.scale(gradient_BLK, units.unit_B).flatten(0, 1)
        if "weight" in names:
            x_ND = factors.without_lost(x_BLD, units.unit_B).flatten(0, 1)
            totals[names["weight"]].addmm_(scaled_NK.t(), x_ND)
        if "bias" in names:
            totals[names["bias"]].add_(scaled_NK.sum(0))

    return Measured(units.by_unit(torch.cat(squares)), add_weighted)


def _weight_norms(gradient_RMK: Tensor, x_RMD: Tensor) -> Tensor:
    if is_gram_cheaper(x_RMD.shape[1], gradient_RMK.shape[2], x_RMD.shape[2]):
        return gram_norms(gram(gradient_RMK), gram(x_RMD))
    return direct_norms(gradient_RMK, [x_RMD])
