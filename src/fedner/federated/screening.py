"""Which updates are refused, and why: one bad platform must not spoil the weights of all.

Refused are replies of another form than an update, updates of the wrong round or platform, of other
names, shapes or types than the shared weights, with numbers that are not finite, and absurd ones:
of a norm above a bound, or above `factor` times what was usual in this run. The first updates of a
run have no past to be held against: up to `FIRST_TOGETHER` of them are judged together, by their
own median. Whatever a platform sends, the server goes on.

Usual is the largest median that the norms accepted lately ever had. Gradients vanish where a small
corpus is learned by heart, and one hard sentence then has a thousand times the norm of the last
ones: no more than every sentence had at the beginning, and no reason to end a run. What is kept for
good is the lower median: one platform of two, absurd for a while, does not make it usual.

Extra tensors, as SCAFFOLD's control variates, are judged in the same way among themselves.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from statistics import median, median_low
from typing import Any, Literal, NamedTuple

import torch

from fedner.errors import FednerError
from fedner.federated.aggregate import shared_norm
from fedner.federated.encoding import TYPES_UP, decode_update, encoding_problem
from fedner.federated.failure_codes import FAILURES
from fedner.federated.messages import (
    Failure,
    Order,
    Reply,
    SumMessage,
    Update,
    fact_problem,
    failure,
    is_name,
    mark_of,
    payload_bytes,
    release_of,
)
from fedner.privacy.events import GaussianRelease, is_alike
from fedner.privacy.ledger_marks import LedgerMark, check_mark
from fedner.settings.sections import Encoding
from fedner.tensors import SharedState

OnRefusal = Literal["continue", "stop"]
Code = Literal[
    "form", "platform", "round", "names", "shape", "dtype", "not-finite", "norm", "ledger"
]

FIRST_TOGETHER = 8
_ENOUGH = 3  # a median of fewer norms says nothing about the next
_REMEMBERED = 64
_SHOWN = 60  # characters of a name that is none


@dataclass(frozen=True, slots=True)
class PlannedReleases:
    """What platforms release by the study: public facts, their noise multipliers apart.

    What a platform states of its cost goes into the record of all. With another unit, or steps
    beyond measure, no accountant could say what the run cost.

    Attributes:
        update: Returns the release of an update, of its platform, round and batch.
        scores: Returns that of scores by round, of their platform; None where none are disclosed.
    """

    update: Callable[[str, int, int], GaussianRelease]
    scores: Callable[[str], GaussianRelease | None]


@dataclass(frozen=True, slots=True)
class NormRule:
    """When the norm of an update is absurd.

    Attributes:
        factor: Above this many times the usual norm; None for never.
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


class _Formed(NamedTuple):
    """An update of right form, decoded and finite, with its norms and the bytes it came in."""

    update: Update
    norm: float
    extra_norm: float
    num_bytes: int


class Accepted(NamedTuple):
    """What the record keeps of an update that was taken.

    Attributes:
        loss: The training loss, where it was sent.
        norm: The norm of its tensors; None where nobody could see it.
        num_bytes: The bytes of tensors that it carried.
    """

    loss: float | None
    norm: float | None
    num_bytes: int


@dataclass(slots=True)
class Screen:
    """Lets through the sound updates of a round, and notes the others.

    Attributes:
        rule: When a norm is absurd.
        on_refusal: Whether a refused update ends the run.
        norms: The norms accepted lately, the latest last: part of the server's checkpoint.
        usual_norm: The largest median that they had so far: part of the server's checkpoint.
        extra_norms: Those of extra tensors, where the algorithm sends any; in the checkpoint too.
        usual_extra_norm: The largest median that these had so far; in the checkpoint too.
        refusals: Those of the current round.
        failures: Those of the current round.
        accepted: What was let through in the current round, by platform.
        events: What the releases of the current round cost, refused ones included.
        marks: Where each platform's ledger stood last: part of the server's checkpoint.
        takes_float64: Whether updates may be wider than the weights: sums that the server noises.
        encoding: In which numbers updates travel; those that are let through are decoded.
        planned: What releases cost by the study; None holds what platforms state against nothing.
        needs_costs: Whether an update that does not say what it cost is refused.
    """

    rule: NormRule
    on_refusal: OnRefusal = "continue"
    norms: list[float] = field(default_factory=list)
    usual_norm: float = 0.0
    extra_norms: list[float] = field(default_factory=list)
    usual_extra_norm: float = 0.0
    refusals: list[Refusal] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    accepted: dict[str, Accepted] = field(default_factory=dict)
    events: dict[str, GaussianRelease] = field(default_factory=dict)
    marks: dict[str, LedgerMark] = field(default_factory=dict)
    takes_float64: bool = False
    encoding: Encoding = "float32"
    planned: PlannedReleases | None = None
    needs_costs: bool = False

    def begin(self) -> None:
        """Begin a round: what is noted of the last one goes."""
        self.refusals, self.failures, self.accepted, self.events = [], [], {}, {}

    def accepted_updates(self, replies: Iterable[Reply], broadcast: Order) -> Iterator[Update]:
        """Yield the updates that are accepted among replies, which come in canonical order.

        Raises:
            FednerError: On the first refusal, where the rule is to stop.
        """
        self.begin()
        formed = self._formed(replies, broadcast)
        past, past_extra = self.norms, self.extra_norms
        if len(past) < _ENOUGH:
            first = list(islice(formed, FIRST_TOGETHER))
            past, formed = [each.norm for each in first], chain(first, formed)
            past_extra = [each.extra_norm for each in first]
        limits = self._limit(past), self._limit_extra(past_extra)
        taken_extra: list[float] = []
        for each in formed:
            what = _absurd(each, *limits)
            if what is not None:
                self._refuse(each.update.platform, "norm", what)
                continue
            accepted = Accepted(each.update.loss, each.norm, each.num_bytes)
            self.accepted[each.update.platform] = accepted
            if broadcast.extra:
                taken_extra.append(each.extra_norm)
            yield each.update
        taken = [each.norm for each in self.accepted.values() if each.norm is not None]
        self.norms = [*self.norms, *taken][-_REMEMBERED:]
        self.usual_norm = max(self.usual_norm, _lasting(self.norms))
        self.extra_norms = [*self.extra_norms, *taken_extra][-_REMEMBERED:]
        self.usual_extra_norm = max(self.usual_extra_norm, _lasting(self.extra_norms))

    def stored(self, *, with_norms: bool) -> dict[str, Any]:
        """Return what the server's checkpoint keeps."""
        marks = {name: asdict(mark) for name, mark in self.marks.items()}
        if not with_norms:
            return {"norms": [], "marks": marks}
        kept = {"norms": self.norms, "usual_norm": self.usual_norm, "marks": marks}
        if self.extra_norms:
            kept |= {"extra_norms": self.extra_norms, "usual_extra_norm": self.usual_extra_norm}
        return kept

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Take what a checkpoint kept; an earlier version's has the latest norms alone."""
        self.norms = [float(norm) for norm in facts["norms"]]
        self.usual_norm = float(facts.get("usual_norm", _lasting(self.norms)))
        self.extra_norms = [float(norm) for norm in facts.get("extra_norms", ())]
        self.usual_extra_norm = float(facts.get("usual_extra_norm", 0.0))
        self.marks = {name: LedgerMark(**mark) for name, mark in facts.get("marks", {}).items()}

    def _formed(self, replies: Iterable[Reply], broadcast: Order) -> Iterator[_Formed]:
        """Yield the updates of right form, decoded and finite, with their norms and bytes."""
        seen: set[str] = set()
        for reply in replies:
            if isinstance(reply, Failure):
                self._note_failure(_in_our_words(reply, broadcast))
                continue
            if not isinstance(reply, Update):
                self._refuse(_shown(reply), "form", "it is not an update")
                continue
            name, update = _shown(reply), reply
            norm = extra = math.inf
            try:
                problem = malformed(reply, broadcast, self.takes_float64, self.encoding)
                if problem is None and name in seen:
                    problem = ("platform", "it answered twice")
                seen.add(name)
                problem = problem or self._odd_cost(reply, broadcast.batches.get(name, 1))
                if problem is None:
                    update = decode_update(reply, broadcast.shared)
                    norm, extra = shared_norm(update.tensors), shared_norm(update.extra)
            except Exception:  # noqa: BLE001 - whatever a platform sent, the server goes on
                problem = ("form", "it is not an update that can be read")
            if problem is None and not (math.isfinite(norm) and math.isfinite(extra)):
                problem = ("not-finite", "it has numbers that are not finite")
            if problem is not None:
                self._refuse(name, *problem)
                continue
            yield _Formed(update, norm, extra, payload_bytes(reply))

    def _note_failure(self, failed: Failure) -> None:
        """Note a failure; an update that its own engine would not carry is a refused one."""
        if failed.code == "not-finite":
            self._refuse(failed.platform, "not-finite", "it has numbers that are not finite")
        else:
            self.failures.append(failed)

    def takes_cost(self, hidden: SumMessage, batch: int) -> bool:
        """Note what hidden values cost; refuse them where cost or ledger is another.

        Args:
            hidden: The values.
            batch: How many units their platform was asked to draw.
        """
        problem = self._odd_cost(hidden, batch)
        if problem is not None:
            self._refuse(hidden.platform, *problem)
        return problem is None

    def _odd_cost(self, update: Update | SumMessage, batch: int) -> tuple[Code, str] | None:
        """Note what a release cost; return what is wrong with that or its ledger, or None."""
        try:
            release = release_of(update)
            if release is None:
                return ("ledger", "it does not say what it cost") if self.needs_costs else None
            if self.planned is not None:
                planned = self.planned.update(update.platform, update.round, batch)
                if not is_alike(release, planned):
                    return "ledger", "what it says that it cost is not what the study asks for"
            self.events[update.platform] = release
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
            limit = min(limit, self.rule.factor * max(self.usual_norm, median(past)))
        return limit

    def _limit_extra(self, past: list[float]) -> float:
        """Return the limit of extra tensors; none while they are zero, as at a beginning."""
        if self.rule.factor is None or len(past) < _ENOUGH:
            return math.inf
        usual = max(self.usual_extra_norm, median(past))
        return self.rule.factor * usual if usual else math.inf

    def _refuse(self, platform: str, code: Code, message: str) -> None:
        self.refusals.append(Refusal(platform, code, message))
        if self.on_refusal == "stop":
            raise FednerError(
                f"the update of platform {platform!r} was refused: {message}",
                'Check that platform, then resume; or set on_refusal to "continue".',
            )


def _absurd(formed: _Formed, limit: float, limit_extra: float) -> str | None:
    """Return which norm of an update is above its limit, or None."""
    if formed.norm > limit:
        return f"its norm is {formed.norm:.4g}; expected at most {limit:.4g}"
    if formed.extra_norm > limit_extra:
        found = f"{formed.extra_norm:.4g}; expected at most {limit_extra:.4g}"
        return f"the norm of its extra tensors is {found}"
    return None


def _lasting(norms: Sequence[float]) -> float:
    """Return the lower median of norms; 0 where they are too few to say anything."""
    return median_low(norms) if len(norms) >= _ENOUGH else 0.0


def _shown(reply: object) -> str:
    """Return the name of a reply's platform as the record can hold it."""
    name = getattr(reply, "platform", None)
    if isinstance(name, str) and is_name(name):
        return name
    return ascii(name)[:_SHOWN] if isinstance(name, str) else "(no name)"


def _in_our_words(failed: Failure, broadcast: Order) -> Failure:
    """Return a failure of a platform of the round, with the fixed words of its code."""
    name = _shown(failed)
    code: object = failed.code
    if isinstance(code, str) and code in FAILURES and name in broadcast.batches:
        return failure(name, failed.round, code)
    return failure(name, failed.round, "malformed")


def malformed(
    update: Update,
    broadcast: Order,
    takes_float64: bool = False,
    encoding: Encoding = "float32",
) -> tuple[Code, str] | None:
    """Return what is wrong with the form of an update, or None."""
    problem = fact_problem(update)
    if problem is not None:
        is_loss = problem.startswith("loss")
        return "not-finite" if is_loss else "form", f"it has {problem}"
    if update.platform not in broadcast.batches:
        return "platform", f"it was not chosen for round {broadcast.round}"
    if update.round != broadcast.round:
        return "round", f"it answers round {update.round}; expected {broadcast.round}"
    narrow = TYPES_UP[encoding]
    wide = torch.float64 if takes_float64 and narrow is None else None
    found = _unlike(update.tensors, broadcast.shared, narrow, wide)
    if found is None and broadcast.extra:
        found = _unlike(update.extra, broadcast.extra, narrow)
    elif found is None and update.extra:
        found = ("names", f"it carries extra tensors {sorted(update.extra)[:3]}; expected none")
    if found is None and (wrong := encoding_problem(update, encoding)) is not None:
        found = ("form", f"it has {wrong}")
    return found


def _unlike(
    state: SharedState,
    like: SharedState,
    narrow: torch.dtype | None,
    also: torch.dtype | None = None,
) -> tuple[Code, str] | None:
    if set(state) != set(like):
        odd = sorted(set(state) ^ set(like))
        return "names", f"its tensors and the shared weights differ in {odd[:5]}"
    for name in sorted(like):
        tensor, expected = state[name], like[name]
        if tensor.layout is not torch.strided:
            return "form", f"tensor {name!r} has layout {tensor.layout}"
        if tensor.shape != expected.shape:
            shapes = f"{tuple(tensor.shape)}; expected {tuple(expected.shape)}"
            return "shape", f"tensor {name!r} has shape {shapes}"
        dtype = expected.dtype if narrow is None else narrow
        if tensor.dtype not in (dtype, also):
            return "dtype", f"tensor {name!r} is {tensor.dtype}; expected {dtype}"
    return None
