"""FedProx (Li et al. 2020, "Federated optimization in heterogeneous networks").

FedAvg whose local loss also has mu / 2 * ||w - w_t||^2, w_t being the broadcast weights: the
direction of a local step is the gradient plus mu (w - w_t). It holds for the shared part alone;
there is nothing to be near to in the private one. At mu = 0 it is FedAvg.
"""

from dataclasses import dataclass, field
from functools import partial

import torch

from fedner.errors import FednerError
from fedner.federated.aggregate import Combined
from fedner.federated.algorithms.algorithm import Algorithm, Server
from fedner.federated.algorithms.fedavg import (
    LocalTraining,
    check_training,
    num_steps,
    rounds_of_training,
    start,
    train_locally,
)
from fedner.federated.contribution import Contribution, Gradient
from fedner.federated.messages import Order
from fedner.federated.platform import Platform
from fedner.federated.sizes import Weighting
from fedner.tensors import SharedState, map_shared


@dataclass(frozen=True, slots=True)
class FedProxSettings:
    """How FedProx runs.

    Attributes:
        local: The local training.
        mu: The weight of the proximal term.
        weighting: By public size, by its square root, or all platforms the same.
    """

    local: LocalTraining = field(default_factory=LocalTraining)
    mu: float = 0.01
    weighting: Weighting = "size"


def fedprox(settings: FedProxSettings | None = None) -> Algorithm:
    """Return FedProx over the shared part.

    >>> import fedner
    >>> algorithm = fedner.fedprox()
    >>> algorithm.name, algorithm.sends
    ('fedprox', 'differences')
    """
    chosen = FedProxSettings() if settings is None else settings
    check_training(chosen.local)
    if chosen.mu < 0:
        raise FednerError(f"mu: found {chosen.mu}; expected 0 or more")
    return Algorithm(
        "fedprox",
        start,
        partial(_local, chosen),
        _advance,
        weighting=chosen.weighting,
        steps=partial(num_steps, chosen.local),
        rounds_per_epoch=partial(rounds_of_training, chosen.local),
        identity=f"fedprox {chosen!r}",
    )


def _local(settings: FedProxSettings, platform: Platform, broadcast: Order) -> Contribution:
    weights = platform.shared()

    @torch.no_grad()
    def pulled_back(gradient: Gradient) -> SharedState:
        return map_shared(
            lambda own, now, then: own + settings.mu * (now - then),
            gradient.shared,
            weights,
            broadcast.shared,
        )

    return Contribution(*train_locally(platform, broadcast, settings.local, pulled_back))


def _advance(server: Server, combined: Combined) -> Server:
    return Server(map_shared(torch.add, server.shared, combined.tensors))
