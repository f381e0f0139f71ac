"""FedAdam (Reddi et al. 2021, "Adaptive federated optimization", algorithm 2).

FedAvg whose server takes the mean difference D of the platforms' weights as a direction for Adam:

    m <- b1 m + (1 - b1) D      v <- b2 v + (1 - b2) D^2      x <- x + eta m / (sqrt(v) + tau)

with eta the server's learning rate, v = tau^2 at the beginning and, as in the paper, without
correction of the bias.
"""

from dataclasses import dataclass, field
from functools import partial

import torch

from fedner.federated.aggregate import Combined
from fedner.federated.algorithms.algorithm import Algorithm, Server, copied
from fedner.federated.algorithms.fedavg import (
    LocalTraining,
    check_training,
    num_steps,
    rounds_of_training,
    train_locally,
)
from fedner.federated.contribution import Contribution
from fedner.federated.messages import Order
from fedner.federated.platform import Platform
from fedner.federated.sizes import Weighting
from fedner.tensors import SharedState


@dataclass(frozen=True, slots=True)
class FedAdamSettings:
    """How FedAdam runs.

    Attributes:
        local: The local training.
        learning_rate: The server's.
        betas: Decay of the first and second moment.
        tau: Added to the denominator: the degree of adaptivity.
        weighting: By public size, by its square root, or all platforms the same.
    """

    local: LocalTraining = field(default_factory=LocalTraining)
    learning_rate: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    tau: float = 1e-3
    weighting: Weighting = "size"


def fedadam(settings: FedAdamSettings | None = None) -> Algorithm:
    """Return FedAdam over the shared part.

    >>> import fedner
    >>> algorithm = fedner.fedadam()
    >>> algorithm.name, algorithm.sends
    ('fedadam', 'differences')
    """
    chosen = FedAdamSettings() if settings is None else settings
    check_training(chosen.local)
    return Algorithm(
        "fedadam",
        partial(_init, chosen),
        partial(_local, chosen),
        partial(_advance, chosen),
        weighting=chosen.weighting,
        steps=partial(num_steps, chosen.local),
        rounds_per_epoch=partial(rounds_of_training, chosen.local),
        identity=f"fedadam {chosen!r}",
    )


def _init(settings: FedAdamSettings, shared: SharedState) -> Server:
    first = {f"first.{name}": torch.zeros_like(tensor) for name, tensor in shared.items()}
    second = {
        f"second.{name}": torch.full_like(tensor, settings.tau**2)
        for name, tensor in shared.items()
    }
    return Server(copied(shared), memory={**first, **second})


def _local(settings: FedAdamSettings, platform: Platform, broadcast: Order) -> Contribution:
    return Contribution(*train_locally(platform, broadcast, settings.local))


@torch.no_grad()
def _advance(settings: FedAdamSettings, server: Server, combined: Combined) -> Server:
    beta1, beta2 = settings.betas
    memory = {}
    for name, delta in combined.tensors.items():
        first, second = server.memory[f"first.{name}"], server.memory[f"second.{name}"]
        memory[f"first.{name}"] = beta1 * first + (1 - beta1) * delta
        memory[f"second.{name}"] = beta2 * second + (1 - beta2) * delta.square()
    moved = {
        name: settings.learning_rate
        * memory[f"first.{name}"]
        / (memory[f"second.{name}"].sqrt() + settings.tau)
        for name in combined.tensors
    }
    shared = copied(server.shared)
    for name, step in moved.items():
        shared[name].add_(step)
    return Server(shared, memory=memory)
