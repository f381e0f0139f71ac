"""Which updates are refused, and why: one bad platform must not spoil the weights of all.

Refused are updates of the wrong round or platform, of other names, shapes or types than the shared
weights, with numbers that are not finite, and absurd ones: of a norm above a bound, or above
`factor` times the median of the norms accepted lately. The first updates of a run have no past to
be held against: up to `FIRST_TOGETHER` of them are judged together, by their own median.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from statistics import median
from typing import Any, Literal, NamedTuple

import torch

from fedner.errors import FednerError
from fedner.federated.aggregate import Reply, shared_norm
from fedner.federated.messages import Broadcast, Failure, Update, payload_bytes
from fedner.federated.releases import RELEASE, mark_of
from fedner.privacy.ledger import check_mark
from fedner.privacy.ledger_chain import LedgerMark
from fedner.tensors import SharedState

OnRefusal = Literal["continue", "stop"]
Code = Literal["platform", "round", "names", "shape", "dtype", "not-finite", "norm", "ledger"]

FIRST_TOGETHER = 8
_ENOUGH = 3  # a median of fewer norms says nothing about the next
_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class NormRule:
    """When the norm of an update is absurd.

    Attributes:
        factor: Above this many times the median of the norms accepted lately; None for never.
        bound: Above this norm; None for never.
    """

    factor: float | None = 100.0
    bound: float | None = None


class Refusal(NamedTuple):
    """An update that was not taken.

    Attributes:
        platform: Whose it is.
        code: Why, as a constant.
        message: Why, in words.
    """

    platform: str
    code: Code
    message: str


class Accepted(NamedTuple):
    """What the record keeps of an update that was taken.

    Attributes:
        loss: The training loss, where it was sent.
        norm: The norm of its tensors.
        num_bytes: The bytes of tensors that it carried.
    """

    loss: float | None
    norm: float
    num_bytes: int


@dataclass(slots=True)
class Screen:
    """Lets through the updates of a round that are sound, and notes the others.

    Attributes:
        rule: When a norm is absurd.
        on_refusal: Whether a refused update ends the run.
        norms: The norms accepted lately, the latest last: part of the server's checkpoint.
        refusals: Those of the current round.
        failures: Those of the current round.
        accepted: What was let through in the current round, by platform.
        events: What the releases of the current round cost, refused ones included.
        marks: Where each platform's ledger stood last: part of the server's checkpoint.
        takes_float64: Whether updates may be wider than the weights: sums that the server noises.
    """

    rule: NormRule
    on_refusal: OnRefusal = "continue"
    norms: list[float] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    accepted: dict[str, Accepted] = field(default_factory=dict)
    events: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    marks: dict[str, LedgerMark] = field(default_factory=dict)
    takes_float64: bool = False

    def sound(self, replies: Iterable[Reply], broadcast: Broadcast) -> Iterator[Update]:
        """Yield the sound updates among replies, which come in canonical order.

        Raises:
            FednerError: On the first refusal, where the rule is to stop.
        """
        self.refusals, self.failures, self.accepted, self.events = [], [], {}, {}
        formed = self._formed(replies, broadcast)
        past = self.norms
        if len(past) < _ENOUGH:
            first = list(islice(formed, FIRST_TOGETHER))
            past, formed = [norm for _, norm in first], chain(first, formed)
        limit = self._limit(past)
        for update, norm in formed:
            if norm > limit:
                what = f"its norm is {norm:.4g}; expected at most {limit:.4g}"
                self._refuse(update.platform, "norm", what)
                continue
            self.accepted[update.platform] = Accepted(update.loss, norm, payload_bytes(update))
            yield update
        taken = [each.norm for each in self.accepted.values()]
        self.norms = [*self.norms, *taken][-_REMEMBERED:]

    def _formed(
        self, replies: Iterable[Reply], broadcast: Broadcast
    ) -> Iterator[tuple[Update, float]]:
        """Yield the updates of right form, all finite, with their norms."""
        seen: set[str] = set()
        for reply in replies:
            if isinstance(reply, Failure):
                self.failures.append(reply)
                continue
            problem = malformed(reply, broadcast, self.takes_float64)
            if problem is None and reply.platform in seen:
                problem = ("platform", "it answered twice")
            seen.add(reply.platform)
            problem = problem or self._unlike_its_ledger(reply)
            if problem is not None:
                self._refuse(reply.platform, *problem)
                continue
            norm = shared_norm(reply.tensors)
            if math.isfinite(norm) and math.isfinite(shared_norm(reply.extra)):
                yield reply, norm
            else:
                self._refuse(reply.platform, "not-finite", "it has numbers that are not finite")

    def _unlike_its_ledger(self, update: Update) -> tuple[Code, str] | None:
        """Note what a release cost; return what is wrong with the ledger behind it, or None."""
        if update.event is None:
            return None
        self.events[update.platform] = update.event.get(RELEASE, {})
        try:
            mark = mark_of(update)
            if mark is not None:
                check_mark(update.platform, self.marks.get(update.platform), mark)
                self.marks[update.platform] = mark
        except FednerError as error:
            return "ledger", error.message
        return None

    def _limit(self, past: list[float]) -> float:
        limit = math.inf if self.rule.bound is None else self.rule.bound
        if self.rule.factor is not None and len(past) >= _ENOUGH:
            limit = min(limit, self.rule.factor * median(past))
        return limit

    def _refuse(self, platform: str, code: Code, message: str) -> None:
        self.refusals.append(Refusal(platform, code, message))
        if self.on_refusal == "stop":
            raise FednerError(
                f"the update of platform {platform!r} was refused: {message}",
                'Look at that platform, then resume; or set on_refusal to "continue".',
            )


def malformed(
    update: Update, broadcast: Broadcast, takes_float64: bool = False
) -> tuple[Code, str] | None:
    """Return what is wrong with the form of an update, or None."""
    if update.platform not in broadcast.batches:
        return "platform", f"it was not chosen for round {broadcast.round}"
    if update.round != broadcast.round:
        return "round", f"it answers round {update.round}; expected {broadcast.round}"
    wide = torch.float64 if takes_float64 else None
    found = _unlike(update.tensors, broadcast.shared, wide)
    if found is None and broadcast.extra:
        found = _unlike(update.extra, broadcast.extra)
    elif found is None and update.extra:
        found = ("names", f"it carries extra tensors {sorted(update.extra)[:3]}; expected none")
    if found is None and update.loss is not None and not math.isfinite(update.loss):
        found = ("not-finite", f"its loss is {update.loss}")
    return found


def _unlike(
    state: SharedState, like: SharedState, also: torch.dtype | None = None
) -> tuple[Code, str] | None:
    if set(state) != set(like):
        odd = sorted(set(state) ^ set(like))
        return "names", f"its tensors and the shared weights differ in {odd[:5]}"
    for name in sorted(like):
        tensor, expected = state[name], like[name]
        if tensor.shape != expected.shape:
            shapes = f"{tuple(tensor.shape)}; expected {tuple(expected.shape)}"
            return "shape", f"tensor {name!r} has shape {shapes}"
        if tensor.dtype not in (expected.dtype, also):
            return "dtype", f"tensor {name!r} is {tensor.dtype}; expected {expected.dtype}"
    return None
