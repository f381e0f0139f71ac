"""Low-rank adapters: a frozen encoder learns through a few small matrices, and only they travel.

Hu et al. (2021), "LoRA: low-rank adaptation of large language models", equation 3: a linear map

    h = W x + b   becomes   h = W x + b + (alpha / r) B A x,    A: r x in,  B: out x r,

with W and b frozen. B begins at zero, so that the first step starts at the pretrained model to the
bit; A begins as a linear map does, drawn by name and seed on every platform alike. What differs
from the paper: A is uniform, not Gaussian, as in the authors' own code; no dropout before A.
Checked once against peft 0.21.2 (MiniLM, the same A and B, float32 on a CPU): states, gradients and
merged weights are equal to the bit.

Shapes: D features in, F features out, R the rank.
"""

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedner.errors import FednerError


@dataclass(frozen=True, slots=True)
class Adapter:
    """How an encoder is adapted.

    Attributes:
        rank: The rank of every change.
        alpha: Changes are scaled by alpha / rank, so that the rate need not follow the rank.
        targets: Which linear maps are adapted: the last parts of their dotted names.
    """

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ("query", "value")


class LowRank(nn.Module):
    """The change of one linear map.

    Attributes:
        down: A (R, D).
        up: B (F, R), zero at the beginning.
        scale: alpha / rank.
    """

    def __init__(self, num_in: int, num_out: int, adapter: Adapter) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.zeros(adapter.rank, num_in))
        self.up = nn.Parameter(torch.zeros(num_out, adapter.rank))
        self.scale = adapter.alpha / adapter.rank

    @property
    def bound(self) -> float:
        """The largest first value of A."""
        return 1.0 / math.sqrt(self.down.shape[1])

    def forward(self, x_D: Tensor) -> Tensor:
        """Return the change of what the map gives."""
        return functional.linear(functional.linear(x_D, self.down), self.up) * self.scale

    def difference(self) -> Tensor:
        """Return the change of the map's weight (F, D)."""
        return self.up @ self.down * self.scale


class AdaptedLinear(nn.Module):
    """A frozen linear map and its change."""

    def __init__(self, frozen: nn.Linear, change: LowRank) -> None:
        super().__init__()
        self.frozen = frozen
        self.change = change

    def forward(self, x_D: Tensor) -> Tensor:
        """Return what the changed map gives."""
        changed: Tensor = self.frozen(x_D) + self.change(x_D)
        return changed


def attach(model: nn.Module, adapter: Adapter) -> dict[str, LowRank]:
    """Put a change beside every target of a model, in place; return the changes by dotted name.

    Raises:
        FednerError: A target is no linear map of the model, or the rank does not fit.
    """
    maps = {name: each for name, each in model.named_modules() if isinstance(each, nn.Linear)}
    unmatched = [each for each in adapter.targets if not any(_ends(name, each) for name in maps)]
    if unmatched or not adapter.targets:
        raise FednerError(
            f"adapter targets {list(adapter.targets)}: no linear map of the encoder is called "
            f"{', '.join(unmatched) or 'anything of the kind'}",
            f"There are {', '.join(sorted({name.rpartition('.')[2] for name in maps}))}.",
        )
    changes = {}
    for name, linear in maps.items():
        if any(_ends(name, target) for target in adapter.targets):
            change = LowRank(linear.in_features, linear.out_features, adapter)
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, AdaptedLinear(linear, change))
            changes[name] = change
    return changes


def _ends(name: str, target: str) -> bool:
    return name == target or name.endswith("." + target)


@torch.no_grad()
def merged(model: nn.Module) -> nn.Module:
    """Return a copy of an adapted model as a plain one: every change added to its weight."""
    plain = copy.deepcopy(model)
    for name, module in list(plain.named_modules()):
        if isinstance(module, AdaptedLinear):
            module.frozen.weight += module.change.difference()
            parent, _, child = name.rpartition(".")
            setattr(plain.get_submodule(parent), child, module.frozen)
    return plain
