"""Named tensors: a state is a mapping from dotted parameter names to tensors.

`SharedState` is what may travel. Only `models.partition` makes one; engines carry nothing else.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NewType

import torch
from torch import Tensor

State = Mapping[str, Tensor]
SharedState = NewType("SharedState", dict[str, Tensor])


def add(left: State, right: State) -> dict[str, Tensor]:
    """Return the sum, name by name."""
    return {name: left[name] + right[name] for name in left}


def subtract(left: State, right: State) -> dict[str, Tensor]:
    """Return the difference, name by name."""
    return {name: left[name] - right[name] for name in left}


def scale(state: State, factor: float) -> dict[str, Tensor]:
    """Return the state times a number."""
    return {name: tensor * factor for name, tensor in state.items()}


def zeros_like(state: State) -> dict[str, Tensor]:
    """Return a state of zeros."""
    return {name: torch.zeros_like(tensor) for name, tensor in state.items()}


def norm(state: State) -> float:
    """Return the Euclidean norm over all tensors, summed in float64 in the order of the names."""
    squares = [float(state[name].double().square().sum()) for name in sorted(state)]
    return math.sqrt(sum(squares))


@torch.no_grad()
def copy_into(state: State, target: State) -> None:
    """Copy tensors, in place, into those of the same names: on a GPU in few launches."""
    if state:
        torch._foreach_copy_([target[name] for name in state], list(state.values()))


@torch.no_grad()
def converted(state: State, dtypes: Mapping[str, torch.dtype]) -> dict[str, Tensor]:
    """Return copies in other types, by name: on a GPU in few launches."""
    made = {name: torch.empty_like(each, dtype=dtypes[name]) for name, each in state.items()}
    copy_into(state, made)
    return made


@torch.no_grad()
def add_scaled(sums: State, state: State, weight: float) -> None:
    """Add a state, widened to float64 and times a number, to float64 sums in place.

    On a GPU in few launches; on a CPU tensor after tensor, so that only one is held twice.
    """
    if any(tensor.is_cuda for tensor in sums.values()):
        wide = converted(state, dict.fromkeys(state, torch.float64))
        into = [sums[name] for name in state]
        torch._foreach_add_(into, list(wide.values()), alpha=weight)
        return
    for name, tensor in state.items():
        sums[name].add_(tensor.double(), alpha=weight)


@torch.no_grad()
def divided(sums: State, divisor: float, dtypes: Mapping[str, torch.dtype]) -> dict[str, Tensor]:
    """Return float64 sums divided by a number, each in the type that is named for it."""
    if any(tensor.is_cuda for tensor in sums.values()):
        shares = torch._foreach_div(list(sums.values()), divisor)
        return converted(dict(zip(sums, shares, strict=True)), dtypes)
    return {name: (total / divisor).to(dtypes[name]) for name, total in sums.items()}


def num_bytes(state: State) -> int:
    """Return how many bytes the tensors hold."""
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())


def weighted_sum(states: Iterable[State], weights: Iterable[float]) -> dict[str, Tensor]:
    """Return the weighted sum, accumulated in float64 in the order given, in the first one's dtype.

    The caller fixes the order (platforms sorted by name), so that the order of arrival changes
    nothing.
    """
    total: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    for state, weight in zip(states, weights, strict=True):
        for name, tensor in state.items():
            if name in total:
                total[name].add_(tensor.double(), alpha=weight)
            else:
                total[name] = tensor.double() * weight
                dtypes[name] = tensor.dtype
    return {name: tensor.to(dtypes[name]) for name, tensor in total.items()}


def map_shared(
    function: Callable[..., Tensor], first: SharedState, *others: SharedState
) -> SharedState:
    """Apply `function` name by name: what is made only of shared states may be sent too."""
    return SharedState(
        {
            name: function(tensor, *(other[name] for other in others))
            for name, tensor in first.items()
        }
    )
