"""FedNER (Ge et al. 2020, "FedNER: privacy-preserving medical NER with federated learning").

Algorithm 1, one round. The server sends the shared weights. Platform i draws N_i sentences,
|N_i| = N n_i / sum_j n_j, takes the gradient of its loss L^i, steps its private weights with its
own optimizer and returns the shared gradient g_i. The server steps the shared weights along

    g = sum_i n_i / sum_j n_j * g_i                                                        (eq. 2)

Readings. "mean": L^i is the mean over N_i, so that g is the gradient of the mean loss over the
joint batch (up to the rounding of |N_i|). "sum": L^i is the sum over N_i; g then grows with N, and
the server divides it by N, so that learning rates mean the same in both: platform i's mean gradient
weighs n_i / sum n_j * |N_i| / N, about the square of its share.

Weights. "size" is eq. 2. "sqrt-size" and "equal" (ours) put sqrt(n_i) or 1 in the place of n_i, so
that a small platform is not lost beside large ones; batches are best drawn by "each" then, since a
gradient of a handful of sentences would weigh as much as one of many.

Batches. "joint": the paper's |N_i|. "each" (ours): every platform draws N sentences; eq. 2 is then
still the mean over all sentences, estimated better, and a small platform's private part no longer
steps along the gradient of a handful of sentences.

K local steps (ours; fewer rounds): the shared part takes K - 1 plain SGD steps on the platform's
working copy, at `local_learning_rate`. The update is the mean of the K gradients, never a
difference of weights, so that the server's optimizer consumes what it was made for; at K = 1 this
is Algorithm 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from fedner.errors import FednerError
from fedner.federated.aggregate import Combined
from fedner.federated.algorithms.algorithm import (
    Algorithm,
    Server,
    copied,
    joint_batch_and_share,
    stepped,
)
from fedner.federated.contribution import Contribution, LossReading
from fedner.federated.messages import Order
from fedner.federated.platform import Platform
from fedner.federated.sizes import Batching, Weighting, rounds_per_epoch
from fedner.optimizers import Optimizer, OptimizerSettings
from fedner.tensors import SharedState, map_shared


@dataclass(frozen=True, slots=True)
class FednerSettings:
    """How FedNER runs.

    Attributes:
        server_optimizer: Steps the shared weights.
        local_steps: K.
        local_learning_rate: Of the plain SGD steps on the working copy; unused at K = 1.
        loss: The reading of L^i.
        batching: Whether N sentences are drawn by all platforms together, or by each.
        weighting: By public size, by its square root, or all platforms the same.
    """

    server_optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    local_steps: int = 1
    local_learning_rate: float = 0.1
    loss: LossReading = "mean"
    batching: Batching = "joint"
    weighting: Weighting = "size"


def fedner(settings: FednerSettings | None = None) -> Algorithm:
    """Return Algorithm 1 of FedNER, or its variant with K local steps.

    >>> import fedner
    >>> algorithm = fedner.fedner()
    >>> algorithm.name, algorithm.sends
    ('fedner', 'gradients')
    """
    chosen = FednerSettings() if settings is None else settings
    if chosen.local_steps < 1:
        raise FednerError(f"local_steps: found {chosen.local_steps}; expected at least 1")
    return Algorithm(
        "fedner",
        partial(_init, chosen),
        partial(_local, chosen),
        partial(_advance, chosen),
        batching=chosen.batching,
        weighting=chosen.weighting,
        sends="gradients",
        loss_reading=chosen.loss,
        steps=partial(_steps, chosen),
        rounds_per_epoch=partial(_rounds_per_epoch, chosen),
        lasting=partial(_lasting, chosen),
        baseline_batches=joint_batch_and_share,
        identity=f"fedner {chosen!r}",
    )


def _init(settings: FednerSettings, shared: SharedState) -> Server:
    return Server(copied(shared), optimizer=Optimizer(settings.server_optimizer))


def _steps(settings: FednerSettings, batch: int, public_size: float) -> int:  # noqa: ARG001
    return settings.local_steps


def _rounds_per_epoch(
    settings: FednerSettings, sizes: Mapping[str, int], batch: int, num_sampled: int | None
) -> float:
    steps = -(-sum(sizes.values()) // batch)
    if settings.batching == "each":
        steps = max(-(-size // batch) for size in sizes.values())
    elif num_sampled is None:
        steps = rounds_per_epoch(sizes, batch)
    return max(1, -(-steps // settings.local_steps))


def _lasting(settings: FednerSettings, rounds: int) -> Algorithm:
    """Return FedNER whose server's schedule ends with the run, unless it says where itself."""
    server = settings.server_optimizer
    if server.schedule == "constant" or server.decay_steps is not None:
        return fedner(settings)
    return fedner(replace(settings, server_optimizer=replace(server, decay_steps=rounds)))


def _local(settings: FednerSettings, platform: Platform, broadcast: Order) -> Contribution:
    losses, total = [], SharedState({})
    for step in range(settings.local_steps):
        gradient = platform.gradient(broadcast, step, settings.loss)
        platform.step_private(gradient)
        losses.append(gradient.loss)
        if settings.local_steps == 1:
            return Contribution(gradient.shared, losses)
        total = _added(total, gradient.shared)
        if step + 1 < settings.local_steps:
            sgd_step(platform.shared(), gradient.shared, settings.local_learning_rate)
    weights = platform.shared()
    mean = map_shared(lambda all_, own: (all_ / settings.local_steps).to(own.dtype), total, weights)
    return Contribution(mean, losses)


def _added(total: SharedState, gradient: SharedState) -> SharedState:
    if not total:
        return map_shared(lambda tensor: tensor.double(), gradient)
    return map_shared(lambda so_far, tensor: so_far + tensor, total, gradient)


@torch.no_grad()
def sgd_step(weights: SharedState, gradient: SharedState, learning_rate: float) -> None:
    """Take one plain step in place."""
    if gradient:
        into = [weights[name] for name in gradient]
        torch._foreach_sub_(into, list(gradient.values()), alpha=learning_rate)


def _advance(settings: FednerSettings, server: Server, combined: Combined) -> Server:
    gradient = combined.tensors
    if settings.loss == "sum":
        gradient = map_shared(lambda tensor: tensor / combined.joint_batch, gradient)
    optimizer = (
        Optimizer(settings.server_optimizer) if server.optimizer is None else server.optimizer
    )
    return stepped(server, gradient, optimizer)
