"""Sums over the cells of a unit that look up the same thing: a row of a table, or a word.

Shapes: B sentences, L tokens, N cells of the batch, P pairs of a unit and a key that it uses, U
units, D numbers a key.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fedner.models.per_unit.units import Units


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
