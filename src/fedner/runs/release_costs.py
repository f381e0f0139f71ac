"""What releases cost: of a platform's events, by the accountants, in the form that records keep."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedner.federated.record import RoundRecord
from fedner.privacy.accountant import Spend, epsilon
from fedner.privacy.events import GaussianRelease
from fedner.privacy.scores import NoisedScores
from fedner.runs.records import PlatformSpent, StatedSpend


def spent_on(events: Sequence[GaussianRelease], delta: float) -> PlatformSpent:
    """Return what the releases of one run cost, as if there were no ledger."""
    spend = stated(epsilon(merged(events), delta))
    scores = [event for event in events if event.purpose == "statistics"]
    steps = [event for event in events if event.purpose != "statistics"]
    return PlatformSpent(
        rdp=spend.rdp,
        pld=spend.pld,
        delta=spend.delta,
        unit=spend.unit,
        adjacency=spend.adjacency,
        public_units=spend.public_units,
        steps=sum(event.steps for event in steps),
        simulation=spend.simulation,
        score_releases=sum(event.steps for event in scores),
        score_noise_multiplier=_distinct(event.noise_multiplier for event in scores),
        score_max_norm=_distinct(event.max_norm for event in scores),
        in_all=None,
        granted=None,
        ledger=None,
        noise_multiplier=_distinct(event.noise_multiplier for event in steps),
        max_grad_norm=_distinct(event.max_norm for event in steps),
        sampling_probability=_distinct(event.sampling_probability for event in steps),
        slices=len({event.slice for event in events if event.slice is not None}),
    )


def recorded_events(rounds: Sequence[RoundRecord], name: str) -> list[GaussianRelease]:
    """Return what a platform released by the coordinator's record: updates, then scores."""
    updates = [each.events[name] for each in rounds if name in each.events]
    scores = [each.scores.get(name) for each in rounds]
    return [*updates, *(each.event for each in scores if isinstance(each, NoisedScores))]


def merged(events: Iterable[GaussianRelease]) -> list[GaussianRelease]:
    """Return the events with like ones taken together: accountants then have less to do."""
    counts: Counter[GaussianRelease] = Counter()
    for event in events:
        counts[replace(event, steps=1)] += event.steps
    return [replace(event, steps=count) for event, count in counts.items()]


def stated(spend: Spend) -> StatedSpend:
    """Return what an accountant found in the form that records keep."""
    return StatedSpend(
        rdp=finite(spend.rdp),
        pld=finite(spend.pld),
        delta=spend.delta,
        unit=spend.unit,
        adjacency=spend.adjacency,
        public_units=spend.public_units,
        steps=spend.steps,
        simulation=spend.is_simulation,
    )


def finite(value: float) -> float | None:
    """Return an epsilon as JSON can carry it: None is that of a release without noise."""
    return value if math.isfinite(value) else None


def _distinct(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(sorted(set(values)))
