"""What an algorithm is: a record of functions over named tensors, knowing no model and no engine.

To add one: a file named for it with its paper on top, a row in `algorithms/__init__.py`, and a test
with two tiny platforms and expected weights as literals.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from fedner.federated.aggregate import Combined
from fedner.federated.messages import nothing_shared
from fedner.federated.platform import LocalFunction
from fedner.federated.sizes import Batching
from fedner.optimizers import Optimizer
from fedner.tensors import SharedState, map_shared

Weighting = Literal["size", "equal"]
Sent = Literal["gradients", "differences", "weights"]


@dataclass(frozen=True, slots=True)
class Server:
    """What the server holds between rounds.

    Attributes:
        shared: The shared weights.
        extra: What it hands out beside them.
        optimizer: Steps the shared weights, where the algorithm has one.
        memory: What else the algorithm keeps on the server, by name.
    """

    shared: SharedState
    extra: SharedState = field(default_factory=nothing_shared)
    optimizer: Optimizer | None = None
    memory: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A federated algorithm over the shared part; the private part is each platform's own.

    Attributes:
        name: The key of its row.
        init: Makes the server's first state of the first shared weights.
        local: What a platform does in a round; may change the platform's model in place. Under
            differential privacy a `platform.Local`, which also says how many steps it takes.
        advance: The server's next state of its last one and what the round gave. The last one is
            spent: its optimizer goes on in the next.
        batching: "joint": platforms share a batch of N sentences by their public sizes. "each":
            every platform draws batches of N.
        weighting: Whether updates weigh by public size, or all the same.
        sends: What an update is: the mean of gradients, a difference of weights, or weights.
    """

    name: str
    init: Callable[[SharedState], Server]
    local: LocalFunction
    advance: Callable[[Server, Combined], Server]
    batching: Batching = "each"
    weighting: Weighting = "size"
    sends: Sent = "differences"


def copied(state: SharedState) -> SharedState:
    """Return a copy that no later step changes."""
    return map_shared(lambda tensor: tensor.detach().clone(), state)


@torch.no_grad()
def stepped(
    server: Server, gradient: SharedState, optimizer: Optimizer, learning_rate: float | None = None
) -> Server:
    """Return the server after its optimizer took one step along `gradient`."""
    shared = copied(server.shared)
    optimizer.step(shared, gradient, learning_rate)
    return Server(shared, server.extra, optimizer, server.memory)
