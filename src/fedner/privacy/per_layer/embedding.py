"""Per-unit gradients of a trained word table: for each unit the sums over its own rows.

Shapes: B sentences, L tokens, N cells of the batch, P pairs of a unit and a row that it uses, U
units, D numbers a word.
"""

from functools import partial

import torch
from torch import Tensor

from fedner.models.embeddings.words import PADDING_ROW
from fedner.privacy.per_layer.tap import Factors, Measured, Tap, Totals, squared_sum, tapped
from fedner.privacy.per_layer.units import Units


def tap_word_table(name: str, rows_BL: Tensor, vectors_BLD: Tensor) -> Tap:
    """Return the tap of a word table; `rows_BL` says which row stands where."""
    return Tap(tapped(vectors_BLD), partial(_measure, name, rows_BL))


def _measure(name: str, rows_BL: Tensor, gradient_BLD: Tensor, units: Units) -> Measured:
    unit_P, row_P, sums_PD = pair_sums(rows_BL, gradient_BLD, units)
    # As in the plain step, the row for no word is never trained.
    sums_PD.masked_fill_((row_P == PADDING_ROW).unsqueeze(1), 0.0)
    squares_U = sums_PD.new_zeros(units.num_units, dtype=torch.float64)
    squares_U.index_add_(0, unit_P, squared_sum(sums_PD))

    def add_weighted(factors: Factors, totals: Totals) -> None:
        totals[name].index_add_(0, row_P, factors.scale(sums_PD, unit_P))

    return Measured(squares_U, add_weighted)


def pair_sums(keys_BL: Tensor, gradient_BLD: Tensor, units: Units) -> tuple[Tensor, Tensor, Tensor]:
    """Sum the gradient over all cells of a unit that have the same key.

    Returns:
        The unit and the key of each pair that occurs, and its sum.
    """
    num_keys = int(keys_BL.max()) + 1
    pair_BL = units.unit_B.unsqueeze(1) * num_keys + keys_BL
    pair_P, place_N = torch.unique(pair_BL, return_inverse=True)
    sums_PD = gradient_BLD.new_zeros(len(pair_P), gradient_BLD.shape[2])
    sums_PD.index_add_(0, place_N.flatten(), gradient_BLD.flatten(0, 1))
    return pair_P // num_keys, pair_P % num_keys, sums_PD
