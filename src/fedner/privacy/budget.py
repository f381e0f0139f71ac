"""What a platform is willing to spend in all, and whether one more release still fits.

The decision is exact at the border: a release is let through if and only if everything together,
that release included, is within the budget by the budget's accountant. With PLD the looser RDP may
vouch for it too, being an upper bound and cheap, as may a larger composition known to fit.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from fedner.errors import FednerError
from fedner.privacy.accountant import (
    AccountantName,
    Step,
    Steps,
    pld_epsilon,
    rdp_epsilon,
    tally,
    worst_cases,
)
from fedner.privacy.events import Adjacency, Event, GaussianRelease, Unit


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that may ever be released about a unit of this platform, over all runs and studies.

    Attributes:
        epsilon: The bound on epsilon.
        delta: At this delta.
        unit: Whose presence is protected.
        adjacency: Which data sets count as neighbours.
        accountant: Whose epsilon counts.
    """

    epsilon: float
    delta: float
    unit: Unit
    adjacency: Adjacency = "add_or_remove_one"
    accountant: AccountantName = "pld"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise FednerError(f"The budget's epsilon is {self.epsilon}; expected a number above 0.")
        if not 0 < self.delta < 1:
            raise FednerError(f"The budget's delta is {self.delta}; expected between 0 and 1.")
        for name, value, choices in (
            ("unit", self.unit, get_args(Unit)),
            ("adjacency", self.adjacency, get_args(Adjacency)),
            ("accountant", self.accountant, get_args(AccountantName)),
        ):
            if value not in choices:
                raise FednerError(f"The budget's {name} is {value!r}; expected one of {choices}.")


def described(budget: Budget) -> str:
    """Return a budget in words."""
    return (
        f"epsilon {budget.epsilon:g} at delta {budget.delta:g} for one {budget.unit} "
        f"({budget.adjacency}, {budget.accountant.upper()})"
    )


def delta_problem(delta: float, public_units: int) -> str | None:
    """Return why a delta promises nothing, or None.

    A mechanism that publishes each unit with probability delta satisfies (0, delta): above one over
    the number of units it may publish somebody every time.
    """
    if delta * public_units <= 1:
        return None
    return (
        f"delta is {delta:g}, more than one over the public size of {public_units:,} units "
        f"({1 / public_units:.2g}): that allows to publish a unit outright"
    )


def delta_warning(delta: float, public_units: int) -> str | None:
    """Return why a delta that is allowed is still large, or None."""
    if not 0.1 < delta * public_units <= 1:
        return None
    return (
        f"delta is {delta:g}, more than a tenth of one over the public size of {public_units:,} "
        f"units: at most {0.1 / public_units:.2g} is better"
    )


class BudgetGate:
    """Lets releases through while everything together stays within a budget."""

    def __init__(self, budget: Budget, released: Iterable[Event] = ()) -> None:
        self.budget = budget
        past = [event for event in released if isinstance(event, GaussianRelease)]
        for release in past:
            self._require_same_kind(release)
        self._executed = tally(past)
        self._known_to_fit: Counter[Step] = Counter()
        self._lookahead = 8

    def require(self, event: Event) -> None:
        """Raise unless `event` fits beside everything that was admitted before.

        Raises:
            FednerError: If the budget would be exceeded, or the event protects something else.
        """
        if not isinstance(event, GaussianRelease):
            return
        self._require_same_kind(event)
        [(_, step)] = tally([event])
        for steps in worst_cases(self._executed + tally([event])):
            if not self._fits(steps, step, event.steps):
                raise self._refusal(event, steps)

    def admit(self, event: Event) -> None:
        """Count `event` as released; `require` it first."""
        if isinstance(event, GaussianRelease):
            self._executed += tally([event])

    def _fits(self, steps: Steps, step: Step, num_steps: int) -> bool:
        limit, delta = self.budget.epsilon, self.budget.delta
        if rdp_epsilon(steps, delta) <= limit:
            return True
        if self.budget.accountant == "rdp":
            return False
        if Counter(steps) <= self._known_to_fit:
            return True
        if pld_epsilon(steps, delta) > limit:
            return False
        # Rounds are alike: if many more of this kind fit too, the next ones need no computation.
        ahead = Counter(steps) + Counter({step: num_steps * self._lookahead})
        if pld_epsilon(ahead, delta) <= limit:
            self._known_to_fit, self._lookahead = ahead, self._lookahead * 2
        else:
            self._lookahead = max(1, self._lookahead // 4)
        return True

    def _require_same_kind(self, release: GaussianRelease) -> None:
        found = (release.unit, release.adjacency)
        expected = (self.budget.unit, self.budget.adjacency)
        if found != expected:
            raise FednerError(
                f"A release protects {found[0]} under {found[1]}; the budget is for {expected[0]} "
                f"under {expected[1]}.",
                "Run with the budget's unit, or keep another ledger with its own budget for "
                "data that this one does not cover.",
            )

    def _refusal(self, event: GaussianRelease, steps: Steps) -> FednerError:
        spend = pld_epsilon if self.budget.accountant == "pld" else rdp_epsilon
        found = spend(steps, self.budget.delta)
        return FednerError(
            f"Refused: {event.steps} more step(s) with noise {event.noise_multiplier:g} would "
            f"bring epsilon to {found:.6g} ({self.budget.accountant.upper()}, delta "
            f"{self.budget.delta:g}); the budget of this platform is {self.budget.epsilon:g}.",
            "Stop here, or let the owner raise the budget: `fedner privacy budget`.",
        )
