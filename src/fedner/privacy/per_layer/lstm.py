"""Per-unit gradients of a (stacked) BiLSTM from the gradients of its gates.

For one direction of one layer, with gate gradients g_t, inputs x_t and earlier states h_(t-1): the
gradients are sum_t g_t x_t^T, sum_t g_t h_(t-1)^T and, for both biases, sum_t g_t. The squared norm
over all four is the sum over s and t of (g_s.g_t)(x_s.x_t + h_(s-1).h_(t-1) + 2).

Shapes: B sentences, L tokens, R rows of tokens, M tokens of a row, E = 2 directions, H hidden
units, G = 4H gates, D features in, N tokens, X = E G.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fedner.models.encoders import BiLSTM, TokenLayout
from fedner.privacy.per_layer.products import product
from fedner.privacy.per_layer.recurrence import recurrence, states_before
from fedner.privacy.per_layer.tap import (
    Factors,
    Measured,
    Tap,
    Totals,
    direct_sizes,
    gram,
    gram_sizes,
    is_gram_cheaper,
    tapped,
    token_slices,
)
from fedner.privacy.per_layer.units import Sizes, Units

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

    x_ND = x_BLD.flatten(0, 1).index_select(0, layout.cells_N)
    biases = torch.cat(both("bias_ih")).add_(torch.cat(both("bias_hh")))
    projected_NX = product(x_ND, torch.cat(both("weight_ih")).t(), biases)
    is_trained = any(each.weight_ih or each.weight_hh or each.biases for each in directions)
    if is_trained:
        projected_NX = tapped(projected_NX)
    is_side_by_side = x_BLD.device.type != "cpu"
    hidden_NEH = recurrence(
        projected_NX, torch.stack(both("weight_hh")), layout, is_side_by_side=is_side_by_side
    )
    hidden_BLH = _spread(hidden_NEH.flatten(1), layout)
    if not is_trained:
        return hidden_BLH, None
    measure = partial(_measure, x_ND.detach(), hidden_NEH.detach(), directions, layout)
    return hidden_BLH, Tap(projected_NX, measure)


def _spread(values_NX: Tensor, layout: TokenLayout) -> Tensor:
    """Return values of packed tokens as those of a batch, 0 where there is no token."""
    shape = layout.places_BL.shape
    empty_NX = values_NX.new_zeros(shape.numel(), values_NX.shape[1])
    return empty_NX.index_copy(0, layout.cells_N, values_NX).view(*shape, -1)


def _measure(
    x_ND: Tensor,
    hidden_NEH: Tensor,
    directions: list[_Names],
    layout: TokenLayout,
    gradient_NX: Tensor,
    units: Units,
) -> Measured:
    gradient_NEG = gradient_NX.view(*hidden_NEH.shape[:2], -1)
    before_NEH = states_before(hidden_NEH, layout)
    sizes = [
        _sizes(
            units.packed_rows(x_ND, layout.places_BL, chunk),
            units.packed_rows(before_NEH, layout.places_BL, chunk),
            units.packed_rows(gradient_NEG, layout.places_BL, chunk),
            directions,
        )
        for chunk in units.chunks()
    ]
    unit_N = units.unit_B[layout.cells_N // layout.places_BL.shape[1]]

    def add_weighted(factors: Factors, totals: Totals) -> None:
        for some in token_slices(unit_N):
            wide_ND = factors.widen(x_ND[some], unit_N[some])
            for direction, names in enumerate(directions):
                scaled_GN = factors.scale(gradient_NEG[some, direction], unit_N[some]).t()
                if names.weight_ih is not None:
                    totals[names.weight_ih].addmm_(scaled_GN, wide_ND)
                if names.weight_hh is not None:
                    wide_NH = factors.widen(before_NEH[some, direction], unit_N[some])
                    totals[names.weight_hh].addmm_(scaled_GN, wide_NH)
                summed_G = scaled_GN.sum(1)
                for name in names.biases:
                    totals[name].add_(summed_G)

    return Measured(units.by_unit(sizes), add_weighted)


def _sizes(
    x_RMD: Tensor, before_RMEH: Tensor, gradient_RMEG: Tensor, directions: list[_Names]
) -> Sizes:
    """Return the sizes of some rows over all that both directions train."""
    num_gates, num_inputs = gradient_RMEG.shape[3], x_RMD.shape[2] + before_RMEH.shape[3]
    is_gram = is_gram_cheaper(x_RMD.shape[1], num_gates, num_inputs)
    x_gram_RMM = gram(x_RMD) if is_gram else None
    found = []
    for direction, names in enumerate(directions):
        gradient_RMG, before_RMH = gradient_RMEG[:, :, direction], before_RMEH[:, :, direction]
        num_biases = len(names.biases)
        if x_gram_RMM is not None:
            products_RMM = torch.full_like(x_gram_RMM, float(num_biases))
            if names.weight_ih is not None:
                products_RMM += x_gram_RMM
            if names.weight_hh is not None:
                products_RMM += gram(before_RMH)
            found.append(gram_sizes(gram(gradient_RMG), products_RMM))
            continue
        inputs = [x_RMD] if names.weight_ih is not None else []
        inputs += [before_RMH] if names.weight_hh is not None else []
        found.append(direct_sizes(gradient_RMG, inputs, num_biases))
    return Sizes(*(torch.stack(parts).sum(0) for parts in zip(*found, strict=True)))
