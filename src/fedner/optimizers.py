"""Adam and SGD over named tensors, with state that can be stored by name and restored bit for bit.

The arithmetic is torch's own (its functional Adam and SGD); only the book-keeping is ours, because
server, platforms and checkpoints need the state by parameter name. Row-sparse gradients (those of a
trained word table) are stepped row by row, with the result of dense steps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from fedner.errors import FednerError
from fedner.models.embeddings.sparse_rows import SparseRowsAdam
from fedner.models.partition import lies_under

OptimizerName = Literal["adam", "sgd"]
Schedule = Literal["constant", "linear"]


@dataclass(frozen=True, slots=True)
class OptimizerSettings:
    """How weights are stepped.

    Attributes:
        name: Adam, or plain SGD with optional momentum.
        learning_rate: The learning rate.
        betas: Adam's decay rates.
        epsilon: Adam's denominator offset.
        momentum: SGD's momentum.
        weight_decay: L2 penalty added to the gradient.
        schedule: Constant, or linear decay to 0.
        decay_steps: After how many steps a linear schedule reaches 0. A federation file may leave
            it out: then it is the length of the run.
        warmup_ratio: The share of those steps in which the learning rate first rises, in a straight
            line too.
        factors: Dotted prefixes of weights that are stepped at a multiple of the learning rate, as
            a pretrained encoder is beside a fresh head; the first that fits counts.
    """

    name: OptimizerName = "adam"
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: Schedule = "constant"
    decay_steps: int | None = None
    warmup_ratio: float = 0.0
    factors: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.warmup_ratio < 1 or (self.warmup_ratio and self.schedule != "linear"):
            raise FednerError(
                f"warmup_ratio {self.warmup_ratio} with a {self.schedule} schedule; expected a "
                "share of a linear one, from 0 to below 1",
                'Set schedule = "linear", or leave the warm-up out.',
            )

    def factor_of(self, name: str) -> float:
        """Return the multiple of the learning rate at which a weight is stepped."""
        return next((factor for prefix, factor in self.factors if lies_under(name, prefix)), 1.0)

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0.

        Raises:
            FednerError: A linear schedule that does not say when it ends.
        """
        if self.schedule == "constant":
            return self.learning_rate
        if self.decay_steps is None or self.decay_steps < 1:
            raise FednerError(
                f"a linear schedule with decay_steps {self.decay_steps}; expected at least 1",
                "Say after how many steps the learning rate should reach 0.",
            )
        if not self.warmup_ratio:
            return self.learning_rate * max(0.0, 1.0 - step / self.decay_steps)
        peak = self.warmup_ratio * self.decay_steps
        rising = (step + 1) / (peak + 1)
        falling = (self.decay_steps - step) / (self.decay_steps - peak)
        return self.learning_rate * max(0.0, min(rising, falling))


@dataclass(slots=True)
class Optimizer:
    """Moments by parameter name; `step` changes the weights in place.

    Attributes:
        settings: How weights are stepped.
        steps: How many steps were taken.
        first: Adam's first moments, or SGD's momentum buffers.
        second: Adam's second moments.
        by_row: Adam over the rows of parameters whose gradients are row-sparse.
    """

    settings: OptimizerSettings
    steps: int = 0
    first: dict[str, Tensor] = field(default_factory=dict)
    second: dict[str, Tensor] = field(default_factory=dict)
    by_row: dict[str, SparseRowsAdam] = field(default_factory=dict)
    _counts: dict[float, list[Tensor]] = field(default_factory=dict)
    _counts_at: dict[float, tuple[int, int, torch.device]] = field(default_factory=dict)

    @torch.no_grad()
    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        learning_rate: float | None = None,
    ) -> None:
        """Step `weights` in place along `gradients` (same names).

        Args:
            weights: The weights, changed in place.
            gradients: The gradients.
            learning_rate: That of this step; None takes that of the settings' schedule.
        """
        if not gradients:
            return
        used = (
            self.settings.learning_rate_at(self.steps) if learning_rate is None else learning_rate
        )
        dense = dict(gradients)
        for name in sorted(name for name in gradients if gradients[name].is_sparse):
            if self._steps_rows(name):
                own = used * self.settings.factor_of(name)
                self._step_rows(weights[name], dense.pop(name), name, own)
            else:
                dense[name] = gradients[name].to_dense()
        for factor, names in self._by_factor(dense).items():
            if self.settings.name == "adam":
                self._step_adam(names, weights, dense, used, factor)
            else:
                self._step_sgd(names, weights, dense, used * factor)
        self.steps += 1

    def _by_factor(self, names: Iterable[str]) -> dict[float, list[str]]:
        """Return the names, sorted, by the multiple of the learning rate that each has."""
        found: dict[float, list[str]] = {}
        for name in sorted(names):
            found.setdefault(self.settings.factor_of(name), []).append(name)
        return found

    def flush(self) -> None:
        """Bring every row of row-sparse parameters up to date, before they are read as a whole."""
        for rows in self.by_row.values():
            rows.flush()

    def rows_of(self, name: str, weight: nn.Parameter) -> SparseRowsAdam:
        """Return Adam over the rows of one parameter; a word table follows it to read fresh rows.

        Raises:
            FednerError: The settings have no row-sparse Adam.
        """
        if self.settings.name != "adam" or self.settings.weight_decay:
            raise FednerError(
                f"{name}: row-sparse Adam with {self.settings}",
                "Only Adam without weight decay steps rows lazily.",
            )
        if name not in self.by_row:
            settings = self.settings
            self.by_row[name] = SparseRowsAdam(
                weight, settings.learning_rate, settings.betas, settings.epsilon
            )
        return self.by_row[name]

    def _steps_rows(self, name: str) -> bool:
        """Whether a row-sparse gradient is stepped row by row; moments and decay move all rows."""
        if self.settings.name == "adam":
            return name in self.by_row
        return not self.settings.momentum and not self.settings.weight_decay

    def _step_rows(self, weight: Tensor, gradient: Tensor, name: str, learning_rate: float) -> None:
        if self.settings.name == "sgd":
            weight.detach().add_(gradient, alpha=-learning_rate)
            return
        rows = self.by_row[name]
        rows.lr = learning_rate
        rows.parameter.grad = gradient
        rows.step()
        rows.zero_grad()

    def _step_adam(
        self,
        names: list[str],
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        learning_rate: float,
        factor: float,
    ) -> None:
        for name in names:
            if name not in self.first:
                self.first[name] = torch.zeros_like(weights[name])
                self.second[name] = torch.zeros_like(weights[name])
        is_cuda = weights[names[0]].is_cuda
        device = weights[names[0]].device if is_cuda else torch.device("cpu")
        adam(
            [weights[name].detach() for name in names],
            [_laid_out_as(gradients[name], weights[name]) for name in names],
            [self.first[name] for name in names],
            [self.second[name] for name in names],
            [],
            self._step_counts(len(names), factor, device),
            foreach=not is_cuda,
            fused=is_cuda,
            amsgrad=False,
            beta1=self.settings.betas[0],
            beta2=self.settings.betas[1],
            lr=learning_rate * factor,
            weight_decay=self.settings.weight_decay,
            eps=self.settings.epsilon,
            maximize=False,
        )

    def _step_counts(self, number: int, factor: float, device: torch.device) -> list[Tensor]:
        """Return torch's step counters, which it counts up itself: made anew only after a jump."""
        if self._counts_at.get(factor) != (self.steps, number, device):
            made = [torch.tensor(float(self.steps), device=device) for _ in range(number)]
            self._counts[factor] = made
        self._counts_at[factor] = (self.steps + 1, number, device)
        return self._counts[factor]

    def _step_sgd(
        self,
        names: list[str],
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        learning_rate: float,
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
        torch._foreach_add_(targets, directions, alpha=-learning_rate)

    def state(self) -> dict[str, Tensor]:
        """Return the moments and the step count as named tensors, for a checkpoint."""
        return {
            "steps": torch.tensor(self.steps, dtype=torch.int64),
            **{f"first.{name}": tensor for name, tensor in self.first.items()},
            **{f"second.{name}": tensor for name, tensor in self.second.items()},
            **{
                f"by_row.{name}.{key}": tensor
                for name, rows in self.by_row.items()
                for key, tensor in rows.state_dict().items()
            },
        }

    @classmethod
    def restored(
        cls,
        settings: OptimizerSettings,
        state: Mapping[str, Tensor],
        weights: Mapping[str, Tensor] | None = None,
    ) -> "Optimizer":
        """Return the optimizer whose `state()` was stored.

        Args:
            settings: How weights are stepped.
            state: What `state()` returned.
            weights: The parameters; only row-sparse ones need to be among them.

        Raises:
            FednerError: The state is not whole.
        """
        if "steps" not in state:
            raise FednerError(
                f"the optimizer's state has no step count; it holds {sorted(state)[:4]}",
                "The checkpoint is incomplete: resume from an earlier one.",
            )
        restored = cls(settings, int(state["steps"]))
        by_row: dict[str, dict[str, Tensor]] = {}
        for key, tensor in state.items():
            which, _, name = key.partition(".")
            if which == "first":
                restored.first[name] = tensor.clone()
            elif which == "second":
                restored.second[name] = tensor.clone()
            elif which == "by_row":
                name, _, part = name.rpartition(".")
                by_row.setdefault(name, {})[part] = tensor
        restored._restore_rows(by_row, weights or {})
        return restored

    def _restore_rows(
        self, states: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, Tensor]
    ) -> None:
        for name, state in states.items():
            weight = weights.get(name)
            if not isinstance(weight, nn.Parameter):
                raise FednerError(
                    f"the optimizer's state has rows of {name!r}, which is not a parameter here",
                    "Restore it with the parameters of the tagger that it belongs to.",
                )
            self.rows_of(name, weight).load_state_dict(state)


def _laid_out_as(gradient: Tensor, weight: Tensor) -> Tensor:
    """Return the gradient in the memory order of its weight, which the fused step asks for."""
    return gradient if gradient.stride() == weight.stride() else gradient.contiguous()
