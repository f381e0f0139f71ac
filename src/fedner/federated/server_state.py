"""The server's state on disk: weights, their EMA, extras, optimizer, memory under a round."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.algorithms.algorithm import Server
from fedner.federated.checkpoints import read_state, write_state
from fedner.optimizers import Optimizer
from fedner.tensors import SharedState

_PARTS = ("shared", "extra", "optimizer", "memory", "ema")


class Stored(NamedTuple):
    """What was stored under a round.

    Attributes:
        server: The server.
        ema: The EMA of the shared weights; without tensors where the run has none.
        facts: What stood beside it.
    """

    server: Server
    ema: SharedState
    facts: dict[str, Any]


def store_server(
    folder: Path, round_: int, server: Server, ema: SharedState, facts: Mapping[str, Any]
) -> None:
    """Put the server's state on disk under a round."""
    write_state(folder, round_, server_tensors(server, ema), facts)


def server_tensors(server: Server, ema: SharedState) -> dict[str, Tensor]:
    """Return all tensors of a server's state by one name each."""
    optimizer = {} if server.optimizer is None else server.optimizer.state()
    held: dict[str, Mapping[str, Tensor]] = dict(
        zip(_PARTS, (server.shared, server.extra, optimizer, server.memory, ema), strict=True)
    )
    return {f"{part}/{name}": each for part in held for name, each in held[part].items()}


def restore_server(folder: Path, round_: int, like: Server, *, has_ema: bool) -> Stored:
    """Return the server as it was stored, on the device of `like`, and what stood beside it.

    Args:
        folder: Where servers are stored.
        round_: The round.
        like: The server that the run would begin with.
        has_ema: Whether the run averages the shared weights.

    Raises:
        FednerError: If it is another model's or another algorithm's than `like`, or has an EMA
            where the run has none, or none where it has.
    """
    tensors, facts = read_state(folder, round_)
    device = next((tensor.device for tensor in like.shared.values()), "cpu")
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    for key, tensor in tensors.items():
        part, _, name = key.partition("/")
        # The count of steps is read by Python: it has no business on a GPU.
        parts[part][name] = tensor if name == "steps" else tensor.to(device)
    _check(folder, round_, like, parts)
    if has_ema != bool(parts["ema"]):
        raise FednerError(
            f"{folder}: the stored server of round {round_} was "
            f"{'not averaged' if has_ema else 'averaged'}",
            "Resume with the ema_decay that the run began with.",
        )
    optimizer = None
    if like.optimizer is not None:
        optimizer = Optimizer.restored(like.optimizer.settings, parts["optimizer"])
    shared, extra = SharedState(parts["shared"]), SharedState(parts["extra"])
    server = Server(shared, extra, optimizer, parts["memory"])
    return Stored(server, SharedState(parts["ema"]), facts)


def _check(
    folder: Path, round_: int, like: Server, parts: Mapping[str, Mapping[str, Tensor]]
) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in like.shared.items()}
    if expected != {name: tuple(tensor.shape) for name, tensor in parts["shared"].items()}:
        raise FednerError(
            f"{folder}: the stored shared weights of round {round_} are not those of this model",
            "Resume with the recipe, the embeddings and the partition that the run began with.",
        )
    is_alike = (
        (like.optimizer is None) == (not parts["optimizer"])
        and set(like.memory) == set(parts["memory"])
        and set(like.extra) == set(parts["extra"])
    )
    if not is_alike:
        raise FednerError(
            f"{folder}: the stored server of round {round_} is that of another algorithm",
            "Resume with the algorithm that the run began with.",
        )
