"""What a layer hands to DP-SGD: where to take its gradient, and what to make of it.

A layer is tapped where its parameters enter: at the values z that they give. From the gradient at z
and the layer's inputs follow the squared norm of each unit's gradient, without that gradient ever
being stored, and afterwards the sum of all of them, each times its own factor.

Shapes: B sentences, L tokens, U units, R rows (units with their tokens side by side), M tokens of a
row, G gradient numbers a token, D input numbers a token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedner.privacy.per_layer.units import Units

Totals = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Factors:
    """What each unit's gradient is multiplied with: at most 1, and 0 for a unit that is lost.

    A unit is lost if its gradient is not finite. Zero times infinity is not zero, so its values
    are taken out rather than multiplied away.

    Attributes:
        factor_U: The factor of each unit.
        lost_U: Which units are lost; None where none is.
    """

    factor_U: Tensor
    lost_U: Tensor | None

    def scale(self, values: Tensor, unit_N: Tensor) -> Tensor:
        """Multiply values (N, ...), in place, with the factors of the units they belong to."""
        shape = (len(unit_N), *[1] * (values.dim() - 1))
        values.mul_(self.factor_U.to(values.dtype)[unit_N].view(shape))
        if self.lost_U is not None:
            values.masked_fill_(self.lost_U[unit_N].view(shape), 0.0)
        return values

    def without_lost(self, values: Tensor, unit_N: Tensor) -> Tensor:
        """Return values (N, ...) that are 0 where they belong to a lost unit."""
        if self.lost_U is None:
            return values
        shape = (len(unit_N), *[1] * (values.dim() - 1))
        return values.masked_fill(self.lost_U[unit_N].view(shape), 0.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """A layer whose gradient has arrived.

    Attributes:
        squares_U: The squared norm of each unit's gradient, in float64.
        add_weighted: Adds the weighted sum of the units' gradients to named totals; called once,
            since it may overwrite the gradient that it was made from.
    """

    squares_U: Tensor
    add_weighted: Callable[[Factors, Totals], None]


@dataclass(frozen=True, slots=True)
class Tap:
    """A layer in a forward pass.

    Attributes:
        output: The values z, at which the gradient of the loss is wanted.
        measure: From that gradient, which the layer may keep and overwrite.
    """

    output: Tensor
    measure: Callable[[Tensor, Units], Measured]


def tapped(values: Tensor) -> Tensor:
    """Return freshly computed values at which autograd can be asked for a gradient."""
    return values if values.requires_grad else values.requires_grad_()


def is_gram_cheaper(num_tokens: int, gradient_size: int, input_size: int) -> bool:
    """Whether M x M products of tokens cost less than a unit's gradient itself."""
    return num_tokens * (gradient_size + input_size) < gradient_size * input_size


def gram(values_RMD: Tensor) -> Tensor:
    """Return the products of every token of a row with every other (R, M, M)."""
    return torch.bmm(values_RMD, values_RMD.transpose(1, 2))


def gram_norms(gradient_gram_RMM: Tensor, input_gram_RMM: Tensor) -> Tensor:
    """Return (R) the squared norms of sum_t g_t x_t^T = sum over s, t of (g_s.g_t)(x_s.x_t)."""
    # Rounding may leave a small negative number where the gradients of the tokens cancel.
    squares_R = (gradient_gram_RMM * input_gram_RMM).sum((1, 2), dtype=torch.float64)
    return squares_R.clamp_min_(0.0)


def direct_norms(gradient_RMG: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """Return (R) the squared norms of sum_t g_t x_t^T over all inputs, by that product itself."""
    squares_R = gradient_RMG.new_zeros(len(gradient_RMG), dtype=torch.float64)
    for input_RMD in inputs:
        squares_R += squared_sum(torch.bmm(gradient_RMG.transpose(1, 2), input_RMD))
    return squares_R


def squared_sum(values: Tensor) -> Tensor:
    """Return the sum of squares of each row (R, ...) in float64."""
    return values.flatten(1).square().sum(1, dtype=torch.float64)
