"""Dropout that draws one random number for four values on a CPU, from any source of bits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

Draws = Callable[[int, torch.device], Tensor]


class Dropout(nn.Module):
    """Zero values with probability `rate` and scale up the others, in training only.

    On the CPU one 64-bit random number serves four values: torch spends most of a step's dropout
    on drawing one number per value. The rate is rounded to a multiple of 2^-16, the scale with it.

    Attributes:
        rate: The probability.
        draws: Where masks come from: `count` uniform 16-bit integers on a device; None for torch's
            own generators.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.draws: Draws | None = None
        self._dropped = round(rate * 65_536)

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f"rate={self.rate}"

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with values dropped."""
        if not self.training or self._dropped == 0:
            return x
        if self.draws is None and x.device.type != "cpu":
            return functional.dropout(x, self.rate)
        draws = (self.draws or _seeded_int16)(x.numel(), x.device)
        is_kept = draws >= self._dropped - 32_768
        return x * is_kept.view(x.shape) * (65_536 / (65_536 - self._dropped))


def _seeded_int16(count: int, device: torch.device) -> Tensor:
    """Return uniform 16-bit integers from torch's generator."""
    words = torch.empty((count + 3) // 4, dtype=torch.int64, device=device)
    return words.random_(-(2**63), None).view(torch.int16)[:count]


@contextmanager
def masks_from(model: nn.Module, draws: Draws) -> Iterator[None]:
    """Let every `Dropout` of a model draw its masks from `draws` within the block."""
    modules = [module for module in model.modules() if isinstance(module, Dropout)]
    try:
        for module in modules:
            module.draws = draws
        yield
    finally:
        for module in modules:
            module.draws = None
