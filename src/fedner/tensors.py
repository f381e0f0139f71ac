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
    """Apply `function` name by name: what is made of shared states alone may travel too."""
    return SharedState(
        {
            name: function(tensor, *(other[name] for other in others))
            for name, tensor in first.items()
        }
    )
