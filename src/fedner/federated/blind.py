"""Rounds of a coordinator that sees neither updates nor sums nor weights."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from fedner.federated.engine import Engine
from fedner.federated.messages import Order
from fedner.federated.record import Missing
from fedner.federated.round import RoundRules
from fedner.federated.screening import Screen


class HandedOut(NamedTuple):
    """What came of a round whose sum platforms alone can read.

    Attributes:
        missing: Who did not answer.
        bytes_down: The bytes of tensors that each platform was sent.
    """

    missing: tuple[Missing, ...]
    bytes_down: int


class BlindRounds(Protocol):
    """What a coordinator without weights does in place of its own rounds."""

    def begin(self) -> None:
        """Begin anew: what was kept of another beginning is dropped."""

    def take(self, engine: Engine, order: Order, screen: Screen, rules: RoundRules) -> HandedOut:
        """Take a round: all platforms have the next weights afterwards."""

    def settle(self, engine: Engine, order: Order, rules: RoundRules) -> Sequence[Missing]:
        """Bring all platforms to the last round; return who is missing."""

    def note_stored(self, stored: Mapping[str, Sequence[int]], names: Sequence[str]) -> None:
        """Note from which rounds platforms can go on."""
