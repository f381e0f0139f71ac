"""What an algorithm gets from a platform, a gradient, and hands back for the update."""

from typing import Literal, NamedTuple

from torch import Tensor

from fedner.federated.messages import nothing_shared
from fedner.tensors import SharedState

LossReading = Literal["mean", "sum"]


class Gradient(NamedTuple):
    """The gradient of one step, split as the partition says.

    Attributes:
        loss: The loss, still on its device; not a number under differential privacy, which
            discloses none.
        shared: The gradient of the shared weights.
        private: The gradient of the private weights.
    """

    loss: Tensor
    shared: SharedState
    private: dict[str, Tensor]


class Contribution(NamedTuple):
    """What an algorithm's local part returns for the update.

    >>> import fedner, torch
    >>> fedner.Contribution({"weight": torch.ones(2)}, losses=[torch.tensor(0.5)]).losses
    [tensor(0.5000)]

    Attributes:
        tensors: Gradients, differences or weights of the shared part.
        losses: The loss of each step.
        extra: What else the algorithm sends.
    """

    tensors: SharedState
    losses: list[Tensor]
    extra: SharedState = nothing_shared()
