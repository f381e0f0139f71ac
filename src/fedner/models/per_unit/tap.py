"""What a layer hands to DP-SGD: where to take its gradient, and what to make of it.

A layer is tapped where its parameters enter: at the values z that they give. From the gradient at z
and the layer's inputs follow the squared norm of each unit's gradient, without that gradient ever
being stored, and afterwards the sum of all of them, each times its own factor.

Whoever sends the weights may choose them so that huge terms cancel: then a float32 norm is far too
small, and even a float64 one is wrong. So all that follows from the tokens' own values is computed
in float64, and beside its norm every layer reports its *mass*: the sum of the norms of the terms
that a unit's gradient is added up from. Rounding errs by about 1e-16 times the mass, so a bound on
the mass (`dpsgd`) is a bound on what rounding can do.

Shapes: B sentences, L tokens, U units, R rows (units with their tokens side by side), M tokens of a
row, G gradient numbers a token, D input numbers a token.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedner.models.per_unit.units import Sizes, Units

Totals = dict[str, Tensor]  # in float64
_CPU_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Factors:
    """What each unit's gradient is multiplied with: at most 1, and 0 for a unit that is lost.

    A unit is lost if its gradient is not finite. Zero times infinity is not zero, so its values
    are taken out rather than multiplied away.

    Attributes:
        factor_U: The factor of each unit, in float64.
        lost_U: Which units are lost; None where none is.
    """

    factor_U: Tensor
    lost_U: Tensor | None

    def scale(self, values: Tensor, unit_N: Tensor) -> Tensor:
        """Return values (N, ...) in float64, each times the factor of the unit it belongs to."""
        shape = (len(unit_N), *[1] * (values.dim() - 1))
        factor_N = self.factor_U[unit_N].view(shape)
        return self._without_lost(values.to(torch.float64, copy=True).mul_(factor_N), unit_N)

    def widen(self, values: Tensor, unit_N: Tensor) -> Tensor:
        """Return values (N, ...) in float64, 0 where they belong to a lost unit."""
        if self.lost_U is None:
            return values.double()
        return self._without_lost(values.to(torch.float64, copy=True), unit_N)

    def _without_lost(self, owned: Tensor, unit_N: Tensor) -> Tensor:
        if self.lost_U is not None:
            owned.masked_fill_(self.lost_U[unit_N].view(-1, *[1] * (owned.dim() - 1)), 0.0)
        return owned


@dataclass(frozen=True, slots=True)
class Measured:
    """A layer whose gradient has arrived.

    Attributes:
        sizes_U: Norm and mass of each unit's gradient.
        add_weighted: Adds the weighted sum of the units' gradients to named totals.
    """

    sizes_U: Sizes
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


def token_slices(unit_N: Tensor) -> Iterator[slice]:
    """Yield tokens to be added together: on a CPU as many as its caches hold in float64."""
    size = _CPU_TOKENS if unit_N.device.type == "cpu" else max(1, len(unit_N))
    for start in range(0, len(unit_N), size):
        yield slice(start, start + size)


def is_gram_cheaper(num_tokens: int, gradient_size: int, input_size: int) -> bool:
    """Whether M x M products of tokens cost less than a unit's gradient itself."""
    return num_tokens * (gradient_size + input_size) < gradient_size * input_size


def gram(values_RMD: Tensor) -> Tensor:
    """Return the products of every token of a row with every other (R, M, M), in float64."""
    wide_RMD = values_RMD.double()
    return torch.bmm(wide_RMD, wide_RMD.transpose(1, 2))


def gram_sizes(gradient_gram_RMM: Tensor, input_gram_RMM: Tensor) -> Sizes:
    """Return the sizes of sum_t g_t x_t^T: its square is the sum of (g_s.g_t)(x_s.x_t)."""
    # Rounding may leave a small negative number where the gradients of the tokens cancel.
    squares_R = (gradient_gram_RMM * input_gram_RMM).sum((1, 2)).clamp_min_(0.0)
    terms_RM = gradient_gram_RMM.diagonal(dim1=1, dim2=2) * input_gram_RMM.diagonal(dim1=1, dim2=2)
    return Sizes(squares_R, terms_RM.sqrt().sum(1))


def direct_sizes(gradient_RMG: Tensor, inputs: Sequence[Tensor], num_biases: int = 0) -> Sizes:
    """Return the sizes of sum_t g_t x_t^T over all inputs, by that product itself.

    Args:
        gradient_RMG: The gradient of each token.
        inputs: The inputs (R, M, D_i) of the weights.
        num_biases: How many biases get the same gradient: inputs of a constant 1.
    """
    wide_RMG = gradient_RMG.double()
    squares_R = wide_RMG.sum(1).square().sum(1).mul_(num_biases)
    terms_RM = torch.full_like(wide_RMG[..., 0], float(num_biases))
    for input_RMD in inputs:
        wide_RMD = input_RMD.double()
        squares_R += squared_sum(torch.bmm(wide_RMG.transpose(1, 2), wide_RMD))
        terms_RM += wide_RMD.square().sum(2)
    masses_R = (wide_RMG.square().sum(2) * terms_RM).sqrt().sum(1)
    return Sizes(squares_R, masses_R)


def squared_sum(values: Tensor) -> Tensor:
    """Return the sum of squares of each row (R, ...), in float64."""
    return values.flatten(1).double().square().sum(1)


def norm_rows(values: Tensor) -> Tensor:
    """Return the norm of each row (R, ...), in float64."""
    return squared_sum(values).sqrt()
