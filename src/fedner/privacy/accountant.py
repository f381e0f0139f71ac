"""What the recorded releases cost: epsilon at a delta, by two accountants of `dp-accounting`.

RDP: Mironov (2017), subsampled by Mironov, Talwar and Zhang (2019). PLD: Koskela, Jälkö and Honkela
(2020); discretised by connect-the-dots, Doroshenko et al. (2022). Both are upper bounds; PLD is the
tighter one. Everything is computed from sampling probabilities and executed steps, per platform.

The privacy-loss distribution is put on a grid. The interval is a fifth of one step's standard
deviation of loss, between 1e-6 and 1e-3, or coarser where there would be millions of points: then
the bound is within half a percent of the limit of fine grids on every setting that was tried, in
less than two seconds. A coarser grid costs tightness, never validity: the estimate is pessimistic.
"""

import functools
import importlib
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from fedner.errors import FednerError
from fedner.privacy.events import Adjacency, DeclaredUse, Event, GaussianRelease, Slice, Unit

AccountantName = Literal["pld", "rdp"]
Step = tuple[float, float]  # effective noise multiplier, sampling probability
Steps = Mapping[Step, int]  # how often each kind of step was executed
Tally = Mapping[tuple[Slice | None, Step], int]  # the same, by the slice that was touched

_INTERVALS = tuple(float(f"{base}e{power}") for power in range(-6, 0) for base in (1, 2, 5))
_COARSEST_WANTED = 1e-3
_MAX_POINTS = 500_000
_MAX_COMBINATIONS = 64
_SMALLEST_NOISE, _LARGEST_NOISE = 0.05, 2.0**20
_LEAST_ON_A_GRID = 0.1


@dataclass(frozen=True, slots=True)
class Spend:
    """What was spent on one platform, and what it protects: everything that a report must say.

    Attributes:
        rdp: Epsilon by Rényi accounting.
        pld: Epsilon by privacy-loss distributions.
        delta: The delta of both.
        unit: Whose presence is protected; None if nothing was released.
        adjacency: Which data sets count as neighbours; None likewise.
        public_units: The declared sizes n_i that occur, sorted.
        steps: How many noised steps were executed in all.
        is_simulation: Whether any noise or sample came from a seed: then nobody is protected.
        declared: Uses of protected data that are not in epsilon.
    """

    rdp: float
    pld: float
    delta: float
    unit: Unit | None
    adjacency: Adjacency | None
    public_units: tuple[int, ...]
    steps: int
    is_simulation: bool
    declared: tuple[str, ...]

    def by(self, accountant: AccountantName) -> float:
        """Return the epsilon of one accountant."""
        return self.pld if accountant == "pld" else self.rdp


def epsilon(events: Iterable[Event], delta: float) -> Spend:
    """Return what `events` of one platform cost together, by both accountants.

    Guarantee:
        (epsilon, delta)-differential privacy of everything that was released, for the unit and
        adjacency of the events, by sequential composition and, over disjoint slices, parallel.

    Edge cases:
        No release costs 0. A release without noise costs infinity. Events of different units or
        adjacencies have no common epsilon and are an error.
    """
    require_delta(delta)
    events = list(events)
    releases = [event for event in events if isinstance(event, GaussianRelease)]
    kinds = {(release.unit, release.adjacency) for release in releases}
    if len(kinds) > 1:
        raise FednerError(
            f"Releases protect different things: found {sorted(kinds)}; expected one unit and one "
            "adjacency.",
            "Ask for each unit apart; an epsilon for sentences says nothing about patients.",
        )
    unit, adjacency = next(iter(kinds)) if kinds else (None, None)
    worst = worst_cases(tally(releases))
    return Spend(
        rdp=max((rdp_epsilon(steps, delta) for steps in worst), default=0.0),
        pld=max((pld_epsilon(steps, delta) for steps in worst), default=0.0),
        delta=delta,
        unit=unit,
        adjacency=adjacency,
        public_units=tuple(sorted({release.public_units for release in releases})),
        steps=sum(release.steps for release in releases),
        is_simulation=any(event.is_simulation for event in events),
        declared=tuple(event.description for event in events if isinstance(event, DeclaredUse)),
    )


def tally(releases: Iterable[GaussianRelease]) -> Counter[tuple[Slice | None, Step]]:
    """Return how often each kind of step was executed on each slice."""
    counts: Counter[tuple[Slice | None, Step]] = Counter()
    for release in releases:
        step = (float(release.effective_multiplier), float(release.sampling_probability))
        counts[release.slice, step] += release.steps
    return counts


def worst_cases(executed: Tally) -> list[Steps]:
    """Return the steps that a unit may have taken part in, for each unit that could be worst off.

    A unit lies in one slice of every slicing. Slices that another one covers are left out; if many
    combinations remain, one is returned that covers them all.
    """
    everywhere: Counter[Step] = Counter()
    slicings: dict[str, dict[str, Counter[Step]]] = {}
    for (part, step), count in executed.items():
        if part is None:
            everywhere[step] += count
        else:
            slices = slicings.setdefault(part.slicing, {})
            slices.setdefault(part.name, Counter())[step] += count
    choices = [_uncovered(list(slices.values())) for slices in slicings.values()]
    if math.prod(len(choice) for choice in choices) > _MAX_COMBINATIONS:
        choices = [[functools.reduce(Counter.__or__, choice)] for choice in choices]
    return [sum(parts, everywhere.copy()) for parts in product(*choices)]


def _uncovered(slices: Sequence[Counter[Step]]) -> list[Counter[Step]]:
    kept: list[Counter[Step]] = []
    for counts in slices:
        if any(counts <= other for other in kept):
            continue
        kept = [other for other in kept if not other <= counts]
        kept.append(counts)
    return kept


def rdp_epsilon(steps: Steps, delta: float) -> float:
    """Return epsilon of a composition by Rényi accounting."""
    if not steps:
        return 0.0
    if any(noise == 0 for noise, _ in steps):
        return math.inf
    rdp = _dp_accounting("rdp")
    total: Any = sum(count * _rdp_of(*step) for step, count in sorted(steps.items()))
    orders = rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS
    return float(rdp.compute_epsilon(orders, total, delta)[0])


def pld_epsilon(steps: Steps, delta: float) -> float:
    """Return epsilon of a composition by privacy-loss distributions.

    Where there is hardly any noise the grid of losses would not fit into memory: then it is the
    Rényi bound, which holds too.
    """
    if not steps:
        return 0.0
    if any(noise == 0 for noise, _ in steps):
        return math.inf
    if any(noise < _LEAST_ON_A_GRID for noise, _ in steps):
        return rdp_epsilon(steps, delta)
    return _pld_epsilon(tuple(sorted(steps.items())), delta)


# Equal platforms ask for the same steps again and again.
@functools.lru_cache(maxsize=256)
def _pld_epsilon(steps: tuple[tuple[Step, int], ...], delta: float) -> float:
    interval = discretisation(dict(steps))
    parts = [
        composed_pld(noise, probability, count, interval) for (noise, probability), count in steps
    ]
    return float(functools.reduce(_compose, parts).get_epsilon_for_delta(delta))


def composed_pld(noise: float, probability: float, count: int, interval: float) -> Any:
    """Return the privacy-loss distribution of `count` equal steps."""
    if probability == 1:  # n full-batch steps are one with noise smaller by sqrt(n), exactly
        return _pld_of(noise / math.sqrt(count), 1.0, interval)
    return _pld_of(noise, probability, interval).self_compose(count)


def discretisation(steps: Steps) -> float:
    """Return the interval on which privacy losses are discretised, from a fixed list."""
    wanted, needed = _COARSEST_WANTED, 0.0
    for (noise, probability), count in steps.items():
        scale = noise / math.sqrt(count) if probability == 1 else noise
        deviation = probability * math.sqrt(math.expm1(min(scale**-2, 600.0)))
        wanted = min(wanted, deviation / 5)
        needed = max(needed, (10 / scale + 0.5 / scale**2) / _MAX_POINTS)
    finest = max(wanted, needed)
    return max((one for one in _INTERVALS if one <= finest), default=_INTERVALS[0])


def noise_for(
    target_epsilon: float,
    *,
    sampling_probability: float,
    steps: int,
    delta: float,
    accountant: AccountantName = "pld",
    besides: Steps | None = None,
) -> float:
    """Return the smallest noise multiplier, to 4 digits, whose spend stays within the target.

    Guarantee:
        The epsilon of the returned multiplier, by `accountant` and together with the steps
        `besides` that are taken with a noise of their own, is at most `target_epsilon`.

    Raises:
        FednerError: If the target is not a positive number or no noise reaches it.
    """
    require_delta(delta)
    if not (math.isfinite(target_epsilon) and target_epsilon > 0):
        raise FednerError(f"The target epsilon is {target_epsilon}; expected a number above 0.")
    if not 0 < sampling_probability <= 1 or steps < 1:
        raise FednerError(
            f"Found sampling probability {sampling_probability} and {steps} steps; expected a "
            "probability in (0, 1] and at least one step."
        )
    by_accountant = rdp_epsilon if accountant == "rdp" else pld_epsilon

    def spend(noise: float) -> float:
        own = Counter({(noise, sampling_probability): steps})
        return by_accountant(own + Counter(besides or {}), delta)

    low, high = _bracket(spend, target_epsilon)
    if low < high:
        # Epsilon is close to a power of the noise, so in logarithms a few trials are enough.
        optimize = importlib.import_module("scipy.optimize")
        high = math.exp(
            optimize.brentq(
                lambda log_noise: math.log(spend(math.exp(log_noise)) / target_epsilon),
                math.log(low),
                math.log(high),
                xtol=2e-5,
            )
        )
    return _rounded_up(high, lambda noise: spend(noise) <= target_epsilon)


def _bracket(spend: Callable[[float], float], target_epsilon: float) -> tuple[float, float]:
    """Return a noise that spends more than the target and twice it, which does not."""
    high = 1.0
    while spend(high) > target_epsilon:
        high *= 2
        if high > _LARGEST_NOISE:
            raise FednerError(
                f"No noise multiplier up to {_LARGEST_NOISE:,.0f} reaches epsilon "
                f"{target_epsilon}.",
                "Take a larger epsilon, fewer steps or a smaller sampling probability.",
            )
    while spend(high / 2) <= target_epsilon:
        high /= 2
        if high < _SMALLEST_NOISE:
            return high, high  # so little noise that nobody would call it private
    return high / 2, high


def _rounded_up(noise: float, fits: Callable[[float], bool]) -> float:
    """Return `noise` with 4 significant digits, rounded up until it fits."""
    unit = 10.0 ** (math.floor(math.log10(noise)) - 3)
    multiple = math.floor(noise / unit)
    while not fits(float(f"{multiple * unit:.4g}")):
        multiple += 1
    return float(f"{multiple * unit:.4g}")


def require_delta(delta: float) -> None:
    """Raise unless `delta` is a probability that makes sense."""
    if not 0 < delta < 1:
        raise FednerError(
            f"Delta is {delta}; expected a number between 0 and 1.",
            "Take at most one over the number of units, such as 1e-5.",
        )


@functools.lru_cache(maxsize=256)
def _rdp_of(noise: float, probability: float) -> Any:
    events, rdp = _dp_accounting("dp_event"), _dp_accounting("rdp")
    step = events.PoissonSampledDpEvent(probability, events.GaussianDpEvent(noise))
    # It warns of every order that it leaves out; leaving one out only loosens the bound.
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return rdp.RdpAccountant().compose(step).rdp
    finally:
        logger.setLevel(level)


@functools.lru_cache(maxsize=8)
def _pld_of(noise: float, probability: float, interval: float) -> Any:
    distribution = _dp_accounting("pld.privacy_loss_distribution")
    return distribution.from_gaussian_mechanism(
        noise, value_discretization_interval=interval, sampling_prob=probability
    )


def _compose(left: Any, right: Any) -> Any:
    return left.compose(right, tail_mass_truncation=1e-15)


def _dp_accounting(module: str) -> Any:
    try:
        return importlib.import_module(f"dp_accounting.{module}")
    except ImportError as error:
        raise FednerError(
            "Privacy accounting needs the package dp-accounting, which is not installed.",
            "Install it: pip install 'fedner[privacy]'.",
        ) from error
