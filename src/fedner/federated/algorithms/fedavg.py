"""FedAvg (McMahan et al. 2017, "Communication-efficient learning of deep networks").

Each round, every chosen platform trains the shared weights on its own data for some steps or
epochs with a fresh local optimizer; the server takes the mean of what they come to, weighted by
public size. Unweighted, in one round or in incremental slices, it is the averaging of the 2021
paper on differentially private federated tagging (Jana and Biemann).

What differs: only the shared part is averaged. Private weights keep their own optimizer, which
steps them at every local step and goes on from round to round.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.aggregate import Combined
from fedner.federated.algorithms.algorithm import Algorithm, Server, copied
from fedner.federated.contribution import Contribution, Gradient
from fedner.federated.messages import Order
from fedner.federated.platform import Platform
from fedner.federated.sizes import Weighting
from fedner.optimizers import Optimizer, OptimizerSettings
from fedner.tensors import SharedState, map_shared

Sends = Literal["delta", "weights"]
Adjust = Callable[[Gradient], SharedState]


def plain_sgd(learning_rate: float = 0.1) -> OptimizerSettings:
    """Return the settings of SGD without momentum."""
    return OptimizerSettings(name="sgd", learning_rate=learning_rate)


@dataclass(frozen=True, slots=True)
class LocalTraining:
    """How a platform trains the shared part within a round.

    Attributes:
        optimizer: Made afresh in every round.
        epochs: Passes over the platform's data (or its slice), unless `steps` is given.
        steps: Batches, whatever the size of the data.
    """

    optimizer: OptimizerSettings = field(default_factory=plain_sgd)
    epochs: int = 1
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class FedAvgSettings:
    """How FedAvg runs.

    Attributes:
        local: The local training.
        sends: The difference to the broadcast weights, or the new weights themselves. The results
            agree up to rounding.
        weighting: By public size, by its square root, or all platforms the same (as in 2021).
    """

    local: LocalTraining = field(default_factory=LocalTraining)
    sends: Sends = "delta"
    weighting: Weighting = "size"


class Trained(NamedTuple):
    """What local training came to.

    Attributes:
        delta: The shared weights now less those of the broadcast.
        losses: The loss of each step.
    """

    delta: SharedState
    losses: list[Tensor]


def fedavg(settings: FedAvgSettings | None = None) -> Algorithm:
    """Return FedAvg over the shared part.

    >>> import fedner
    >>> algorithm = fedner.fedavg()
    >>> algorithm.name, algorithm.sends
    ('fedavg', 'differences')
    """
    chosen = FedAvgSettings() if settings is None else settings
    check_training(chosen.local)
    return Algorithm(
        "fedavg",
        start,
        partial(_local, chosen),
        partial(_advance, chosen),
        weighting=chosen.weighting,
        sends="differences" if chosen.sends == "delta" else "weights",
        steps=partial(num_steps, chosen.local),
        rounds_per_epoch=partial(rounds_of_training, chosen.local),
        identity=f"fedavg {chosen!r}",
    )


def start(shared: SharedState) -> Server:
    """Return a server without optimizer or memory."""
    return Server(copied(shared))


def check_training(training: LocalTraining) -> None:
    """Raise unless a round has at least one step."""
    if training.epochs < 1 or (training.steps is not None and training.steps < 1):
        raise FednerError(
            f"local training: found {training.epochs} epochs, {training.steps} steps; expected at "
            "least 1",
            "Give a number of epochs, or of steps.",
        )


def num_steps(training: LocalTraining, batch: int, size: float) -> int:
    """Return how many steps local training over so many sentences takes."""
    if training.steps is not None:
        return training.steps
    return training.epochs * max(1, math.ceil(size / batch))


def rounds_of_training(
    training: LocalTraining, sizes: Mapping[str, int], batch: int, num_sampled: int | None
) -> float:
    """Return how many rounds of local training show every platform's sentences about once."""
    turns = 1.0 if num_sampled is None else len(sizes) / num_sampled
    if training.steps is None:
        return turns / training.epochs
    return turns * max(-(-size // batch) for size in sizes.values()) / training.steps


def train_locally(
    platform: Platform,
    broadcast: Order,
    training: LocalTraining,
    adjust: Adjust | None = None,
) -> Trained:
    """Train shared and private weights side by side from the broadcast weights on.

    Args:
        platform: Its model is changed in place.
        broadcast: Where training begins.
        training: How long, and with which optimizer.
        adjust: Makes the direction of a shared step of its gradient (FedProx, SCAFFOLD).
    """
    steps = num_steps(training, broadcast.batches[platform.name], platform.slice_size)
    optimizer = Optimizer(training.optimizer)
    weights, losses = platform.shared(), []
    for step in range(steps):
        gradient = platform.gradient(broadcast, step)
        platform.step_private(gradient)
        direction = gradient.shared if adjust is None else adjust(gradient)
        optimizer.step(weights, direction)
        losses.append(gradient.loss)
    with torch.no_grad():
        return Trained(map_shared(torch.sub, weights, broadcast.shared), losses)


def _local(settings: FedAvgSettings, platform: Platform, broadcast: Order) -> Contribution:
    delta, losses = train_locally(platform, broadcast, settings.local)
    tensors = delta if settings.sends == "delta" else copied(platform.shared())
    return Contribution(tensors, losses)


def _advance(settings: FedAvgSettings, server: Server, combined: Combined) -> Server:
    if settings.sends == "weights":
        return Server(combined.tensors)
    return Server(map_shared(torch.add, server.shared, combined.tensors))
