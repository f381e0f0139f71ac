"""What travels between server and platforms, and its form in bytes: nothing else ever does.

An `Update` is the complete list of what a platform transmits. Its tensors are `SharedState`s, which
only a `Partition` makes of a model, so that private weights cannot be put into one by mistake.
The bytes are safetensors: the header carries the small facts as JSON, nothing is unpickled, and
unknown fields, other types and numbers that are not finite are refused. A `Failure` is a code with
fixed words: nothing that a platform writes reaches the server as text.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.strict_json import read_json
from fedner.privacy.events import GaussianRelease, from_json
from fedner.privacy.ledger_marks import LedgerMark, mark_from_json
from fedner.tensors import SharedState, State, num_bytes

DTYPES = (torch.float32, torch.float64)
SCORE_NAMES = ("relaxed_f1", "strict_f1")
RELEASE, LEDGER = "release", "ledger"
MOST_NUMBER = 2**31 - 1
MOST_NAME = 500
_FORM = "fedner"
_PARTS = ("tensors", "extra")
_HEADER_LIMIT = 10_000_000
_MOST_BYTES = 2**32
_FACT_TYPES: Mapping[str, type] = {
    "platform": str,
    "round": int,
    "loss": float,
    "scores": dict,
    "event": dict,
}

# All that a failure ever says. The cause, with its text, stays in the platform's own log.
FAILURES: Mapping[str, str] = {
    "budget-spent": "its privacy budget does not allow this release",
    "order-refused": "it refused the order, which does not fit its study",
    "round-passed": "it was asked for a round before its newest one, and not for a stored answer",
    "error": "it cannot take part; its own log says why",
    "unexpected": "it failed; its own log says why",
    "malformed": "its reply was not a message of this version",
    "worker-died": "its worker process ended",
    "no-reply": "it did not answer in this round",
}


def nothing_shared() -> SharedState:
    """Return a state without tensors."""
    return SharedState({})


@dataclass(frozen=True, slots=True)
class Broadcast:
    """What the server sends at the beginning of a round.

    Attributes:
        run: Names the run.
        round: Counted from 1.
        shared: The shared weights.
        extra: What else the algorithm hands out, as SCAFFOLD's server control variate.
        batches: How many sentences each chosen platform draws in a step: public.
    """

    run: str
    round: int
    shared: SharedState
    extra: SharedState = field(default_factory=nothing_shared)
    batches: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """All that a platform transmits in a round.

    Attributes:
        platform: Whose it is.
        round: The round that it answers.
        tensors: Gradients, differences or weights of the shared part, by the algorithm.
        extra: What else the algorithm sends, as SCAFFOLD's change of a control variate.
        loss: The mean training loss, or None where even that stays at home.
        scores: `SCORE_NAMES` to F1, all labels together, or None.
        event: What the privacy accountant recorded for this release, or None without privacy.
    """

    platform: str
    round: int
    tensors: SharedState
    extra: SharedState = field(default_factory=nothing_shared)
    loss: float | None = None
    scores: Mapping[str, float] | None = None
    event: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A platform that did not answer; a value, so that one platform stops nobody else.

    Attributes:
        platform: Whose it is.
        round: The round that was asked for.
        code: A key of `FAILURES`.
        message: Our own words for it, never the platform's text.
    """

    platform: str
    round: int
    code: str
    message: str


def failure(platform: str, round_: int, code: str) -> Failure:
    """Return a failure in the fixed words of its code; a round that is none becomes 0."""
    is_round = type(round_) is int and 0 <= round_ <= MOST_NUMBER
    return Failure(platform, round_ if is_round else 0, code, FAILURES[code])


def failure_to_bytes(failed: Failure) -> bytes:
    """Return the failure as it travels: without words."""
    facts = {"platform": failed.platform, "round": failed.round, "code": failed.code}
    return json.dumps({"form": "failure/1", **facts}, sort_keys=True).encode()


def failure_from_bytes(data: bytes) -> Failure:
    """Return the failure that `failure_to_bytes` wrote, in our own words.

    Raises:
        FednerError: If the bytes are not exactly such a message.
    """
    stated = _as_refusal(data)
    platform, round_, code = (stated.get(name) for name in ("platform", "round", "code"))
    is_sound = (
        set(stated) == {"form", "platform", "round", "code"}
        and stated["form"] == "failure/1"
        and is_name(platform)
        and type(round_) is int
        and 0 <= round_ <= MOST_NUMBER
        and isinstance(code, str)
        and code in FAILURES
    )
    if not is_sound:
        raise _refused("another form than that of a failure")
    return failure(str(platform), int(str(round_)), str(code))


def _as_refusal(data: bytes) -> dict[str, Any]:
    try:
        stated = read_json(data, MOST_NAME * 10)
    except FednerError as error:
        raise _refused("no JSON") from error
    return stated if isinstance(stated, dict) else {}


def is_name(value: object) -> bool:
    """Whether a value can name a run or a platform."""
    if not isinstance(value, str) or not 0 < len(value) <= MOST_NAME:
        return False
    return value.isprintable()


def all_finite(state: State) -> bool:
    """Whether all numbers are finite, with one wait for the device."""
    # What is not a number is both least and largest.
    ends = [end for each in state.values() if each.numel() for end in torch.aminmax(each.detach())]
    return not ends or bool(torch.stack([end.double() for end in ends]).isfinite().all())


def payload_bytes(message: Broadcast | Update) -> int:
    """Return how many bytes of tensors a message carries."""
    main = message.shared if isinstance(message, Broadcast) else message.tensors
    return num_bytes(main) + num_bytes(message.extra)


def update_to_bytes(update: Update) -> bytes:
    """Return the update as it travels."""
    facts = {
        "platform": update.platform,
        "round": update.round,
        "loss": update.loss,
        "scores": None if update.scores is None else dict(update.scores),
        "event": None if update.event is None else dict(update.event),
    }
    return _to_bytes("update/1", facts, {"tensors": update.tensors, "extra": update.extra})


def update_from_bytes(data: bytes) -> Update:
    """Return the update that `update_to_bytes` wrote.

    Raises:
        FednerError: If the bytes are not exactly such a message.
    """
    facts, parts = _from_bytes("update/1", data, _FACT_TYPES)
    update = update_of(facts, parts["tensors"], parts["extra"])
    problem = fact_problem(update)
    if problem is not None:
        raise _refused(problem)
    return update


def update_of(facts: Mapping[str, Any], tensors: SharedState, extra: SharedState) -> Update:
    """Return the update of facts that another process stated, and of tensors.

    Their values are for `screening` to judge, as those of every update.

    Raises:
        FednerError: If a fact is unknown, missing or of another type.
    """
    _check_types(facts, _FACT_TYPES)
    return Update(tensors=tensors, extra=extra, **facts)


def fact_problem(update: Update) -> str | None:
    """Return what is wrong with what an update says beside its tensors, or None."""
    if not is_name(update.platform):
        return "a platform that is no name"
    if type(update.round) is not int or not 1 <= update.round <= MOST_NUMBER:
        return f"round {update.round!r:.40}; expected a whole number from 1 up"
    if update.loss is not None and not (type(update.loss) is float and math.isfinite(update.loss)):
        return f"loss {update.loss!r:.40}; expected a finite number"
    if update.scores is not None and not _are_scores(update.scores):
        return f"scores other than F1 values for some of {list(SCORE_NAMES)}"
    if update.event is None:
        return None
    try:
        release_of(update)
        mark_of(update)
    except FednerError as error:
        return f"an unsound event: {error.message:.100}"
    return None


def release_of(update: Update) -> GaussianRelease | None:
    """Return what an update says that its release cost; None without differential privacy.

    Raises:
        FednerError: If it says something else.
    """
    if update.event is None:
        return None
    stated_of: object = update.event
    names = set(stated_of) if isinstance(stated_of, Mapping) else set()
    if not {RELEASE} <= names <= {RELEASE, LEDGER}:
        raise _refused(f"an event without {RELEASE!r}, or with more than {LEDGER!r} beside it")
    stated = update.event[RELEASE]
    release = from_json(stated) if isinstance(stated, Mapping) else None
    if not isinstance(release, GaussianRelease):
        raise _refused("an event that is no release")
    if max(release.steps, release.public_units) > MOST_NUMBER:
        raise _refused("an event with numbers beyond their bounds")
    return release


def mark_of(update: Update) -> LedgerMark | None:
    """Return where the platform's ledger stands, as the update says it.

    Raises:
        FednerError: If it says something that is no mark.
    """
    stated = None if update.event is None else update.event.get(LEDGER)
    return None if stated is None else mark_from_json(stated)


def broadcast_to_bytes(broadcast: Broadcast) -> bytes:
    """Return the broadcast as it travels."""
    facts = {
        "run": broadcast.run,
        "round": broadcast.round,
        "batches": dict(broadcast.batches),
    }
    return _to_bytes("broadcast/1", facts, {"tensors": broadcast.shared, "extra": broadcast.extra})


def broadcast_from_bytes(data: bytes) -> Broadcast:
    """Return the broadcast that `broadcast_to_bytes` wrote.

    Raises:
        FednerError: If the bytes are not exactly such a message.
    """
    expected = {"run": str, "round": int, "batches": dict}
    facts, parts = _from_bytes("broadcast/1", data, expected)
    sizes = facts["batches"].values()
    if not all(type(size) is int and 0 < size <= MOST_NUMBER for size in sizes):
        raise _refused("batches other than whole numbers of at least 1")
    if not all(is_name(name) for name in (facts["run"], *facts["batches"])):
        raise _refused("a run or a platform that is no name")
    if not 1 <= facts["round"] <= MOST_NUMBER:
        raise _refused(f"round {facts['round']!r:.40}; expected a whole number from 1 up")
    return Broadcast(shared=parts["tensors"], extra=parts["extra"], **facts)


def _to_bytes(form: str, facts: Mapping[str, Any], parts: Mapping[str, SharedState]) -> bytes:
    flat: dict[str, Tensor] = {}
    for part, state in parts.items():
        for name, tensor in state.items():
            _check_tensor(f"{part}/{name}", tensor)
            flat[f"{part}/{name}"] = tensor.detach().cpu().contiguous()
    stated = json.dumps({"form": form, **facts}, sort_keys=True, allow_nan=False)
    return save_safetensors(flat, metadata={_FORM: stated})


def _from_bytes(
    form: str, data: bytes, expected: Mapping[str, type]
) -> tuple[dict[str, Any], dict[str, SharedState]]:
    facts = _facts(data)
    if facts.pop("form", None) != form:
        raise _refused(f"another form than {form!r}")
    _check_types(facts, expected)
    return facts, _tensor_parts(data)


def _check_types(facts: Mapping[str, Any], expected: Mapping[str, type]) -> None:
    if set(facts) != set(expected):
        names = [f"{name:.40}" for name in sorted(facts)[:10]]
        raise _refused(f"fields {names}; expected {sorted(expected)}")
    for name, kind in expected.items():
        value = facts[name]
        is_absent = value is None and name in ("loss", "scores", "event")
        if not is_absent and type(value) is not kind:
            raise _refused(f"{name} {value!r:.40}; expected a value of type {kind.__name__}")


def _facts(data: bytes) -> dict[str, Any]:
    """Return the JSON facts in the header of a safetensors message."""
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= min(len(data) - 8, _HEADER_LIMIT) or len(data) > _MOST_BYTES:
        raise _refused("no header")
    try:
        metadata = read_json(data[8 : 8 + length], _HEADER_LIMIT)["__metadata__"]
        facts = read_json(metadata[_FORM], _HEADER_LIMIT)
    except (FednerError, KeyError, TypeError) as error:
        raise _refused("no facts in its header") from error
    if set(metadata) != {_FORM} or not isinstance(facts, dict):
        raise _refused("unknown facts in its header")
    return facts


def _tensor_parts(data: bytes) -> dict[str, SharedState]:
    try:
        flat = load_safetensors(data)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise _refused("damaged tensors") from error
    parts = {part: nothing_shared() for part in _PARTS}
    for key in sorted(flat):
        part, _, name = key.partition("/")
        if part not in parts or not name:
            raise _refused(f"a tensor {key!r:.60}; expected names under {list(_PARTS)}")
        _check_tensor(key, flat[key])
        parts[part][name] = flat[key]
    return parts


def _check_tensor(key: str, tensor: Tensor) -> None:
    if tensor.dtype not in DTYPES:
        raise _refused(f"tensor {key!r:.60} of type {tensor.dtype}; expected one of {list(DTYPES)}")
    if not bool(torch.isfinite(tensor).all()):
        raise _refused(f"tensor {key!r:.60} with numbers that are not finite")


def _are_scores(scores: object) -> bool:
    if not isinstance(scores, Mapping):
        return False
    return set(scores) <= set(SCORE_NAMES) and all(
        type(value) is float and 0.0 <= value <= 1.0 for value in scores.values()
    )


def _refused(what: str) -> FednerError:
    return FednerError(
        f"message refused: it has {what}",
        "Both sides must run the same version of fedner; otherwise the message was altered.",
    )
