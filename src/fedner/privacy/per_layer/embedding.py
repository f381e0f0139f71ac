"""Per-unit gradients of a trained word table: for each unit the sums over its own rows.

Shapes: B sentences, L tokens, N cells of the batch, P pairs of a unit and a row that it uses, U
units, D numbers a word.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from fedner.models.embeddings.words import PADDING_ROW
from fedner.privacy.per_layer.tap import (
    Factors,
    Measured,
    Tap,
    Totals,
    squared_sum,
    tapped,
)
from fedner.privacy.per_layer.units import Sizes, Units


def tap_word_table(name: str, rows_BL: Tensor, vectors_BLD: Tensor) -> Tap:
    """Return the tap of a word table; `rows_BL` says which row stands where."""
    return Tap(tapped(vectors_BLD), partial(_measure, name, rows_BL))


def _measure(name: str, rows_BL: Tensor, gradient_BLD: Tensor, units: Units) -> Measured:
    # As in the plain step, the row for no word is never trained.
    gradient_BLD = gradient_BLD.masked_fill((rows_BL == PADDING_ROW).unsqueeze(2), 0.0)
    pairs = pair_sums(rows_BL, gradient_BLD, units)
    squares_U = pairs.sums_PD.new_zeros(units.num_units)
    squares_U.index_add_(0, pairs.unit_P, squared_sum(pairs.sums_PD))

    def add_weighted(factors: Factors, totals: Totals) -> None:
        totals[name].index_add_(0, pairs.key_P, factors.scale(pairs.sums_PD, pairs.unit_P))

    return Measured(Sizes(squares_U, token_masses(gradient_BLD, units)), add_weighted)


class Pairs(NamedTuple):
    """Sums over all cells of a unit that have the same key.

    Attributes:
        unit_P: The unit of each pair that occurs.
        key_P: Its key.
        sums_PD: Its sum, in float64.
    """

    unit_P: Tensor
    key_P: Tensor
    sums_PD: Tensor


def pair_sums(keys_BL: Tensor, gradient_BLD: Tensor, units: Units) -> Pairs:
    """Sum the gradient over all cells of a unit that have the same key."""
    num_keys = int(keys_BL.max()) + 1
    pair_BL = units.unit_B.unsqueeze(1) * num_keys + keys_BL
    pair_P, place_N = torch.unique(pair_BL, return_inverse=True)
    sums_PD = gradient_BLD.new_zeros(len(pair_P), gradient_BLD.shape[2], dtype=torch.float64)
    sums_PD.index_add_(0, place_N.flatten(), gradient_BLD.flatten(0, 1).double())
    return Pairs(pair_P // num_keys, pair_P % num_keys, sums_PD)


def token_masses(gradient_BLD: Tensor, units: Units) -> Tensor:
    """Return for each unit the sum of the norms of its tokens' gradients, in float64."""
    norms_BL = gradient_BLD.double().square().sum(2).sqrt()
    return units.sums(norms_BL.sum(1))
