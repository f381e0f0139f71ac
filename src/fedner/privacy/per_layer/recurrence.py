"""The recurrence of a bidirectional LSTM whose backward pass gives the gradients of the gates.

    gates_t = projected_t + W_hh h_(t-1)        projected = W_ih x + b_ih + b_hh
    c_t = f_t c_(t-1) + i_t g_t                 h_t = o_t tanh(c_t)

The gradient at `projected` is that of the gates: with it, the gradients of all LSTM parameters are
sums over the tokens of products with x_t and h_(t-1) (SCIENCE: point 7). torch's fused LSTM keeps
it to itself, so the recurrence is written down here, in place: the buffer of the projections
becomes that of the gates and, going back, that of their gradients.

On a CPU each direction runs by itself over the sentences that have a token there (sentences are of
falling length: always the first few rows). On an accelerator both directions run side by side over
all rows, the backward one mirrored within each sentence, so that padding comes last in both.

Shapes: B sentences, L tokens, E = 2 directions, H hidden units, G = 4H gates (input, forget, cell,
output, as torch orders them), N = B L cells, X = E G.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fedner.models.encoders import TokenLayout

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


def recurrence(projected_NX: Tensor, weights_EGH: Tensor, layout: TokenLayout) -> Tensor:
    """Return the hidden states (B, L, E, H); differentiable once, in the projections alone.

    Args:
        projected_NX: The projections of all cells of the batch for both directions. They are
            overwritten (nobody may read them afterwards), so they must be no view of anything:
            autograd would trace the writing.
        weights_EGH: W_hh of both directions.
        layout: Where the tokens lie.
    """
    hidden_BLEH: Tensor = _Recurrence.apply(  # type: ignore[no-untyped-call]
        projected_NX, weights_EGH, layout
    )
    return hidden_BLEH


class _Recurrence(torch.autograd.Function):
    """Joins the two passes of whichever device to autograd."""

    @staticmethod
    def forward(ctx: Any, projected_NX: Tensor, weights_EGH: Tensor, layout: TokenLayout) -> Tensor:
        """Run the recurrence."""
        projected_BLEG = projected_NX.detach().view(*layout.places_BL.shape, 2, -1)
        if projected_NX.device.type == "cpu" and layout.sizes_L is not None:
            sizes: list[int] = layout.sizes_L.tolist()
            hidden_BLEH, ctx.kept = run_by_rows(projected_BLEG, weights_EGH, sizes)
        else:
            hidden_BLEH, ctx.kept = run_side_by_side(projected_BLEG, weights_EGH, layout)
        ctx.weights_EGH, ctx.layout = weights_EGH, layout
        return hidden_BLEH

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, into_hidden_BLEH: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradients of the gates."""
        into_hidden_BLEH = into_hidden_BLEH.contiguous()
        if isinstance(ctx.kept, ByRows):
            gradient_BLEG = back_by_rows(ctx.kept, into_hidden_BLEH, ctx.weights_EGH)
        else:
            gradient_BLEG = back_side_by_side(
                ctx.kept, into_hidden_BLEH, ctx.weights_EGH, ctx.layout
            )
        ctx.kept = None
        return gradient_BLEG.flatten(2).flatten(0, 1), None, None


class ByRows(NamedTuple):
    """What the backward pass on a CPU needs."""

    gates_BLEG: Tensor
    cells_BLEH: Tensor
    squashed_BLEH: Tensor  # tanh of the cells
    hidden_BLEH: Tensor
    sizes: Sequence[int]  # how many sentences have a first, second, ... token


def run_by_rows(
    projected_BLEG: Tensor, weights_EGH: Tensor, sizes: Sequence[int]
) -> tuple[Tensor, ByRows]:
    """Run each direction by itself, in place, over the rows that have a token."""
    hidden_BLEH = projected_BLEG.new_zeros(*projected_BLEG.shape[:3], weights_EGH.shape[2])
    cells_BLEH, squashed_BLEH = torch.empty_like(hidden_BLEH), torch.empty_like(hidden_BLEH)
    kept = ByRows(projected_BLEG, cells_BLEH, squashed_BLEH, hidden_BLEH, sizes)
    for direction in (0, 1):
        _run_direction(kept, direction, weights_EGH[direction].t())
    return hidden_BLEH, kept


def _run_direction(kept: ByRows, direction: int, weight_HG: Tensor) -> None:
    num_hidden, sizes = len(weight_HG), kept.sizes
    gates, cells, squashed, hidden = (each[:, :, direction].unbind(1) for each in kept[:4])
    previous = -1
    for token in range(len(sizes)) if direction == 0 else range(len(sizes) - 1, -1, -1):
        rows = sizes[token]
        # Rows that have a token before this one in reading order; the others begin here.
        going_on = min(rows, sizes[previous]) if previous >= 0 else 0
        gate, cell = gates[token][:rows], cells[token][:rows]
        if going_on:
            gate[:going_on].addmm_(hidden[previous][:going_on], weight_HG)
        entry, forget, new, out = torch.split(gate, num_hidden, dim=1)
        gate[:, : 2 * num_hidden].sigmoid_()
        new.tanh_()
        out.sigmoid_()
        torch.mul(entry, new, out=cell)
        if going_on:
            cell[:going_on].addcmul_(forget[:going_on], cells[previous][:going_on])
        torch.tanh(cell, out=squashed[token][:rows])
        torch.mul(out, squashed[token][:rows], out=hidden[token][:rows])
        previous = token


def back_by_rows(kept: ByRows, into_hidden_BLEH: Tensor, weights_EGH: Tensor) -> Tensor:
    """Turn the gates into their gradients, in place; 0 where there is no token."""
    for direction in (0, 1):
        _back_direction(kept, into_hidden_BLEH, direction, weights_EGH[direction])
    gradient_BLEG = kept.gates_BLEG
    for token, rows in enumerate(kept.sizes):
        if rows < len(gradient_BLEG):
            gradient_BLEG[rows:, token].zero_()
    return gradient_BLEG


def _back_direction(
    kept: ByRows, into_hidden_BLEH: Tensor, direction: int, weight_GH: Tensor
) -> None:
    num_hidden, sizes = weight_GH.shape[1], kept.sizes
    gates, cells, squashed = (each[:, :, direction].unbind(1) for each in kept[:3])
    arriving = into_hidden_BLEH[:, :, direction].unbind(1)
    into_hidden_BH, into_cell_BH, one_BH, other_BH = weight_GH.new_empty(
        4, len(into_hidden_BLEH), num_hidden
    ).unbind(0)
    order = range(len(sizes)) if direction == 1 else range(len(sizes) - 1, -1, -1)
    later, step = -1, order.step
    for token in order:
        rows, before = sizes[token], token + step
        come_back = min(rows, sizes[later]) if later >= 0 else 0
        going_on = min(rows, sizes[before]) if 0 <= before < len(sizes) else 0
        into_hidden, into_cell = into_hidden_BH[:rows], into_cell_BH[:rows]
        into_hidden.copy_(arriving[token][:rows])
        if come_back:
            into_hidden[:come_back].addmm_(gates[later][:come_back], weight_GH)
        into_cell[come_back:].zero_()
        entry, forget, new, out = torch.split(gates[token][:rows], num_hidden, dim=1)
        one, other, tanh_cell = one_BH[:rows], other_BH[:rows], squashed[token][:rows]
        torch.mul(into_hidden, out, out=one)
        tanh_backward(one, tanh_cell, grad_input=one)
        into_cell += one
        sigmoid_backward(into_hidden.mul_(tanh_cell), out, grad_input=out)
        torch.mul(into_cell, new, out=one)
        torch.mul(into_cell, entry, out=other)
        sigmoid_backward(one, entry, grad_input=entry)
        tanh_backward(other, new, grad_input=new)
        # The forget gate of a sentence's first token had nothing to forget.
        one[going_on:].zero_()
        if going_on:
            torch.mul(into_cell[:going_on], cells[before][:going_on], out=one[:going_on])
        into_cell.mul_(forget)
        sigmoid_backward(one, forget, grad_input=forget)
        later = token


class SideBySide(NamedTuple):
    """What the backward pass on an accelerator needs, for each step."""

    gates: list[Tensor]
    cells: list[Tensor]
    shape: tuple[int, int, int]


def run_side_by_side(
    projected_BLEG: Tensor, weights_EGH: Tensor, layout: TokenLayout
) -> tuple[Tensor, SideBySide]:
    """Run both directions at once over all rows; behind a sentence's end values mean nothing."""
    num_sentences, num_tokens, _, num_gates = projected_BLEG.shape
    num_hidden = num_gates // 4
    steps_LEBG = _mirrored(projected_BLEG, layout).permute(1, 2, 0, 3).contiguous()
    forward, _ = _cells(projected_BLEG.device)
    weights_EHG = weights_EGH.transpose(1, 2)
    cell = projected_BLEG.new_zeros(2 * num_sentences, num_hidden)
    hidden = cell
    hiddens, cells, gates = [], [cell], []
    for step_EBG in steps_LEBG:
        recurrent_EBG = torch.bmm(hidden.view(2, num_sentences, num_hidden), weights_EHG)
        hidden, cell, gate = forward(step_EBG.flatten(0, 1), recurrent_EBG.flatten(0, 1), cell)
        hiddens.append(hidden)
        cells.append(cell)
        gates.append(gate)
    hidden_LEBH = torch.stack(hiddens).view(num_tokens, 2, num_sentences, num_hidden)
    hidden_BLEH = _mirrored(hidden_LEBH.permute(2, 0, 1, 3), layout)
    return hidden_BLEH, SideBySide(gates, cells, (num_sentences, num_tokens, num_hidden))


def back_side_by_side(
    kept: SideBySide, into_hidden_BLEH: Tensor, weights_EGH: Tensor, layout: TokenLayout
) -> Tensor:
    """Return the gradients of the gates; 0 where there is no token, since 0 arrives there."""
    num_sentences, num_tokens, num_hidden = kept.shape
    into_LEBH = _mirrored(into_hidden_BLEH, layout).permute(1, 2, 0, 3).contiguous()
    _, backward = _cells(into_hidden_BLEH.device)
    into_hidden, into_cell = into_LEBH[-1], into_LEBH.new_zeros(2 * num_sentences, num_hidden)
    gradients: list[Tensor] = []
    for step in range(num_tokens - 1, -1, -1):
        gradient, into_cell = backward(
            into_hidden.flatten(0, 1),
            into_cell,
            kept.cells[step],
            kept.cells[step + 1],
            kept.gates[step],
        )
        gradients.append(gradient)
        if step:
            gradient_EBG = gradient.view(2, num_sentences, 4 * num_hidden)
            into_hidden = torch.baddbmm(into_LEBH[step - 1], gradient_EBG, weights_EGH)
    gradients.reverse()
    gradient_LEBG = torch.stack(gradients).view(num_tokens, 2, num_sentences, 4 * num_hidden)
    return _mirrored(gradient_LEBG.permute(2, 0, 1, 3), layout)


def _mirrored(values_BLEX: Tensor, layout: TokenLayout) -> Tensor:
    """Return the values with those of the backward direction mirrored within each sentence."""
    backward_NX = values_BLEX[:, :, 1].flatten(0, 1)
    mirrored_NX = backward_NX.index_select(0, layout.mirrored_BL.flatten())
    return torch.stack([values_BLEX[:, :, 0], mirrored_NX.view_as(values_BLEX[:, :, 0])], dim=2)


@functools.lru_cache
def _cells(device: torch.device) -> tuple[Any, Any]:
    """Return one step and its backward pass: torch's fused kernels where they do what they should.

    They are not part of torch's public interface, so they are tried against the plain ones first.
    """
    if device.type == "cuda":
        try:
            if _agree(device):
                return _fused, _fused_back
        except (AttributeError, NotImplementedError, RuntimeError, TypeError):
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
