"""From many updates to one: weighted mean, coordinate median, norm-bounded mean. Pure functions.

Sums are in float64 and run over the platforms sorted by name, so that the order of arrival changes
no bit. The mean is a running sum: a server that hears a thousand platforms holds one update.

Papers: the weighted mean is eq. 2 of Ge et al. 2020 and McMahan et al. 2017; the coordinate median
is that of Yin et al. 2018 ("Byzantine-robust distributed learning"), which knows no weights; norm
bounding is that of Sun et al. 2019 ("Can you really backdoor federated learning?").
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Protocol

import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.messages import Reply, Update, failure, is_name, nothing_shared
from fedner.tensors import SharedState, add_scaled, converted, divided, map_shared


class Fold(Protocol):
    """Takes states one by one, in canonical order, and gives their aggregate."""

    def add(self, state: SharedState, weight: float) -> None:
        """Take one more state; it is neither kept nor changed unless the rule needs all."""

    def result(self) -> SharedState:
        """Return the aggregate of at least one state, in the types of the first."""


Rule = Callable[[], Fold]


@dataclass(slots=True)
class WeightedMean:
    """The mean, weighted: a running float64 sum."""

    _sums: SharedState = field(default_factory=nothing_shared)
    _dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    _weight: float = 0.0

    def add(self, state: SharedState, weight: float) -> None:
        """Add one state."""
        if self._weight == 0.0:
            self._dtypes = {name: tensor.dtype for name, tensor in state.items()}
            self._sums = SharedState(converted(state, dict.fromkeys(state, torch.float64)))
            if state:
                torch._foreach_mul_(list(self._sums.values()), weight)
        else:
            add_scaled(self._sums, state, weight)
        self._weight += weight

    def result(self) -> SharedState:
        """Return the mean."""
        _require_states(self._weight > 0)
        return SharedState(divided(self._sums, self._weight, self._dtypes))


@dataclass(slots=True)
class CoordinateMedian:
    """The median of every single number; of an even count the mean of the middle two."""

    _states: list[SharedState] = field(default_factory=list)

    def add(self, state: SharedState, weight: float) -> None:
        """Keep one state; a median knows no weights."""
        del weight
        self._states.append(state)

    def result(self) -> SharedState:
        """Return the median."""
        _require_states(bool(self._states))
        return map_shared(_median, *self._states)


def _median(*tensors: Tensor) -> Tensor:
    ordered = torch.stack(tensors).double().sort(dim=0).values
    middle = len(tensors) // 2
    if len(tensors) % 2:
        return ordered[middle].to(tensors[0].dtype)
    return ((ordered[middle - 1] + ordered[middle]) / 2).to(tensors[0].dtype)


@dataclass(slots=True)
class NormBounded:
    """The weighted mean of states that are scaled down to a norm where theirs is larger.

    Attributes:
        bound: The norm; None takes the median norm of the round.
    """

    bound: float | None = None
    _mean: WeightedMean = field(default_factory=WeightedMean)
    _waiting: list[tuple[SharedState, float, float]] = field(default_factory=list)

    def add(self, state: SharedState, weight: float) -> None:
        """Add one state; with the median as bound all of them have to wait."""
        if self.bound is None:
            self._waiting.append((state, weight, shared_norm(state)))
        else:
            self._mean.add(scaled_to(state, self.bound, shared_norm(state)), weight)

    def result(self) -> SharedState:
        """Return the mean."""
        if self._waiting:
            bound = median(norm for _, _, norm in self._waiting)
            for state, weight, norm in self._waiting:
                self._mean.add(scaled_to(state, bound, norm), weight)
            self._waiting = []
        return self._mean.result()


def norm_bounded(bound: float | None = None) -> Rule:
    """Return the rule that bounds norms: by a number, or None for the median of the round."""
    if bound is not None and not bound > 0:
        raise FednerError(f"norm bound: found {bound}; expected above 0", "Give a positive norm.")
    return partial(NormBounded, bound)


RULES: dict[str, Rule] = {
    "mean": WeightedMean,
    "median": CoordinateMedian,
    "median-norm": norm_bounded(),
}


def shared_norm(state: SharedState) -> float:
    """Return the Euclidean norm over all tensors, in float64 and with one wait for the device."""
    if not state:
        return 0.0
    tensors = [state[name] for name in sorted(state)]
    norms = torch._foreach_norm(tensors, 2, torch.float64)
    return float(torch.linalg.vector_norm(torch.stack(norms)))


def scaled_to(state: SharedState, bound: float, norm: float) -> SharedState:
    """Return the state, scaled down to `bound` where its `norm` is larger."""
    if norm <= bound:
        return state
    return map_shared(lambda tensor: tensor * (bound / norm), state)


@dataclass(frozen=True, slots=True)
class Combined:
    """The result of one round.

    Attributes:
        tensors: The aggregate of the updates.
        extra: The weighted mean of the extra tensors.
        platforms: Whose updates are in it, sorted.
        share: Their share of the total weight of all platforms of the federation.
        joint_batch: How many sentences the chosen platforms were asked to draw together.
    """

    tensors: SharedState
    extra: SharedState
    platforms: tuple[str, ...]
    share: float = 1.0
    joint_batch: int = 0


def combine(
    updates: Iterable[Update],
    weights: Mapping[str, float],
    rule: Rule = WeightedMean,
    joint_batch: int = 0,
    scales: Mapping[str, float] | None = None,
) -> Combined:
    """Aggregate the updates of one round, which must come sorted by platform.

    Args:
        updates: At least one; each is read once and let go where the rule allows it.
        weights: The weight of every platform of the federation, taking part or not.
        rule: How tensors are aggregated; extras are always a weighted mean.
        joint_batch: How many sentences the chosen platforms were asked for.
        scales: What the tensors of some platforms are multiplied by before the rule sees them, for
            a rule that sums them up as they are (`server_noise`).

    Raises:
        FednerError: If there is no update, or they are not sorted.
    """
    main, extra = rule(), WeightedMean()
    factors = scales or {}
    platforms: list[str] = []
    for update in updates:
        if platforms and update.platform <= platforms[-1]:
            raise FednerError(
                f"update of {update.platform!r} after that of {platforms[-1]!r}; expected them "
                "sorted by platform",
                "Pass them through `in_canonical_order`.",
            )
        platforms.append(update.platform)
        main.add(_scaled(update.tensors, factors.get(update.platform)), weights[update.platform])
        extra.add(update.extra, weights[update.platform])
    _require_states(bool(platforms))
    share = share_of(platforms, weights)
    return Combined(main.result(), extra.result(), tuple(platforms), share, joint_batch)


def _scaled(state: SharedState, factor: float | None) -> SharedState:
    return state if factor is None else map_shared(lambda tensor: tensor * factor, state)


def share_of(platforms: Sequence[str], weights: Mapping[str, float]) -> float:
    """Return the weight of some platforms, sorted, among that of all."""
    return sum(weights[name] for name in platforms) / sum(weights[name] for name in sorted(weights))


def in_canonical_order(replies: Iterable[Reply], chosen: Sequence[str]) -> Iterator[Reply]:
    """Yield one reply for each chosen platform, sorted by name, whatever the order of arrival.

    Only replies that came before their turn wait in memory. A platform that never replied becomes a
    `Failure`; replies that nobody asked for come last, for `screening` to refuse.
    """
    order = sorted(chosen)
    awaited = set(order)
    early: dict[str, Reply] = {}
    unasked: list[Reply] = []
    turn = 0
    for reply in replies:
        if not is_name(reply.platform) or reply.platform not in awaited:
            unasked.append(reply)
            continue
        awaited.discard(reply.platform)
        early[reply.platform] = reply
        while turn < len(order) and order[turn] in early:
            turn += 1
            yield early.pop(order[turn - 1])
    for name in order[turn:]:
        if name in early:
            yield early.pop(name)
        else:
            yield failure(name, 0, "no-reply")
    yield from unasked


def _require_states(has_states: bool) -> None:
    if not has_states:
        raise FednerError("no update to aggregate", "At least one platform must have answered.")
