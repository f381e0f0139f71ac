"""The recurrence of a bidirectional LSTM whose backward pass gives the gradients of the gates.

    gates_t = projected_t + W_hh h_(t-1)        projected = W_ih x + b_ih + b_hh
    c_t = f_t c_(t-1) + i_t g_t                 h_t = o_t tanh(c_t)

The gradient at `projected` is that of the gates: with it, the gradients of all LSTM parameters are
sums over the tokens of products with x_t and h_(t-1) (SCIENCE: point 7). torch's fused LSTM keeps
it to itself, so the recurrence is written down here. On a CPU it works in place: the buffer of the
projections becomes that of the gates and, going back, that of their gradients.

Tokens are packed (all first tokens, then all second ones, ...; sentences of falling length), so
that the sentences which have a token t are one block and begin with those that have a token t + 1.
There is no padding that anything could leak through. On a CPU each direction runs by itself over
these blocks. On an accelerator both run side by side, the backward one mirrored within each
sentence, so that it too has its longest sentences first.

Shapes: B sentences, E = 2 directions, H hidden units, G = 4H gates (input, forget, cell, output, as
torch orders them), N packed tokens, n tokens of one step, X = E G.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fedner.models.features import TokenLayout
from fedner.models.per_unit.products import (
    add_paired_product_,
    add_product_,
    by_output,
    paired_product,
)

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


def recurrence(
    projected_NX: Tensor, weights_EGH: Tensor, layout: TokenLayout, *, is_side_by_side: bool
) -> Tensor:
    """Return the hidden states (N, E, H); differentiable once, in the projections alone.

    Args:
        projected_NX: The projections of all tokens for both directions. They may be overwritten
            (nobody may read them afterwards), so they must be no view of anything: autograd would
            trace the writing.
        weights_EGH: W_hh of both directions.
        layout: Where the tokens lie.
        is_side_by_side: Whether both directions run at once, as suits an accelerator.
    """
    hidden_NEH: Tensor = _Recurrence.apply(  # type: ignore[no-untyped-call]
        projected_NX, weights_EGH, layout, is_side_by_side
    )
    return hidden_NEH


class _Recurrence(torch.autograd.Function):
    """Joins the two passes of either form to autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        projected_NX: Tensor,
        weights_EGH: Tensor,
        layout: TokenLayout,
        is_side_by_side: bool,
    ) -> Tensor:
        """Run the recurrence."""
        ctx.weights_EGH, ctx.layout = weights_EGH, layout
        projected_NEG = projected_NX.detach().view(len(projected_NX), 2, -1)
        run = run_side_by_side if is_side_by_side else run_packed
        hidden_NEH, ctx.kept = run(projected_NEG, weights_EGH, layout)
        return hidden_NEH

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, into_hidden_NEH: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradients of the gates."""
        kept, ctx.kept = ctx.kept, None
        back = back_packed if isinstance(kept, Packed) else back_side_by_side
        gradient_NEG = back(kept, into_hidden_NEH, ctx.weights_EGH, ctx.layout)
        return gradient_NEG.flatten(1), None, None, None


def following(layout: TokenLayout) -> tuple[Tensor, int]:
    """Return for each packed token that follows another the place of that one; the rest come first.

    Returns:
        The places, for all tokens but the first of each sentence, and how many those first are.
    """
    num_first = len(layout.places_BL)
    return layout.places_BL.flatten()[layout.cells_N[num_first:] - 1], num_first


def states_before(states_NEH: Tensor, layout: TokenLayout) -> Tensor:
    """Return for each packed token the state that its step began with; 0 at a beginning."""
    place_P, num_first = following(layout)
    before_NEH = torch.zeros_like(states_NEH)
    before_NEH[num_first:, 0] = states_NEH[:, 0].index_select(0, place_P)
    before_NEH[:, 1].index_copy_(0, place_P, states_NEH[num_first:, 1])
    return before_NEH


class Packed(NamedTuple):
    """What the backward pass over packed tokens needs."""

    gates_NEG: Tensor
    cells_NEH: Tensor
    squashed_NEH: Tensor  # tanh of the cells


def _sizes(layout: TokenLayout) -> list[int]:
    """Return how many sentences have a first, second, ... token."""
    if layout.sizes_L is None:
        raise ValueError("a layout without sizes has no packed tokens")
    sizes: list[int] = layout.sizes_L.tolist()
    return sizes


def _blocks(values_NX: Tensor, sizes: list[int]) -> Sequence[Tensor]:
    """Return the values of all first tokens, of all second ones, and so on."""
    return torch.split(values_NX, sizes)


def _first(values_NX: Tensor, count: int) -> Tensor:
    return values_NX if len(values_NX) == count else values_NX[:count]


def run_packed(
    projected_NEG: Tensor, weights_EGH: Tensor, layout: TokenLayout
) -> tuple[Tensor, Packed]:
    """Run each direction by itself over packed tokens, in place."""
    sizes = _sizes(layout)
    hidden_NEH = projected_NEG.new_empty(*projected_NEG.shape[:2], weights_EGH.shape[2])
    cells_NEH, squashed_NEH = torch.empty_like(hidden_NEH), torch.empty_like(hidden_NEH)
    kept = Packed(projected_NEG, cells_NEH, squashed_NEH)
    for direction in (0, 1):
        _run_direction(kept, hidden_NEH, direction, weights_EGH[direction].t(), sizes)
    return hidden_NEH, kept


def _run_direction(
    kept: Packed, hidden_NEH: Tensor, direction: int, weight_HG: Tensor, sizes: list[int]
) -> None:
    gates, cells, squashed, hidden = (
        _blocks(each[:, direction], sizes) for each in (*kept, hidden_NEH)
    )
    parts = torch.split(kept.gates_NEG[:, direction], len(weight_HG), dim=1)
    entries, forgets, news, outs = (_blocks(part, sizes) for part in parts)
    previous = -1
    for token in range(len(sizes)) if direction == 0 else range(len(sizes) - 1, -1, -1):
        gate, cell, new, out = gates[token], cells[token], news[token], outs[token]
        # Sentences that have a token before this one in reading order; the others begin here.
        going_on = min(len(gate), sizes[previous]) if previous >= 0 else 0
        if going_on:
            add_product_(_first(gate, going_on), _first(hidden[previous], going_on), weight_HG)
        gate[:, : 2 * len(weight_HG)].sigmoid_()
        new.tanh_()
        out.sigmoid_()
        torch.mul(entries[token], new, out=cell)
        if going_on:
            earlier = _first(cells[previous], going_on)
            _first(cell, going_on).addcmul_(_first(forgets[token], going_on), earlier)
        torch.tanh(cell, out=squashed[token])
        torch.mul(out, squashed[token], out=hidden[token])
        previous = token


def back_packed(
    kept: Packed, into_hidden_NEH: Tensor, weights_EGH: Tensor, layout: TokenLayout
) -> Tensor:
    """Turn the gates into their gradients, in place.

    What the gradients at h_t and c_t are multiplied with is known for all tokens beforehand; only
    those two are carried from token to token.
    """
    sizes = _sizes(layout)
    gates_NEKH = kept.gates_NEG.view(*kept.gates_NEG.shape[:2], 4, -1)
    entry, forget, new, out = gates_NEKH.unbind(2)
    kept_forget_NEH = forget.clone()
    before_NEH = states_before(kept.cells_NEH, layout)
    into_cell_NEH = tanh_backward(out, kept.squashed_NEH, grad_input=kept.cells_NEH)
    sigmoid_backward(kept.squashed_NEH, out, grad_input=out)
    sigmoid_backward(before_NEH, forget, grad_input=forget)
    by_entry_NEH = sigmoid_backward(new, entry, grad_input=before_NEH)
    tanh_backward(entry, new, grad_input=new)
    entry.copy_(by_entry_NEH)
    for direction in (0, 1):
        parts = (gates_NEKH, kept_forget_NEH, into_cell_NEH, into_hidden_NEH)
        blocks = [_blocks(each[:, direction], sizes) for each in parts]
        _back_direction(blocks, direction, by_output(weights_EGH[direction]), sizes)
    return kept.gates_NEG


def _back_direction(
    blocks: list[Sequence[Tensor]], direction: int, weight_GH: Tensor, sizes: list[int]
) -> None:
    """Carry the gradients back along one direction; factors of the gates become gradients."""
    factors, forgets, into_cells, arriving = blocks
    carried = weight_GH.new_zeros(2, sizes[0], weight_GH.shape[1])
    later = -1
    for token in range(len(sizes)) if direction == 1 else range(len(sizes) - 1, -1, -1):
        rows, factor = sizes[token], factors[token]
        coming_back = min(rows, sizes[later]) if later >= 0 else 0
        into_hidden, into_cell = (_first(each, rows) for each in carried)
        into_hidden.copy_(arriving[token])
        if coming_back:
            gradient = _first(factors[later], coming_back).flatten(1)
            add_product_(_first(into_hidden, coming_back), gradient, weight_GH)
        if coming_back < rows:
            into_cell[coming_back:].zero_()
        into_cell.addcmul_(into_hidden, into_cells[token])
        factor[:, 3].mul_(into_hidden)
        factor[:, :3].mul_(into_cell.unsqueeze(1))
        into_cell.mul_(forgets[token])
        later = token


class SideBySide(NamedTuple):
    """What the backward pass on an accelerator needs, for each step."""

    gates: list[Tensor]
    cells: list[Tensor]  # before the first step, then after each


def run_side_by_side(
    projected_NEG: Tensor, weights_EGH: Tensor, layout: TokenLayout
) -> tuple[Tensor, SideBySide]:
    """Run both directions at once, each step over the sentences that have a token there."""
    steps_nEG = _blocks(_mirrored(projected_NEG, layout), _sizes(layout))
    forward, _ = _cells(projected_NEG.device)
    weights_EHG = weights_EGH.transpose(1, 2)
    hidden_nEH = projected_NEG.new_zeros(len(steps_nEG[0]), 2, weights_EGH.shape[2])
    cells, gates, hiddens = [hidden_nEH.flatten(0, 1)], [], []
    for step_nEG in steps_nEG:
        rows = len(step_nEG)
        recurrent_nEG = paired_product(hidden_nEH[:rows], weights_EHG)
        hidden, cell, gate = forward(
            step_nEG.flatten(0, 1), recurrent_nEG.flatten(0, 1), cells[-1][: 2 * rows]
        )
        hidden_nEH = hidden.view(rows, 2, -1)
        hiddens.append(hidden_nEH)
        cells.append(cell)
        gates.append(gate)
    return _mirrored(torch.cat(hiddens), layout), SideBySide(gates, cells)


def back_side_by_side(
    kept: SideBySide, into_hidden_NEH: Tensor, weights_EGH: Tensor, layout: TokenLayout
) -> Tensor:
    """Return the gradients of the gates."""
    arriving_nEH = _blocks(_mirrored(into_hidden_NEH, layout), _sizes(layout))
    _, backward = _cells(into_hidden_NEH.device)
    gradients: list[Tensor] = []
    into_cell = into_hidden_NEH.new_zeros(0, weights_EGH.shape[2])
    for step in range(len(arriving_nEH) - 1, -1, -1):
        into_nEH = arriving_nEH[step]
        if gradients:
            later_nEG = gradients[-1]
            add_paired_product_(into_nEH[: len(later_nEG)], later_nEG, weights_EGH)
        missing = 2 * len(into_nEH) - len(into_cell)
        gradient, into_cell = backward(
            into_nEH.flatten(0, 1),
            functional.pad(into_cell, (0, 0, 0, missing)) if missing else into_cell,
            kept.cells[step][: 2 * len(into_nEH)],
            kept.cells[step + 1],
            kept.gates[step],
        )
        gradients.append(gradient.view(len(into_nEH), 2, -1))
    gradients.reverse()
    return _mirrored(torch.cat(gradients), layout)


def _mirrored(values_NEX: Tensor, layout: TokenLayout) -> Tensor:
    """Return a copy with the backward direction mirrored within each sentence."""
    mirror_N = layout.places_BL.flatten()[layout.mirrored_BL.flatten()[layout.cells_N]]
    return torch.stack([values_NEX[:, 0], values_NEX[:, 1].index_select(0, mirror_N)], dim=1)


@functools.lru_cache
def _cells(device: torch.device) -> tuple[Any, Any]:
    """Return one step and its backward pass: torch's fused kernels where they do what they should.

    They are not part of torch's public interface, so they are tried against the plain ones first.
    """
    if device.type == "cuda":
        try:
            if _agree(device):
                return _fused, _fused_back
        except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
            pass
    return plain_cell, plain_cell_back


def _agree(device: torch.device) -> bool:
    """Whether the fused kernels give what the plain steps give."""
    draws = torch.linspace(-1.5, 1.5, 3 * 55, device=device).view(3, 55)
    sizes = [20, 20, 5, 5, 5]
    projected, recurrent, before, into_hidden, into_cell = (
        part.sin().contiguous() for part in torch.split(draws, sizes, dim=1)
    )
    fused, plain = _fused(projected, recurrent, before), plain_cell(projected, recurrent, before)
    fused_back = _fused_back(into_hidden, into_cell, before, *fused[1:])
    plain_back = plain_cell_back(into_hidden, into_cell, before, *plain[1:])
    pairs = zip(fused + fused_back, plain + plain_back, strict=True)
    return all(torch.allclose(a, b, atol=1e-5) for a, b in pairs)


def _fused(projected: Tensor, recurrent: Tensor, before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    hidden, cell, gates = torch.ops.aten._thnn_fused_lstm_cell(projected, recurrent, before)
    return hidden, cell, gates


def _fused_back(
    into_hidden: Tensor, into_cell: Tensor, before: Tensor, after: Tensor, gates: Tensor
) -> tuple[Tensor, Tensor]:
    gradient, into_before, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
        into_hidden, into_cell, before, after, gates, False
    )
    return gradient, into_before


def plain_cell(
    projected: Tensor, recurrent: Tensor, before: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return hidden state, cell and gates of one step."""
    entry, forget, new, out = (projected + recurrent).chunk(4, dim=1)
    entry, forget, new, out = entry.sigmoid(), forget.sigmoid(), new.tanh(), out.sigmoid()
    cell = forget * before + entry * new
    return out * cell.tanh(), cell, torch.cat((entry, forget, new, out), dim=1)


def plain_cell_back(
    into_hidden: Tensor, into_cell: Tensor, before: Tensor, after: Tensor, gates: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients at the gates and at the cell before."""
    entry, forget, new, out = gates.chunk(4, dim=1)
    squashed = after.tanh()
    into_cell = into_cell + into_hidden * out * (1 - squashed * squashed)
    gradients = (
        into_cell * new * entry * (1 - entry),
        into_cell * before * forget * (1 - forget),
        into_cell * entry * (1 - new * new),
        into_hidden * squashed * out * (1 - out),
    )
    return torch.cat(gradients, dim=1), into_cell * forget
