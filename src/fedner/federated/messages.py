"""What is sent between coordinator and platforms: an `Order` down, a `Reply` up, nothing else.

These types are the complete list. Tensors of the model are `SharedState`s, which only a `Partition`
makes of a model, so that private weights cannot be put into one by mistake. Scores are counts,
named by declared types alone; under differential privacy a `ScoreReport` carries noised and charged
counts only. A `Failure` is a code with fixed words: nothing that a platform writes reaches the
coordinator as text. `message_bytes` has the form in bytes.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.failure_codes import FAILURES, is_code
from fedner.federated.tensor_bytes import refused
from fedner.privacy.events import GaussianRelease, from_json
from fedner.privacy.ledger_marks import LedgerMark, mark_from_json
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Scores
from fedner.tensors import SharedState, State, num_bytes

Verb = Literal["begin", "round", "evaluate", "save", "load", "finish", "sum"]
Method = Literal["federated", "local-only"]
VERBS: tuple[Verb, ...] = get_args(Verb)
METHODS: tuple[Method, ...] = get_args(Method)
RELEASE, LEDGER = "release", "ledger"
MOST_NUMBER = 2**31 - 1
MOST_NAME = 500
MOST_PLATFORMS = 100_000
MOST_STORED = 1_000
MOST_LABELS = 10_000
MOST_LOSS = 1e30  # sums of larger ones are infinite, and no JSON
LEAST_NOISE, MOST_NOISE = 1e-9, 1e9  # beyond these accountants compute with infinities
MOST_ENTRY = 65_536  # bytes: the sealed key of an encrypted run takes 57,300


def nothing_shared() -> SharedState:
    """Return a state without tensors."""
    return SharedState({})


@dataclass(frozen=True, slots=True)
class Order:
    """What the coordinator sends.

    Attributes:
        run: Names the run.
        round: Counted from 1; 0 is the beginning, for `begin`, `load`, `save` and `finish`.
        shared: The shared weights.
        extra: Extra tensors of the algorithm, such as SCAFFOLD's server control variate.
        batches: How many sentences each chosen platform draws in a step: public.
        verb: What to do: `begin` (say which rounds are stored), `load` (go on from a stored round,
            drop later ones), `round` (train), `sum` (a phase of a summation), `evaluate` (score),
            `save` (store the private part), `finish` (take the final shared weights).
        study: The digest of the study; a platform refuses orders of another one. Empty if there
            is none.
        phase: The phase of a summation, from 1; 0 outside one.
        relayed: What other platforms sent this one in the phase before, by sender. The coordinator
            forwards it and never opens it.
        total: A sum that only platforms can open, in bytes.
    """

    run: str
    round: int
    shared: SharedState = field(default_factory=nothing_shared)
    extra: SharedState = field(default_factory=nothing_shared)
    batches: Mapping[str, int] = field(default_factory=dict)
    verb: Verb = "round"
    study: str = ""
    phase: int = 0
    relayed: Mapping[str, bytes] = field(default_factory=dict)
    total: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """The answer to `begin`, `round`, `save` and `load`.

    Attributes:
        platform: Whose it is.
        round: The round that it answers.
        tensors: Gradients, differences or weights of the shared part, by the algorithm; in the
            type of the study's encoding.
        extra: Extra tensors of the algorithm, such as SCAFFOLD's change of a control variate.
        scales: The scales of int8 numbers, by part and name; without tensors for other types.
        loss: The mean training loss, or None if even that stays on the platform.
        event: What the privacy accountant recorded for this release, or None without DP.
        stored: The rounds whose private part the platform can go on from, oldest first.
    """

    platform: str
    round: int
    tensors: SharedState = field(default_factory=nothing_shared)
    extra: SharedState = field(default_factory=nothing_shared)
    loss: float | None = None
    event: Mapping[str, Any] | None = None
    stored: tuple[int, ...] = ()
    scales: SharedState = field(default_factory=nothing_shared)


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """The answer to `evaluate` and `finish`.

    Attributes:
        platform: Whose it is.
        round: The round that it answers.
        scores: Counts by method; empty if nothing may be sent.
        noised: Noised counts: under differential privacy the only thing that it may carry.
        event: What those cost; None without them.
    """

    platform: str
    round: int
    scores: Mapping[Method, Scores] = field(default_factory=dict)
    noised: NoisedScores | None = None
    event: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SumMessage:
    """The answer to a phase of a summation: keys, shares, masked values.

    Attributes:
        platform: Whose it is.
        round: The round that is summed up.
        phase: The phase that it answers.
        entries: Entries for other platforms, by recipient; revealed shares, by owner.
        tensors: Masked or encrypted values, for the coordinator.
        event: What the privacy accountant recorded for the masked values; None without DP.
    """

    platform: str
    round: int
    phase: int
    entries: Mapping[str, bytes] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    event: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A platform that did not answer; a value, so that one platform stops nobody else.

    Attributes:
        platform: Whose it is.
        round: The round that was asked for.
        code: A key of `failure_codes.FAILURES`.
    """

    platform: str
    round: int
    code: str

    @property
    def message(self) -> str:
        """The fixed message of its code, never the platform's text."""
        return FAILURES[self.code if is_code(self.code) else "malformed"]


Costed = Update | ScoreReport | SumMessage
Reply = Costed | Failure
Message = Order | Reply


def failure(platform: str, round_: int, code: str) -> Failure:
    """Return a failure; a round that is none becomes 0."""
    return Failure(platform, round_ if is_number(round_) else 0, code)


def is_name(value: object) -> bool:
    """Whether a value can name a run or a platform."""
    if not isinstance(value, str) or not 0 < len(value) <= MOST_NAME:
        return False
    return value.isprintable()


def is_number(value: object, least: int = 0) -> bool:
    """Whether a value is a whole number within the bounds of a message."""
    return type(value) is int and least <= value <= MOST_NUMBER


def all_finite(state: State) -> bool:
    """Whether all numbers are finite, with one wait for the device."""
    return all_within(state, sys.float_info.max)


def all_within(state: State, limit: float) -> bool:
    """Whether no number is larger than a finite limit, with one wait for the device."""
    tensors = [each.detach() for each in state.values() if each.numel()]
    if any(each.is_cuda for each in tensors):  # a few launches instead of two for each
        largest = torch.stack(torch._foreach_norm(tensors, torch.inf)).double()
        return bool((largest <= limit).all())
    # What is not a number is both least and largest, and is not within any limit.
    ends = [end for each in tensors for end in torch.aminmax(each)]
    return not ends or bool((torch.stack([end.double() for end in ends]).abs() <= limit).all())


def payload_bytes(message: Order | Update | SumMessage) -> int:
    """Return how many bytes of tensors a message carries."""
    if isinstance(message, SumMessage):
        return num_bytes(message.tensors)
    if isinstance(message, Order):
        return sum(num_bytes(each) for each in (message.shared, message.extra, message.total))
    return sum(num_bytes(each) for each in (message.tensors, message.extra, message.scales))


def order_problem(order: Order) -> str | None:
    """Return what is wrong with what an order says beside its tensors, or None."""
    if not is_name(order.run) or not all(is_name(name) for name in order.batches):
        return "a run or a platform that is no name"
    if order.study != "" and not is_name(order.study):
        return "a study that is no digest"
    if order.verb not in VERBS:
        return f"verb {order.verb!r:.40}; expected one of {list(VERBS)}"
    least = 1 if order.verb in ("round", "sum", "evaluate") else 0
    if not is_number(order.round, least):
        return f"round {order.round!r:.40}; expected a whole number from {least} up"
    if not is_number(order.phase) or (order.verb == "sum" and not order.phase):
        return f"phase {order.phase!r:.40}; expected a whole number"
    if len(order.batches) > MOST_PLATFORMS:
        return f"batches for {len(order.batches)} platforms; expected at most {MOST_PLATFORMS}"
    if not all(is_number(size, 1) for size in order.batches.values()):
        return "batches other than whole numbers of at least 1"
    return _entries_problem(order.relayed)


def _entries_problem(entries: Mapping[str, bytes]) -> str | None:
    """Return what is wrong with what platforms send each other, or None."""
    if len(entries) > MOST_PLATFORMS or not all(is_name(name) for name in entries):
        return "entries for platforms that are no names, or too many"
    if any(len(data) > MOST_ENTRY for data in entries.values()):
        return f"an entry of more than {MOST_ENTRY} bytes"
    return None


def reply_problem(reply: Reply) -> str | None:
    """Return what is wrong with what a reply says beside its tensors, or None."""
    if not is_name(reply.platform):
        return "a platform that is no name"
    if not is_number(reply.round):
        return f"round {reply.round!r:.40}; expected a whole number"
    if isinstance(reply, Update):
        return fact_problem(reply)
    if isinstance(reply, ScoreReport):
        return _report_problem(reply)
    if isinstance(reply, SumMessage):
        if not is_number(reply.phase, 1):
            return f"phase {reply.phase!r:.40}; expected a whole number from 1 up"
        return _entries_problem(reply.entries) or _event_problem(reply)
    return None if is_code(reply.code) else "an unknown code"


def fact_problem(update: Update) -> str | None:
    """Return what is wrong with what an update says beside its tensors, or None."""
    if not is_name(update.platform):
        return "a platform that is no name"
    if not is_number(update.round):
        return f"round {update.round!r:.40}; expected a whole number"
    if update.loss is not None and not _is_loss(update.loss):
        return f"loss {update.loss!r:.40}; expected a finite number, at most {MOST_LOSS:g}"
    if not _are_rounds(update.stored):
        return "stored rounds that are not whole numbers, each larger than the last"
    return _event_problem(update)


def _is_loss(loss: object) -> bool:
    return type(loss) is float and math.isfinite(loss) and abs(loss) <= MOST_LOSS


def _are_rounds(stored: object) -> bool:
    if not isinstance(stored, tuple) or len(stored) > MOST_STORED:
        return False
    are_numbers = all(is_number(each) for each in stored)
    return are_numbers and all(one < other for one, other in pairwise(stored))


def _event_problem(reply: Costed) -> str | None:
    if reply.event is None:
        return None
    try:
        release_of(reply)
        mark_of(reply)
    except FednerError as error:
        return f"an unsound event: {error.message:.100}"
    return None


def _report_problem(report: ScoreReport) -> str | None:
    if not set(report.scores) <= set(METHODS):
        return f"scores of other methods than {list(METHODS)}"
    if not all(_are_scores(each) for each in report.scores.values()):
        return "scores whose labels are no names, or too many"
    if report.noised is None:
        return None if report.event is None else "an event without noised scores"
    if report.scores:
        return "plain scores beside noised ones"
    problem = _event_problem(report)
    if problem is None and release_of(report) != report.noised.event:
        return "noised scores with the event of something else"
    return problem


def _are_scores(scores: object) -> bool:
    if not isinstance(scores, Scores):
        return False
    tokens = scores.tokens
    named = (
        scores.strict, scores.relaxed, scores.relaxed_any_type, scores.ignored_predicted,
        scores.ignored_gold, tokens.gold, tokens.predicted, tokens.both,
    )  # fmt: skip
    return all(len(each) <= MOST_LABELS and all(map(is_name, each)) for each in named)


def release_of(reply: Costed) -> GaussianRelease | None:
    """Return what a reply says that its release cost; None without differential privacy.

    Raises:
        FednerError: If it says something else.
    """
    if reply.event is None:
        return None
    stated_of: object = reply.event
    names = set(stated_of) if isinstance(stated_of, Mapping) else set()
    if not {RELEASE} <= names <= {RELEASE, LEDGER}:
        raise refused(f"an event without {RELEASE!r}, or with more than {LEDGER!r} beside it")
    stated = reply.event[RELEASE]
    release = from_json(stated) if isinstance(stated, Mapping) else None
    if not isinstance(release, GaussianRelease):
        raise refused("an event that is no release")
    noise = release.noise_multiplier
    is_noise = noise == 0 or LEAST_NOISE <= noise <= MOST_NOISE
    if max(release.steps, release.public_units) > MOST_NUMBER or not is_noise:
        raise refused("an event with numbers beyond their bounds")
    return release


def mark_of(reply: Costed) -> LedgerMark | None:
    """Return where the platform's ledger stands, as the reply says it.

    Raises:
        FednerError: If it says something that is no mark.
    """
    stated = None if reply.event is None else reply.event.get(LEDGER)
    return None if stated is None else mark_from_json(stated)
