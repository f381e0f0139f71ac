"""The LSTM recurrence of DP-SGD, in both of its forms, against torch's own LSTM."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fedner.models.features import TokenLayout, _layout
from fedner.models.layers.recurrence import (
    back_packed,
    back_side_by_side,
    plain_cell,
    plain_cell_back,
    recurrence,
    run_packed,
    run_side_by_side,
)

pytestmark = pytest.mark.usefixtures("_one_thread")


@pytest.fixture(scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def layout_of(lengths: Sequence[int]) -> TokenLayout:
    falling = np.asarray(sorted(lengths, reverse=True))
    mask = np.arange(falling[0]) < falling[:, None]
    parts = [torch.from_numpy(each) for each in _layout(falling, mask)]
    return TokenLayout(*parts, torch.from_numpy(mask.sum(axis=0)))


def with_torch(
    lstm: nn.LSTM, x_BLD: Tensor, arriving: Tensor, lengths: list[int]
) -> tuple[Tensor, list[Tensor]]:
    packed = nn.utils.rnn.pack_padded_sequence(x_BLD, torch.tensor(lengths), batch_first=True)
    out, _ = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)
    return out, list(torch.autograd.grad((out * arriving).sum(), list(lstm.parameters())))


RUNS: dict[str, Any] = {
    "packed": (run_packed, back_packed),
    "side by side": (run_side_by_side, back_side_by_side),
}


@pytest.mark.parametrize("form", sorted(RUNS))
@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    dimension=st.integers(1, 7),
    hidden=st.integers(1, 9),
    seed=st.integers(0, 999),
)
def test_states_and_gradients_are_those_of_torch(
    form: str, lengths: list[int], dimension: int, hidden: int, seed: int
) -> None:
    torch.manual_seed(seed)
    lengths = sorted(lengths, reverse=True)
    layout, shape = layout_of(lengths), (len(lengths), lengths[0])
    lstm = nn.LSTM(dimension, hidden, batch_first=True, bidirectional=True)
    x_BLD = torch.randn(*shape, dimension)
    mask_BL1 = (torch.arange(shape[1]) < torch.tensor(lengths)[:, None]).unsqueeze(2)
    arriving = torch.randn(*shape, 2 * hidden) * mask_BL1
    expected, gradients = with_torch(lstm, x_BLD, arriving, lengths)
    weight = torch.cat([lstm.weight_ih_l0, lstm.weight_ih_l0_reverse])
    bias = torch.cat([lstm.bias_ih_l0, lstm.bias_ih_l0_reverse])
    bias = bias + torch.cat([lstm.bias_hh_l0, lstm.bias_hh_l0_reverse])
    projected = (x_BLD.flatten(0, 1) @ weight.t() + bias).detach().view(*shape, 2, -1)
    recurrent = torch.stack([lstm.weight_hh_l0, lstm.weight_hh_l0_reverse]).detach()
    into = arriving.view(*shape, 2, hidden)
    with torch.no_grad():
        run, back = RUNS[form]
        projected_NEG = projected.flatten(0, 1)[layout.cells_N]
        hidden_NEH, kept = run(projected_NEG, recurrent, layout)
        gates_NEG = back(kept, into.flatten(0, 1)[layout.cells_N], recurrent, layout)
    hidden_BLEH = hidden_NEH[layout.places_BL]
    gates_BLEG = gates_NEG[layout.places_BL] * mask_BL1.unsqueeze(3)
    found = hidden_BLEH.flatten(2)
    torch.testing.assert_close(found * mask_BL1, expected * mask_BL1, rtol=1e-4, atol=1e-6)
    for direction, own in enumerate((gradients[:4], gradients[4:])):
        gate_NG = gates_BLEG[:, :, direction].flatten(0, 1)
        torch.testing.assert_close(gate_NG.t() @ x_BLD.flatten(0, 1), own[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(gate_NG.sum(0), own[2], rtol=1e-4, atol=1e-5)


def test_the_cell_goes_back_as_autograd_does() -> None:
    draws = [torch.randn(5, size, dtype=torch.float64, requires_grad=True) for size in (12, 12, 3)]
    hidden, cell, gates = plain_cell(*draws)
    into_hidden, into_cell = torch.randn_like(hidden), torch.randn_like(cell)
    expected = torch.autograd.grad((hidden, cell), [draws[0], draws[2]], (into_hidden, into_cell))
    found = plain_cell_back(into_hidden, into_cell, draws[2], cell, gates)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_it_is_differentiable_once_and_only_in_the_projections() -> None:
    layout = layout_of([3, 2])
    projected_NX = torch.randn(5, 16, requires_grad=True)
    weights_EGH = torch.randn(2, 8, 2)
    hidden_NEH = recurrence(projected_NX, weights_EGH, layout, is_side_by_side=True)
    assert hidden_NEH.requires_grad
    fixed = recurrence(torch.randn(5, 16), weights_EGH, layout, is_side_by_side=False)
    assert not fixed.requires_grad
    gradient = torch.autograd.grad(hidden_NEH[:2].sum(), projected_NX)[0]
    assert gradient.shape == projected_NX.shape
