"""What runs the platforms: the only difference between a simulation and a live federation."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from fedner.federated.aggregate import Reply
from fedner.federated.messages import Broadcast
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Scores


class Engine(Protocol):
    """Carries messages to platforms and back; the round loop is the same for every engine."""

    @property
    def platforms(self) -> Sequence[str]:
        """The platforms, sorted by name."""

    def round(self, broadcast: Broadcast, chosen: Sequence[str]) -> Iterable[Reply]:
        """Let the chosen platforms work, and give one reply of each, in any order.

        The replies may come one by one; the caller takes all of them before the next call.
        """

    def evaluate(self, broadcast: Broadcast) -> Mapping[str, Scores | NoisedScores]:
        """Return what every platform tells of its scores; those that tell nothing are left out."""

    def save(self, round_: int) -> None:
        """Let every platform put its state on its own disk under a round; the last two are kept."""

    def saved(self) -> Sequence[int]:
        """Return the rounds that every platform can go on from, oldest first."""

    def load(self, round_: int) -> None:
        """Let every platform go on from a saved round; 0 is the beginning."""

    def close(self) -> None:
        """End everything that the engine began; may be called twice."""
