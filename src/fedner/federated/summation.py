"""How the replies of a round become one sum: in the clear, or in phases that hide each reply.

A `Summation` has a side at the platform, which may keep secrets between the phases of a round, and
a side at the coordinator, made anew for each round. The phases of a round:

    1 .. before             `sum` orders: keys and shares, relayed between platforms
    before + 1              the `round` order: each platform works, and sends what hides its update
    before + 2 .. + after   `sum` orders to those whose values came (`Order.batches` names them):
                            what is needed to take away the masks of those who dropped out

What a platform puts in is up to it: one that shall weigh more multiplies its update first. The
coordinator divides the total by the weights of those who are in it, or noises it.

`PLAIN` has no phases: updates come as they are, are screened one by one and folded by the rule of
the run. `secure_sum` hides them. `encrypted_sum` hides the sum too: the coordinator is blind then,
has no weights, and every platform keeps a copy of the server. To add another: a record like
`PLAIN`, with both sides (see `tests/extending/test_add_summation.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.messages import Order, SumMessage, Update
from fedner.tensors import SharedState, map_shared

Relayed = Mapping[str, Mapping[str, bytes]]
Totals = Mapping[str, Tensor]


class SumRefusedError(FednerError):
    """A phase of a summation that a platform refuses."""


class KeyEndedError(SumRefusedError):
    """A key that must not be used again: sums were altered, or copies of the server differ."""


class PlatformSum(Protocol):
    """A platform's side."""

    def num_sent(self, order: Order) -> int:
        """Return how often values of the order's round left, hidden, in this run.

        They may have been opened since without this platform. Under differential privacy a round
        that is asked for again is then another release.
        """

    def phase(self, order: Order) -> SumMessage:
        """Answer a `sum` order; secrets stay here."""

    def protect(self, order: Order, update: Update) -> Update | SumMessage:
        """Return what leaves in place of an update: itself, or `values_of` it, hidden."""


@runtime_checkable
class MirroringSum(PlatformSum, Protocol):
    """A platform's side where the coordinator has no weights: it keeps a copy of the server."""

    def filled(self, order: Order) -> Order:
        """Return an order with the weights of the copy."""

    def store(self, folder: Path, round_: int) -> None:
        """Store the copy after a round."""

    def load(self, folder: Path | None, newest: int, initial: SharedState) -> None:
        """Go on from the newest stored copy that is not newer than a round; else from none."""

    def finish(self, order: Order) -> None:
        """Let go of secrets after the last round."""


class ServerSum(Protocol):
    """The coordinator's side, for one round."""

    def relay(self, phase: int, messages: Mapping[str, SumMessage]) -> Relayed:
        """Return what each platform gets of the others in the next order: by recipient, sender."""

    def can_open(self, shares: Mapping[str, SumMessage]) -> bool:
        """Whether what came so far in the last phase suffices for the total."""

    def total(
        self, values: Mapping[str, SumMessage], after: Mapping[int, Mapping[str, SumMessage]]
    ) -> Totals:
        """Return the sum of what `values` hide, by the names of `values_of`.

        Args:
            values: What came to the `round` order, by platform.
            after: What came in the phases after it, by phase, then platform.

        Raises:
            FednerError: If the masks cannot be taken away.
        """


@dataclass(frozen=True, slots=True)
class Summation:
    """How replies become one sum.

    >>> import fedner
    >>> class Side:  # a platform's: `phase` and `protect`
    ...     def __init__(self, name):
    ...         self.name = name
    >>> fedner.Summation("masks", Side, before=1, after=1).num_phases
    3

    Attributes:
        name: Its name in records.
        at_platform: Makes a platform's side from its name; it lives as long as its process.
        at_server: Makes the coordinator's side of one round from the round's order; None if
            updates come in the clear.
        before: How many phases come before the values.
        after: How many come after them.
        tells_cost: Whether hidden values carry what they cost under differential privacy
            (`SumMessage.event`).
        blind: Makes the rounds of a coordinator without weights (`blind.BlindRounds`) from the
            server before the first round and the folder for sums; None if it has weights.
    """

    name: str
    at_platform: Callable[[str], PlatformSum]
    at_server: Callable[[Order], ServerSum] | None = None
    before: int = 0
    after: int = 0
    tells_cost: bool = False
    blind: Callable[..., Any] | None = None

    @property
    def hides_updates(self) -> bool:
        """Whether the coordinator sees no single update."""
        return self.at_server is not None or self.blind is not None

    @property
    def shows_costs(self) -> bool:
        """Whether the coordinator hears what updates cost under differential privacy."""
        return self.tells_cost or not self.hides_updates

    @property
    def num_phases(self) -> int:
        """All phases of a round, the values included."""
        return self.before + 1 + self.after


class _PlainSum:
    """The side of a platform that hides nothing."""

    def num_sent(self, order: Order) -> int:  # noqa: ARG002 - of the protocol
        """Return 0: what was sent is sent again as it was."""
        return 0

    def phase(self, order: Order) -> SumMessage:
        """Refuse: there is no such phase."""
        raise FednerError(f"phase {order.phase} of a plain sum, which has none")

    def protect(self, order: Order, update: Update) -> Update:  # noqa: ARG002 - of the protocol
        """Return the update as it is."""
        return update


def _plain_side(name: str) -> PlatformSum:  # noqa: ARG001 - the same for all
    return _PlainSum()


PLAIN = Summation("plain", _plain_side)


def values_of(update: Update) -> dict[str, Tensor]:
    """Return all tensors of an update by one name each: what a summation sums up."""
    flat = {f"tensors/{name}": tensor for name, tensor in update.tensors.items()}
    return flat | {f"extra/{name}": tensor for name, tensor in update.extra.items()}


def parts_of(totals: Totals) -> tuple[SharedState, SharedState]:
    """Return the tensors and the extras of a total.

    Raises:
        FednerError: If it has other names.
    """
    parts: dict[str, dict[str, Tensor]] = {"tensors": {}, "extra": {}}
    for key, tensor in totals.items():
        part, _, name = key.partition("/")
        if part not in parts or not name:
            raise FednerError(f"a total with {key!r:.60}; expected the names of `values_of`")
        parts[part][name] = tensor
    return SharedState(parts["tensors"]), SharedState(parts["extra"])


def divided_total(total: SharedState, weight: float, like: SharedState) -> SharedState:
    """Return a sum divided by its weight, in the types and on the devices of other tensors."""
    return map_shared(
        lambda all_, own: (all_.double() / weight).to(own.device, own.dtype), total, like
    )


def relayed_entries(messages: Mapping[str, SumMessage]) -> Relayed:
    """Return the entries of messages by recipient, then sender: the usual `ServerSum.relay`."""
    found: dict[str, dict[str, bytes]] = {}
    for sender, message in sorted(messages.items()):
        for recipient, data in message.entries.items():
            found.setdefault(recipient, {})[sender] = data
    return found
