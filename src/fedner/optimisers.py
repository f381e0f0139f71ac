"""Adam and SGD over named tensors, with state that can be stored by name and restored bit for bit.

The arithmetic is torch's own (its functional Adam and SGD); only the book-keeping is ours, because
server, platforms and checkpoints need the state by parameter name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from torch.optim.adam import adam

from fedner.errors import FednerError

OptimiserKind = Literal["adam", "sgd"]


@dataclass(frozen=True, slots=True)
class OptimiserSettings:
    """How weights are stepped.

    Attributes:
        kind: Adam, or plain SGD with optional momentum.
        rate: The learning rate.
        betas: Adam's decay rates.
        epsilon: Adam's denominator offset.
        momentum: SGD's momentum.
        weight_decay: L2 penalty added to the gradient.
    """

    kind: OptimiserKind = "adam"
    rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(slots=True)
class Optimiser:
    """Moments by parameter name; `step` changes the weights in place.

    Attributes:
        settings: How weights are stepped.
        steps: How many steps were taken.
        first: Adam's first moments, or SGD's momentum buffers.
        second: Adam's second moments.
    """

    settings: OptimiserSettings
    steps: int = 0
    first: dict[str, Tensor] = field(default_factory=dict)
    second: dict[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        rate: float | None = None,
    ) -> None:
        """Step `weights` in place along `gradients` (same names).

        Args:
            weights: The weights, changed in place.
            gradients: The gradients.
            rate: The learning rate of this step; None takes that of the settings.
        """
        if not gradients:
            return
        used = self.settings.rate if rate is None else rate
        names = sorted(gradients)
        if self.settings.kind == "adam":
            self._step_adam(names, weights, gradients, used)
        else:
            self._step_sgd(names, weights, gradients, used)
        self.steps += 1

    def _step_adam(
        self,
        names: list[str],
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        rate: float,
    ) -> None:
        for name in names:
            if name not in self.first:
                self.first[name] = torch.zeros_like(weights[name])
                self.second[name] = torch.zeros_like(weights[name])
        is_cuda = weights[names[0]].is_cuda
        step_device = weights[names[0]].device if is_cuda else "cpu"
        adam(
            [weights[name].detach() for name in names],
            [gradients[name] for name in names],
            [self.first[name] for name in names],
            [self.second[name] for name in names],
            [],
            [torch.tensor(float(self.steps), device=step_device) for _ in names],
            foreach=not is_cuda,
            fused=is_cuda,
            amsgrad=False,
            beta1=self.settings.betas[0],
            beta2=self.settings.betas[1],
            lr=rate,
            weight_decay=self.settings.weight_decay,
            eps=self.settings.epsilon,
            maximize=False,
        )

    def _step_sgd(
        self,
        names: list[str],
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        rate: float,
    ) -> None:
        directions = [gradients[name] for name in names]
        targets = [weights[name].detach() for name in names]
        if self.settings.weight_decay:
            decay = self.settings.weight_decay
            directions = list(torch._foreach_add(directions, targets, alpha=decay))
        if self.settings.momentum:
            for name, direction in zip(names, directions, strict=True):
                held = self.first.get(name)
                self.first[name] = (
                    direction.clone()
                    if held is None
                    else held.mul_(self.settings.momentum).add_(direction)
                )
            directions = [self.first[name] for name in names]
        torch._foreach_add_(targets, directions, alpha=-rate)

    def state(self) -> dict[str, Tensor]:
        """Return the moments and the step count as named tensors, for a checkpoint."""
        return {
            "steps": torch.tensor(self.steps, dtype=torch.int64),
            **{f"first.{name}": tensor for name, tensor in self.first.items()},
            **{f"second.{name}": tensor for name, tensor in self.second.items()},
        }

    @classmethod
    def restored(cls, settings: OptimiserSettings, state: Mapping[str, Tensor]) -> "Optimiser":
        """Return the optimiser whose `state()` was stored."""
        if "steps" not in state:
            raise FednerError(
                f"the optimiser's state has no step count; it holds {sorted(state)[:4]}",
                "The checkpoint is not whole: resume from an earlier one.",
            )
        taken = {"first": dict[str, Tensor](), "second": dict[str, Tensor]()}
        for key, tensor in state.items():
            which, _, name = key.partition(".")
            if name:
                taken[which][name] = tensor.clone()
        return cls(settings, int(state["steps"]), taken["first"], taken["second"])
