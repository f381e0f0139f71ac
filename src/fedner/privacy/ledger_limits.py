"""Limits of a platform's policy on what its ledger lets go: for one study, or for all together.

The owner's grant stands in the ledger itself; these come from the platform's settings, hold beside
it, and count what was released before.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fedner.errors import FednerError
from fedner.privacy.budget import Budget, BudgetGate
from fedner.privacy.events import Event
from fedner.privacy.ledger_chain import ReleaseEntry


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that may be spent.

    Attributes:
        key: The key of platform.toml that says so.
        budget: How much.
        study: The digest of the study that it bounds, over all its runs; None bounds all.
    """

    key: str
    budget: Budget
    study: str | None = None

    def bounds(self, study: str) -> bool:
        """Whether releases of a study count."""
        return self.study is None or self.study == study


class SpendingLimits:
    """Lets releases through while everything together stays within every limit."""

    def __init__(self, limits: Iterable[Limit] = (), released: Iterable[ReleaseEntry] = ()) -> None:
        past = list(released)
        self._gates = [(limit, BudgetGate(limit.budget, _bounded(limit, past))) for limit in limits]

    def require(self, event: Event, study: str) -> None:
        """Raise unless `event` of a study fits every limit.

        Raises:
            FednerError: Naming the limit.
        """
        for limit, gate in self._gates:
            if limit.bounds(study):
                try:
                    gate.require(event)
                except FednerError as error:
                    raise FednerError(f"{limit.key}: {error.message}", _HINT) from error

    def admit(self, event: Event, study: str) -> None:
        """Count `event` as released; `require` it first."""
        for limit, gate in self._gates:
            if limit.bounds(study):
                gate.admit(event)


_HINT = "Stop here, or raise it in platform.toml."


def _bounded(limit: Limit, past: Iterable[ReleaseEntry]) -> list[Event]:
    return [entry.event for entry in past if limit.bounds(entry.charge.study)]
