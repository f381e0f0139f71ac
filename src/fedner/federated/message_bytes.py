"""The byte form of every message: one for each kind, used by every engine.

A form has a name, typed facts and tensors in parts. Unknown fields, other types, numbers that are
not finite and bytes beyond the end are refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedner.federated.messages import (
    MOST_NAME,
    Failure,
    Message,
    Order,
    Reply,
    ScoreReport,
    SumMessage,
    Update,
    is_name,
    order_problem,
    reply_problem,
)
from fedner.federated.score_bytes import scores_from_json, scores_to_json
from fedner.federated.tensor_bytes import Packed, copied_bytes, pack, refused, unpack
from fedner.privacy.scores import NoisedScores
from fedner.tensors import SharedState

FLOATS = (torch.float32, torch.float64)
NUMBERS = (*FLOATS, torch.int32, torch.int64)
WEIGHTS = (*FLOATS, torch.bfloat16)  # down, of the order of a round
ENCODED = (*WEIGHTS, torch.int8)  # up (`encoding`)
SCALES = (torch.float32,)
BYTES = (torch.uint8,)
_OPTIONAL = ("loss", "event", "noised")
Facts = dict[str, Any]
Parts = dict[str, dict[str, Tensor]]


@dataclass(frozen=True, slots=True)
class _Form:
    """How one type of message travels.

    Attributes:
        facts: Its facts and their types in JSON.
        parts: Its parts of tensors, and the types that they may have.
        build: Makes the message of facts and parts that have the right types.
    """

    facts: Mapping[str, type]
    parts: Mapping[str, tuple[torch.dtype, ...]]
    build: Callable[[Facts, Parts], Message]


def pack_message(message: Message) -> Packed:
    """Return a message, ready to be written into a buffer.

    Raises:
        FednerError: If a tensor has a type that cannot be sent, or a number is not finite.
    """
    form = _FORM_OF[type(message)]
    facts, parts = _split(message)
    for part, allowed in _FORMS[form].parts.items():
        for name, tensor in parts[part].items():
            _check_type(f"{part}/{name}", tensor, allowed)
    flat = {f"{part}/{name}": each for part in parts for name, each in parts[part].items()}
    return pack({"form": form, **facts}, flat)


def to_bytes(message: Message) -> bytes:
    """Return a message in its byte form.

    Raises:
        FednerError: If a tensor has a type that cannot be sent, or a number is not finite.
    """
    return pack_message(message).to_bytes()


def order_in(region: Tensor) -> Order:
    """Return the order in bytes that the reader owns.

    Raises:
        FednerError: If the bytes are not exactly an order.
    """
    message = _message(region)
    if not isinstance(message, Order):
        raise refused("another form than that of an order")
    problem = order_problem(message)
    if problem is not None:
        raise refused(problem)
    return message


def reply_in(region: Tensor) -> Reply:
    """Return the reply in bytes that the reader owns.

    Raises:
        FednerError: If the bytes are not exactly a reply.
    """
    message = _message(region)
    if isinstance(message, Order):
        raise refused("another form than that of a reply")
    problem = reply_problem(message)
    if problem is not None:
        raise refused(problem)
    return message


def order_from_bytes(data: bytes) -> Order:
    """Return the order that `to_bytes` wrote.

    Raises:
        FednerError: If the bytes are not exactly an order.
    """
    return order_in(copied_bytes(data))


def reply_from_bytes(data: bytes) -> Reply:
    """Return the reply that `to_bytes` wrote.

    Raises:
        FednerError: If the bytes are not exactly a reply.
    """
    return reply_in(copied_bytes(data))


def update_from_bytes(data: bytes) -> Update:
    """Return the update that `to_bytes` wrote.

    Raises:
        FednerError: If the bytes are not exactly an update.
    """
    reply = reply_from_bytes(data)
    if not isinstance(reply, Update):
        raise refused("another form than that of an update")
    return reply


def _message(region: Tensor) -> Message:
    facts, tensors = unpack(region)
    name = facts.pop("form", None)
    if not isinstance(name, str) or name not in _FORMS:
        raise refused(f"another form than {', '.join(_FORMS)}")
    form = _FORMS[name]
    _check_facts(facts, form.facts)
    return form.build(facts, _parts(tensors, form.parts))


def _check_facts(facts: Facts, expected: Mapping[str, type]) -> None:
    if set(facts) != set(expected):
        names = [f"{name:.40}" for name in sorted(facts)[:10]]
        raise refused(f"fields {names}; expected {sorted(expected)}")
    for name, kind in expected.items():
        value = facts[name]
        is_absent = value is None and name in _OPTIONAL
        if not is_absent and type(value) is not kind:
            raise refused(f"{name} {value!r:.40}; expected a value of type {kind.__name__}")


def _parts(tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[torch.dtype, ...]]) -> Parts:
    parts: Parts = {part: {} for part in expected}
    for key, tensor in tensors.items():
        part, _, name = key.partition("/")
        if part not in parts or not 0 < len(name) <= MOST_NAME:
            raise refused(f"a tensor {key!r:.60}; expected names under {list(expected)}")
        _check_type(key, tensor, expected[part])
        parts[part][name] = tensor
    return parts


def _check_type(key: str, tensor: Tensor, allowed: tuple[torch.dtype, ...]) -> None:
    if tensor.dtype not in allowed:
        raise refused(f"tensor {key!r:.60} of type {tensor.dtype}; expected one of {list(allowed)}")


def _split(message: Message) -> tuple[Facts, Parts]:
    """Return the facts of a message as JSON can carry them, and its tensors by part."""
    names = _FORMS[_FORM_OF[type(message)]].facts
    facts: Facts = {name: getattr(message, name) for name in names}
    if isinstance(message, Order):
        facts["batches"] = dict(message.batches)
        relayed = _as_tensors(message.relayed)
        order: Parts = {"shared": message.shared, "extra": message.extra, "relayed": relayed}
        return facts, order | {"total": dict(message.total)}
    if isinstance(message, Update):
        facts["stored"] = list(message.stored)
        facts["event"] = None if message.event is None else dict(message.event)
        parts: Parts = {
            "tensors": message.tensors,
            "extra": message.extra,
            "scales": message.scales,
        }
        return facts, parts
    if isinstance(message, ScoreReport):
        facts["scores"] = {method: scores_to_json(each) for method, each in message.scores.items()}
        facts["noised"] = None if message.noised is None else message.noised.as_dict()
        facts["event"] = None if message.event is None else dict(message.event)
        return facts, {}
    if isinstance(message, SumMessage):
        facts["event"] = None if message.event is None else dict(message.event)
        return facts, {"entries": _as_tensors(message.entries), "tensors": dict(message.tensors)}
    return facts, {}


def _as_tensors(held: Mapping[str, bytes]) -> dict[str, Tensor]:
    return {name: copied_bytes(data) for name, data in sorted(held.items())}


def _as_bytes(tensors: Mapping[str, Tensor]) -> dict[str, bytes]:
    for name, tensor in tensors.items():
        if not is_name(name) or tensor.dim() != 1:
            raise refused("bytes of a platform that is no name, or in another shape than a row")
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def _order(facts: Facts, parts: Parts) -> Order:
    shared, extra = SharedState(parts["shared"]), SharedState(parts["extra"])
    relayed, total = _as_bytes(parts["relayed"]), parts["total"]
    return Order(shared=shared, extra=extra, relayed=relayed, total=total, **facts)


def _update(facts: Facts, parts: Parts) -> Update:
    facts["stored"] = tuple(facts["stored"])
    tensors, extra, scales = (SharedState(parts[part]) for part in ("tensors", "extra", "scales"))
    return Update(tensors=tensors, extra=extra, scales=scales, **facts)


def _report(facts: Facts, parts: Parts) -> ScoreReport:  # noqa: ARG001 - it has no tensors
    scores = {method: scores_from_json(each) for method, each in facts.pop("scores").items()}
    stated = facts.pop("noised")
    noised = None if stated is None else NoisedScores.from_dict(stated)
    if noised is not None and noised.as_dict() != stated:
        raise refused("noised scores of another form")
    return ScoreReport(scores=scores, noised=noised, **facts)


def _sum_message(facts: Facts, parts: Parts) -> SumMessage:
    return SumMessage(entries=_as_bytes(parts["entries"]), tensors=parts["tensors"], **facts)


def _failure(facts: Facts, parts: Parts) -> Failure:  # noqa: ARG001 - it has no tensors
    return Failure(**facts)


_WHOSE = {"platform": str, "round": int}
_FORMS: dict[str, _Form] = {
    "order/1": _Form(
        {"run": str, "round": int, "batches": dict, "verb": str, "study": str, "phase": int},
        {"shared": WEIGHTS, "extra": WEIGHTS, "relayed": BYTES, "total": BYTES},
        _order,
    ),
    "update/1": _Form(
        {**_WHOSE, "loss": float, "event": dict, "stored": list},
        {"tensors": ENCODED, "extra": ENCODED, "scales": SCALES},
        _update,
    ),
    "score-report/1": _Form({**_WHOSE, "scores": dict, "noised": dict, "event": dict}, {}, _report),
    "sum/1": _Form(
        {**_WHOSE, "phase": int, "event": dict},
        {"entries": BYTES, "tensors": (*NUMBERS, *BYTES)},
        _sum_message,
    ),
    "failure/1": _Form({**_WHOSE, "code": str}, {}, _failure),
}
_FORM_OF: dict[type, str] = {
    Order: "order/1",
    Update: "update/1",
    ScoreReport: "score-report/1",
    SumMessage: "sum/1",
    Failure: "failure/1",
}
