"""Epsilon as a run goes on: what was released up to some rounds, costed a few at a time.

The accountant takes a while for each, so it is asked for few rounds, and beside everything else.
"""

import math
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest

from fedner.privacy.accountant import (
    AccountantName,
    pld_epsilon,
    rdp_epsilon,
    tally,
    worst_cases,
)
from fedner.privacy.events import GaussianRelease
from fedner.runs.watch.snapshot import Curve
from fedner.runs.watch.thinned import Point

MOST_ROUNDS = 24  # of each platform
Released = tuple[tuple[GaussianRelease, int], ...]


@dataclass(slots=True)
class _Platform:
    """What one platform released up to some rounds, in order."""

    counts: Counter[GaussianRelease] = field(default_factory=Counter)
    round: int = 0
    stride: int = 1
    waiting: int = 0
    rounds: list[tuple[int, Released]] = field(default_factory=list)

    def add(self, round_: int, event: GaussianRelease) -> None:
        if round_ != self.round:
            self._keep()
        self.round = round_
        self.counts[_once(event)] += event.steps

    def _keep(self) -> None:
        """Keep what was released up to the round that is over, if it is time."""
        if not self.counts:
            return
        self.waiting += 1
        if self.waiting < self.stride:
            return
        self.waiting = 0
        self.rounds.append((self.round, self._released))
        if len(self.rounds) == MOST_ROUNDS:
            self.rounds = self.rounds[1::2]
            self.stride *= 2

    @property
    def _released(self) -> Released:
        return tuple(self.counts.items())

    @property
    def kept(self) -> list[tuple[int, Released]]:
        """The rounds that are drawn, the newest among them."""
        return [*self.rounds, (self.round, self._released)] if self.counts else []


class Spending:
    """What was released of each platform, and what that cost as far as it is known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # costed beside the reading
        self._held: dict[str, _Platform] = {}
        self._known: dict[Released, float] = {}

    def add(self, name: str, round_: int, event: GaussianRelease) -> None:
        """Count a release."""
        with self._lock:
            self._held.setdefault(name, _Platform()).add(round_, event)

    def newest(self, name: str) -> float | None:
        """Return the newest epsilon that is known; None where none is, or it is infinite."""
        known = self._points(name)
        return known[-1].mean if known else None

    @property
    def is_unbounded(self) -> bool:
        """Whether something was released without noise."""
        return any(math.isinf(cost) for cost in list(self._known.values()))

    def curves(self) -> tuple[Curve, ...]:
        """Return the curve of each platform, as far as it is known."""
        drawn = {name: self._points(name) for name in sorted(self._held)}
        return tuple(
            Curve(name, tuple(points), is_total=True) for name, points in drawn.items() if points
        )

    def cost_one(self, delta: float, accountant: AccountantName) -> bool:
        """Ask the accountant once, from the newest rounds on; whether there was anything to ask.

        Raises:
            FednerError: The accountant is not installed.
        """
        for released in self._wanted():
            if released not in self._known:
                self._known[released] = _cost(released, delta, accountant)
                return True
        return False

    def _wanted(self) -> list[Released]:
        with self._lock:
            kept = [each.kept for each in self._held.values()]
        from_newest = [[released for _, released in reversed(each)] for each in kept]
        return [each for row in zip_longest(*from_newest) for each in row if each is not None]

    def _points(self, name: str) -> list[Point]:
        with self._lock:
            kept = self._held[name].kept if name in self._held else []
        known = [(at, self._known.get(released)) for at, released in kept]
        return [
            Point(at, at, cost, cost, cost)
            for at, cost in known
            if cost is not None and math.isfinite(cost)
        ]


def _cost(released: Released, delta: float, accountant: AccountantName) -> float:
    """Return the epsilon of releases, as `fedner.privacy.epsilon` does, by one accountant alone."""
    events = [replace(event, steps=count) for event, count in released]
    by = rdp_epsilon if accountant == "rdp" else pld_epsilon
    return max((by(steps, delta) for steps in worst_cases(tally(events))), default=0.0)


@lru_cache(maxsize=1024)
def _once(event: GaussianRelease) -> GaussianRelease:
    return replace(event, steps=1)
