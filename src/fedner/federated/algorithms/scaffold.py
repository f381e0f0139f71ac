"""SCAFFOLD (Karimireddy et al. 2020, "Stochastic controlled averaging"), option II.

Each platform keeps a control variate c_i of the shared part, the server their mean c, which it
broadcasts beside the weights x. A local step goes along g - c_i + c. After K plain SGD steps at
rate r, from x to y, the platform sets

    c_i' = c_i - c + (x - y) / (K r)

and sends y - x and c_i' - c_i; the server steps x along the mean of the former and adds to c the
latter, weighted by the platforms' share in the whole federation, so that c stays the mean of all.

What differs: the paper weighs platforms alike; here they weigh by public size unless told
otherwise. A platform whose update is refused has moved its c_i all the same.
"""

from dataclasses import dataclass
from functools import partial

import torch

from fedner.errors import FednerError
from fedner.federated.aggregate import Combined
from fedner.federated.algorithms.algorithm import Algorithm, Server, copied
from fedner.federated.algorithms.fedavg import (
    LocalTraining,
    check_training,
    num_steps,
    plain_sgd,
    rounds_of_training,
)
from fedner.federated.algorithms.fedavg import train_locally as train
from fedner.federated.contribution import Contribution, Gradient
from fedner.federated.messages import Order
from fedner.federated.platform import Platform
from fedner.federated.sizes import Weighting
from fedner.tensors import SharedState, map_shared


@dataclass(frozen=True, slots=True)
class ScaffoldSettings:
    """How SCAFFOLD runs.

    Attributes:
        local_learning_rate: Of the local SGD steps.
        epochs: Passes over a platform's data in a round, unless `steps` is given.
        steps: Local steps, whatever the size of the data.
        server_learning_rate: How far the server goes along the mean difference.
        weighting: By public size, by its square root, or all platforms the same as in the paper.
    """

    local_learning_rate: float = 0.1
    epochs: int = 1
    steps: int | None = None
    server_learning_rate: float = 1.0
    weighting: Weighting = "size"

    @property
    def local(self) -> LocalTraining:
        """The local training: plain SGD, which the control variates are made for."""
        return LocalTraining(plain_sgd(self.local_learning_rate), self.epochs, self.steps)


def scaffold(settings: ScaffoldSettings | None = None) -> Algorithm:
    """Return SCAFFOLD over the shared part.

    >>> import fedner
    >>> algorithm = fedner.scaffold()
    >>> algorithm.name, algorithm.sends
    ('scaffold', 'differences')
    """
    chosen = ScaffoldSettings() if settings is None else settings
    check_training(chosen.local)
    if not chosen.local_learning_rate > 0:
        raise FednerError(
            f"local_learning_rate: found {chosen.local_learning_rate}; expected above 0"
        )
    return Algorithm(
        "scaffold",
        _init,
        partial(_local, chosen),
        partial(_advance, chosen),
        weighting=chosen.weighting,
        has_extra=True,
        steps=partial(num_steps, chosen.local),
        rounds_per_epoch=partial(rounds_of_training, chosen.local),
        identity=f"scaffold {chosen!r}",
    )


def _init(shared: SharedState) -> Server:
    return Server(copied(shared), extra=map_shared(torch.zeros_like, shared))


@torch.no_grad()
def _local(settings: ScaffoldSettings, platform: Platform, broadcast: Order) -> Contribution:
    common = broadcast.extra
    own = _baseline(platform)

    def corrected(gradient: Gradient) -> SharedState:
        return map_shared(lambda g, c_i, c: g - c_i + c, gradient.shared, own, common)

    with torch.enable_grad():
        delta, losses = train(platform, broadcast, settings.local, corrected)
    factor = 1.0 / (len(losses) * settings.local_learning_rate)
    new = map_shared(lambda c_i, c, moved: c_i - c - moved * factor, own, common, delta)
    platform.memory.update({f"control.{name}": tensor for name, tensor in new.items()})
    return Contribution(delta, losses, extra=map_shared(torch.sub, new, own))


def _baseline(platform: Platform) -> SharedState:
    """Return the platform's control variate: zero before its first round."""
    zeros = map_shared(torch.zeros_like, platform.shared())
    held = {name: platform.memory.get(f"control.{name}", zeros[name]) for name in zeros}
    return platform.partition.shared_state(held)


@torch.no_grad()
def _advance(settings: ScaffoldSettings, server: Server, combined: Combined) -> Server:
    shared = map_shared(
        lambda x, moved: x + settings.server_learning_rate * moved, server.shared, combined.tensors
    )
    extra = map_shared(lambda c, change: c + combined.share * change, server.extra, combined.extra)
    return Server(shared, extra=extra)
