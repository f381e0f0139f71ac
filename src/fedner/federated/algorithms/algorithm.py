"""What an algorithm is: a record of functions and facts, knowing no model and no engine.

Nobody outside this folder asks which algorithm it is: whatever depends on it (how much noise a
target takes, how long a schedule is, what a fair baseline does, which mechanisms fit) follows from
what the record states.

To add one: a file named for it with its paper on top, a row in `algorithms/__init__.py`, and a test
with two tiny platforms and expected weights as literals.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from fedner.federated.aggregate import Combined
from fedner.federated.contribution import LossReading
from fedner.federated.messages import nothing_shared
from fedner.federated.platform import LocalFunction
from fedner.federated.sizes import Batching, Weighting, batch_sizes
from fedner.optimizers import Optimizer
from fedner.tensors import SharedState, converted

Sent = Literal["gradients", "differences", "weights"]


@dataclass(frozen=True, slots=True)
class Server:
    """What the server holds between rounds.

    >>> import fedner, torch
    >>> fedner.Server({"weight": torch.zeros(2)}).memory
    {}

    Attributes:
        shared: The shared weights.
        extra: Extra tensors that it sends beside them.
        optimizer: Updates the shared weights, if the algorithm has one.
        memory: What else the algorithm keeps on the server, by name.
    """

    shared: SharedState
    extra: SharedState = field(default_factory=nothing_shared)
    optimizer: Optimizer | None = None
    memory: dict[str, Tensor] = field(default_factory=dict)


def one_step(batch: int, public_size: float) -> int:  # noqa: ARG001 - whatever they are
    """Return the steps of a round that takes one gradient."""
    return 1


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A federated algorithm over the shared part; the private part stays on its platform.

    >>> import fedner
    >>> def local(platform, order):
    ...     gradient = platform.gradient(order, step=0)
    ...     platform.step_private(gradient)
    ...     return fedner.Contribution(gradient.shared, [gradient.loss])
    >>> def advance(server, combined):
    ...     steps = {name: 0.1 * combined.tensors[name] for name in server.shared}
    ...     return fedner.Server({name: server.shared[name] - steps[name] for name in steps})
    >>> sgd = fedner.Algorithm(
    ...     "sgd", fedner.Server, local, advance, sends="gradients", steps=lambda batch, size: 1
    ... )
    >>> sgd.batching, sgd.weighting
    ('each', 'size')

    Attributes:
        name: Its name in settings and reports.
        init: Makes the server's first state from the first shared weights.
        local: What a platform does in a round; may change the platform's model in place.
        advance: Makes the server's next state from its last one and the round's aggregate. Do not
            use the last one again: the next one takes over its optimizer.
        batching: "joint": platforms share a batch of N sentences by their public sizes. "each":
            every platform draws batches of N.
        weighting: Whether updates are weighted by public size, by its square root, or equally.
        sends: What an update is: the mean of gradients, a difference of weights, or weights.
        has_extra: Whether extra tensors, like the shared weights, go down and up beside them.
        loss_reading: Whether gradients are those of the mean or of the sum over the batch.
        steps: How many gradients `local` takes in a round, given the batch and the platform's
            public size (that of a slice, in an incremental schedule). It uses public facts only,
            because it decides what a round costs.
        rounds_per_epoch: How many rounds use every platform's sentences about once, given the
            public sizes, the batch and how many platforms are asked in a round (None for all); may
            be below 1. None derives it from `steps` and `batching`.
        lasting: Returns the algorithm with schedules that end after the given number of rounds;
            None if nothing depends on the length of a run.
        baseline_batches: The batch sizes that a fair local-only baseline chooses from, given the
            public sizes, the batch and a platform. None: N, and with joint batches also the
            platform's share of it.
        identity: Names the algorithm with its settings; another identity is another release. By
            default the name.
    """

    name: str
    init: Callable[[SharedState], Server]
    local: LocalFunction
    advance: Callable[[Server, Combined], Server]
    batching: Batching = "each"
    weighting: Weighting = "size"
    sends: Sent = "differences"
    has_extra: bool = False
    loss_reading: LossReading = "mean"
    steps: Callable[[int, float], int] = field(kw_only=True)
    rounds_per_epoch: Callable[[Mapping[str, int], int, int | None], float] | None = None
    lasting: "Callable[[int], Algorithm] | None" = None
    baseline_batches: Callable[[Mapping[str, int], int, str], tuple[int, ...]] | None = None
    identity: str = ""

    def __post_init__(self) -> None:
        if not self.identity:
            object.__setattr__(self, "identity", self.name)


def lasting(algorithm: Algorithm, rounds: int) -> Algorithm:
    """Return the algorithm with schedules that end with a run of so many rounds."""
    return algorithm if algorithm.lasting is None else algorithm.lasting(rounds)


def epoch_rounds(
    algorithm: Algorithm, sizes: Mapping[str, int], batch: int, num_sampled: int | None = None
) -> float:
    """Return how many rounds show every platform's sentences about once; may be below 1.

    Args:
        algorithm: Which one.
        sizes: The public size of every platform.
        batch: N, as `batching` reads it.
        num_sampled: How many platforms are asked in a round; None for all.
    """
    if algorithm.rounds_per_epoch is not None:
        return algorithm.rounds_per_epoch(sizes, batch, num_sampled)
    own = (
        batch_sizes(sizes, batch) if algorithm.batching == "joint" else dict.fromkeys(sizes, batch)
    )
    longest = max(
        -(-size // own[name]) / algorithm.steps(own[name], float(size))
        for name, size in sizes.items()
    )
    return longest * (1.0 if num_sampled is None else len(sizes) / num_sampled)


def baseline_batches(
    algorithm: Algorithm, sizes: Mapping[str, int], batch: int, name: str
) -> tuple[int, ...]:
    """Return the batch sizes that a platform's local-only baseline chooses from."""
    if algorithm.baseline_batches is not None:
        return algorithm.baseline_batches(sizes, batch, name)
    return joint_batch_and_share(sizes, batch, name) if algorithm.batching == "joint" else (batch,)


def joint_batch_and_share(sizes: Mapping[str, int], batch: int, name: str) -> tuple[int, ...]:
    """Return N and a platform's share of it."""
    return batch, batch_sizes(sizes, max(batch, len(sizes)))[name]


def copied(state: SharedState) -> SharedState:
    """Return a copy that no later step changes."""
    return SharedState(converted(state, {name: each.dtype for name, each in state.items()}))


@torch.no_grad()
def stepped(
    server: Server, gradient: SharedState, optimizer: Optimizer, learning_rate: float | None = None
) -> Server:
    """Return the server after its optimizer took one step along `gradient`."""
    shared = copied(server.shared)
    optimizer.step(shared, gradient, learning_rate)
    return Server(shared, server.extra, optimizer, server.memory)
