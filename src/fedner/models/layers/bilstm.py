"""One or more bidirectional LSTM layers.

They give what `nn.LSTM` gives, with its parameters under its names, but launch no kernel token by
token to pack sentences.

For one direction of one layer, with gate gradients g_t, inputs x_t and earlier states h_(t-1): the
gradients are sum_t g_t x_t^T, sum_t g_t h_(t-1)^T and, for both biases, sum_t g_t. The squared norm
over all four is the sum over s and t of (g_s.g_t)(x_s.x_t + h_(s-1).h_(t-1) + 2). The recurrence
that gives the gradients of the gates stands in `recurrence`.

Shapes: B sentences, L tokens, R rows of tokens, M tokens of a row, E = 2 directions, H hidden
units, G = 4H gates, D features in, N tokens, X = E G.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from fedner.models.features import Batch, TokenLayout
from fedner.models.layers.dropout import Dropout
from fedner.models.layers.forms import LayerForms, Parts, joined
from fedner.models.layers.recurrence import recurrence, states_before
from fedner.models.onnx_writer import INT32, GraphWriter, to_array
from fedner.models.per_unit.products import product
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
    token_slices,
)
from fedner.models.per_unit.units import Sizes, Units

_SUFFIXES = ("", "_reverse")
# On a CPU torch takes this much longer for a packed token than for a token of a full batch.
_PACKED_COST = 1.4


class BiLSTM(nn.Module):
    """One or more bidirectional LSTM layers; what lies behind a sentence's end is never read.

    Attributes:
        lstm: The fused implementation, whose parameter names are part of checkpoints.
    """

    def __init__(self, dimension: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.dimension_out = 2 * hidden
        self.lstm = nn.LSTM(
            dimension,
            hidden,
            num_layers=layers,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=True,
            batch_first=True,
        )
        self.between = Dropout(dropout)

    def forward(self, x_BLD: Tensor, layout: TokenLayout) -> Tensor:
        """Encode sentences of falling length; what comes out behind an end means nothing."""
        num_packed, num_cells = len(layout.cells_N), layout.places_BL.numel()
        is_dense = x_BLD.device.type == "cpu" and num_cells < _PACKED_COST * num_packed
        if layout.sizes_L is None or is_dense:
            return self._encode_padded(x_BLD, layout)
        return self._encode_packed(x_BLD, layout, layout.sizes_L)

    def _encode_packed(self, x_BLD: Tensor, layout: TokenLayout, sizes_L: Tensor) -> Tensor:
        # Packing by one lookup each way: torch's own packing launches kernels token by token.
        tokens_ND = x_BLD.flatten(0, 1).index_select(0, layout.cells_N)
        encoded, _ = self.lstm(PackedSequence(tokens_ND, sizes_L))
        empty_NH = encoded.data.new_zeros(layout.places_BL.numel(), self.dimension_out)
        encoded_NH: Tensor = empty_NH.index_copy(0, layout.cells_N, encoded.data)
        return encoded_NH.view(*layout.places_BL.shape, -1)

    def _encode_padded(self, x_BLD: Tensor, layout: TokenLayout) -> Tensor:
        """Run both directions over padded sentences, each of which begins with its own first token.

        The sentences of the backward direction are mirrored within their own length, so that
        padding comes last there too.
        """
        for layer in range(self.lstm.num_layers):
            x_BLD = x_BLD if layer == 0 else self.between(x_BLD)
            mirrored_BLD = _at(x_BLD.flatten(0, 1), layout.mirrored_BL)
            forward_BLH = self._run(x_BLD, f"l{layer}")
            backward_BLH = self._run(mirrored_BLD, f"l{layer}_reverse")
            backward_BLH = _at(backward_BLH.flatten(0, 1), layout.mirrored_BL)
            x_BLD = torch.cat([forward_BLH, backward_BLH], dim=-1)
        return x_BLD

    def _run(self, x_BLD: Tensor, suffix: str) -> Tensor:
        """Run one direction of one layer from the first cell of each sentence to the last."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = [getattr(self.lstm, f"{kind}_{suffix}") for kind in kinds]
        zero_1BH = x_BLD.new_zeros(1, len(x_BLD), self.lstm.hidden_size)
        out_BLH: Tensor = torch.lstm(
            x_BLD, (zero_1BH, zero_1BH), weights, True, 1, 0.0, self.training, False, True
        )[0]
        return out_BLH


def _at(values_ND: Tensor, places_BL: Tensor) -> Tensor:
    """Return the values at each place."""
    return values_ND.index_select(0, places_BL.flatten()).view(*places_BL.shape, -1)


@dataclass(frozen=True, slots=True)
class _Names:
    """What one direction of a layer trains, by the names of the tagger; None where frozen."""

    weight_ih: str | None
    weight_hh: str | None
    biases: tuple[str, ...]


def _tap(bilstm: BiLSTM, prefix: str, parts: Parts, batch: Batch) -> tuple[Tensor, list[Tap]]:
    """Return what the BiLSTM gives, and the taps of its layers."""
    x_BLD, taps = joined(parts), []
    for layer in range(bilstm.lstm.num_layers):
        x_BLD = x_BLD if layer == 0 else bilstm.between(x_BLD)
        directions = [_names(bilstm, prefix, f"l{layer}{suffix}") for suffix in _SUFFIXES]
        x_BLD, tap = _tap_layer(bilstm, layer, directions, x_BLD, batch.layout)
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


def _forward(bilstm: BiLSTM, parts: Parts, batch: Batch) -> Tensor:
    encoded_BLH: Tensor = bilstm(joined(parts), batch.layout)
    return encoded_BLH


def _onnx(bilstm: BiLSTM, graph: GraphWriter, parts: Sequence[str]) -> str:
    """Write the stacked layers; each direction begins at the sentence's own end (B, L, 2H)."""
    lengths_B = graph.op("Cast", graph.read("lengths"), to=INT32)
    flat = graph.constant([0, 0, -1])
    x_LBD = graph.op("Transpose", graph.joined(parts), perm=[1, 0, 2])
    hidden_size = bilstm.lstm.hidden_size
    for layer in range(bilstm.lstm.num_layers):
        weights = [graph.constant(each) for each in _onnx_weights(bilstm.lstm, layer)]
        inputs = [x_LBD, *weights, lengths_B]
        out_L2BH = graph.op("LSTM", *inputs, direction="bidirectional", hidden_size=hidden_size)
        out_LB2H = graph.op("Transpose", out_L2BH, perm=[0, 2, 1, 3])
        x_LBD = graph.op("Reshape", out_LB2H, flat)
    return graph.op("Transpose", x_LBD, perm=[1, 0, 2])


def _onnx_weights(lstm: nn.LSTM, layer: int) -> list[NDArray[np.float32]]:
    """Return input weights, recurrent weights and biases of both directions, as ONNX has them."""

    def of(kind: str) -> NDArray[np.float32]:
        names = [f"{kind}_l{layer}{suffix}" for suffix in _SUFFIXES]
        return np.stack([_onnx_gates(to_array(lstm.get_parameter(name))) for name in names])

    biases = np.concatenate([of("bias_ih"), of("bias_hh")], axis=1)
    return [of("weight_ih"), of("weight_hh"), biases]


def _onnx_gates(gates: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the gates in the order of ONNX (input, output, forget, cell); torch has i, f, c, o."""
    entrance, forget, cell, exit_ = np.split(gates, 4)
    return np.concatenate([entrance, exit_, forget, cell])


FORMS = LayerForms("BiLSTM", _forward, _tap, _onnx, build=BiLSTM)
