"""Per-unit gradients of a (stacked) BiLSTM from the gradients of its gates.

For one direction of one layer, with gate gradients g_t, inputs x_t and earlier states h_(t-1): the
gradients are sum_t g_t x_t^T, sum_t g_t h_(t-1)^T and, for both biases, sum_t g_t. The squared norm
over all four is the sum over s and t of (g_s.g_t)(x_s.x_t + h_(s-1).h_(t-1) + 2).

Shapes: B sentences, L tokens, R rows of tokens, M tokens of a row, E = 2 directions, H hidden
units, G = 4H gates, D features in, N = B L cells, X = E G.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fedner.models.encoders import BiLSTM, TokenLayout
from fedner.privacy.per_layer.recurrence import recurrence
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

_SUFFIXES = ("", "_reverse")


@dataclass(frozen=True, slots=True)
class _Names:
    """What one direction of a layer trains, by the names of the tagger; None where frozen."""

    weight_ih: str | None
    weight_hh: str | None
    biases: tuple[str, ...]


def tap_bilstm(
    bilstm: BiLSTM, prefix: str, x_BLD: Tensor, layout: TokenLayout
) -> tuple[Tensor, list[Tap]]:
    """Return what the BiLSTM gives, and the taps of its layers."""
    taps = []
    for layer in range(bilstm.lstm.num_layers):
        x_BLD = x_BLD if layer == 0 else bilstm.between(x_BLD)
        directions = [_names(bilstm, prefix, f"l{layer}{suffix}") for suffix in _SUFFIXES]
        x_BLD, tap = _tap_layer(bilstm, layer, directions, x_BLD, layout)
        taps += [] if tap is None else [tap]
    return x_BLD, taps


def _names(bilstm: BiLSTM, prefix: str, suffix: str) -> _Names:
    def trained(kind: str) -> str | None:
        name = f"{kind}_{suffix}"
        is_trained = bilstm.lstm.get_parameter(name).requires_grad
        return f"{prefix}.lstm.{name}" if is_trained else None

    biases = [trained(kind) for kind in ("bias_ih", "bias_hh")]
    return _Names(
        trained("weight_ih"), trained("weight_hh"), tuple(name for name in biases if name)
    )


def _tap_layer(
    bilstm: BiLSTM, layer: int, directions: list[_Names], x_BLD: Tensor, layout: TokenLayout
) -> tuple[Tensor, Tap | None]:
    def both(kind: str) -> list[Tensor]:
        names = [f"{kind}_l{layer}{suffix}" for suffix in _SUFFIXES]
        return [bilstm.lstm.get_parameter(name).detach() for name in names]

    biases = torch.cat(both("bias_ih")).add_(torch.cat(both("bias_hh")))
    projected_NX = torch.addmm(biases, x_BLD.flatten(0, 1), torch.cat(both("weight_ih")).t())
    is_trained = any(each.weight_ih or each.weight_hh or each.biases for each in directions)
    if is_trained:
        projected_NX = tapped(projected_NX)
    hidden_BLEH = recurrence(projected_NX, torch.stack(both("weight_hh")), layout)
    if not is_trained:
        return hidden_BLEH.flatten(2), None
    measure = partial(_measure, x_BLD.detach(), hidden_BLEH.detach(), directions, layout)
    return hidden_BLEH.flatten(2), Tap(projected_NX, measure)


def _measure(
    x_BLD: Tensor,
    hidden_BLEH: Tensor,
    directions: list[_Names],
    layout: TokenLayout,
    gradient_NX: Tensor,
    units: Units,
) -> Measured:
    gradient_BLEG = gradient_NX.view(*hidden_BLEH.shape[:3], -1)
    before_BLEH = _states_before(hidden_BLEH, layout)
    squares = [
        _norms(
            units.rows(x_BLD, chunk),
            units.rows(before_BLEH, chunk),
            units.rows(gradient_BLEG, chunk),
            directions,
        )
        for chunk in units.chunks()
    ]

    def add_weighted(factors: Factors, totals: Totals) -> None:
        scaled_NEG = factors.scale(gradient_BLEG, units.unit_B).flatten(0, 1)
        x_ND = factors.without_lost(x_BLD, units.unit_B).flatten(0, 1)
        before_NEH = factors.without_lost(before_BLEH, units.unit_B).flatten(0, 1)
        for direction, names in enumerate(directions):
            scaled_GN = scaled_NEG[:, direction].t()
            if names.weight_ih is not None:
                totals[names.weight_ih].addmm_(scaled_GN, x_ND)
            if names.weight_hh is not None:
                totals[names.weight_hh].addmm_(scaled_GN, before_NEH[:, direction])
            if names.biases:
                summed_G = scaled_GN.sum(1)
                for name in names.biases:
                    totals[name].add_(summed_G)

    return Measured(units.by_unit(torch.cat(squares)), add_weighted)


def _states_before(hidden_BLEH: Tensor, layout: TokenLayout) -> Tensor:
    """Return for each token the state that the step at it began with; 0 at a beginning."""
    before_BLEH = torch.zeros_like(hidden_BLEH)
    before_BLEH[:, 1:, 0] = hidden_BLEH[:, :-1, 0]
    before_BLEH[:, :-1, 1] = hidden_BLEH[:, 1:, 1]
    # The last token of a sentence stands opposite its first; behind it lies whatever.
    is_last_BL = layout.mirrored_BL % hidden_BLEH.shape[1] == 0
    before_BLEH[:, :, 1].masked_fill_(is_last_BL.unsqueeze(2), 0.0)
    return before_BLEH


def _norms(
    x_RMD: Tensor, before_RMEH: Tensor, gradient_RMEG: Tensor, directions: list[_Names]
) -> Tensor:
    """Return the squared norms of some rows over all that both directions train."""
    num_gates, num_inputs = gradient_RMEG.shape[3], x_RMD.shape[2] + before_RMEH.shape[3]
    is_gram = is_gram_cheaper(x_RMD.shape[1], num_gates, num_inputs)
    x_gram_RMM = gram(x_RMD) if is_gram else None
    squares_R = x_RMD.new_zeros(len(x_RMD), dtype=torch.float64)
    for direction, names in enumerate(directions):
        gradient_RMG = gradient_RMEG[:, :, direction]
        before_RMH = before_RMEH[:, :, direction]
        if x_gram_RMM is not None:
            products_RMM = torch.full_like(x_gram_RMM, float(len(names.biases)))
            if names.weight_ih is not None:
                products_RMM += x_gram_RMM
            if names.weight_hh is not None:
                products_RMM.baddbmm_(before_RMH, before_RMH.transpose(1, 2))
            squares_R += gram_norms(gram(gradient_RMG), products_RMM)
            continue
        inputs = [x_RMD] if names.weight_ih is not None else []
        inputs += [before_RMH] if names.weight_hh is not None else []
        squares_R += direct_norms(gradient_RMG, inputs)
        squares_R += len(names.biases) * squared_sum(gradient_RMG.sum(1))
    return squares_R
