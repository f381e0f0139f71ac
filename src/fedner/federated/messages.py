"""What travels between server and platforms, and its form in bytes: nothing else ever does.

An `Update` is the complete list of what leaves a platform. Its tensors are `SharedState`s, which
only a `Partition` makes of a model, so that private weights cannot be put into one by mistake.
The bytes are safetensors: the header carries the small facts as JSON, nothing is unpickled, and
unknown fields, other types and numbers that are not finite are refused.
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
from fedner.tensors import SharedState, num_bytes

DTYPES = (torch.float32, torch.float64)
SCORE_NAMES = ("relaxed_f1", "strict_f1")
_FORM = "fedner"
_PARTS = ("tensors", "extra")
_HEADER_LIMIT = 10_000_000


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
    """All that leaves a platform in a round.

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
        code: A short constant, as "worker-died".
        message: Our own words, never the platform's text.
    """

    platform: str
    round: int
    code: str
    message: str


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
    expected = {"platform": str, "round": int, "loss": float, "scores": dict, "event": dict}
    facts, parts = _from_bytes("update/1", data, expected)
    scores = facts["scores"]
    if scores is not None and not _are_scores(scores):
        raise _refused(f"scores {scores!r}; expected F1 values for some of {list(SCORE_NAMES)}")
    return Update(tensors=parts["tensors"], extra=parts["extra"], **facts)


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
    if not all(type(size) is int and size > 0 for size in facts["batches"].values()):
        raise _refused(f"batches {facts['batches']!r}; expected whole numbers of at least 1")
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
    if set(facts) != set(expected):
        raise _refused(f"fields {sorted(facts)}; expected {sorted(expected)}")
    for name, kind in expected.items():
        value = facts[name]
        is_absent = value is None and name in ("loss", "scores", "event")
        if not is_absent and type(value) is not kind:
            raise _refused(f"{name} {value!r}; expected a value of type {kind.__name__}")
    if "loss" in facts and facts["loss"] is not None and not math.isfinite(facts["loss"]):
        raise _refused(f"loss {facts['loss']}; expected a finite number")
    return facts, _tensor_parts(data)


def _facts(data: bytes) -> dict[str, Any]:
    """Return the JSON facts in the header of a safetensors message."""
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= min(len(data) - 8, _HEADER_LIMIT):
        raise _refused("no header")
    try:
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
        facts = json.loads(metadata[_FORM])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _refused("no facts in its header") from error
    if set(metadata) != {_FORM} or not isinstance(facts, dict):
        raise _refused("unknown facts in its header")
    return facts


def _tensor_parts(data: bytes) -> dict[str, SharedState]:
    try:
        flat = load_safetensors(data)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise _refused("damaged tensors") from error
    parts = {part: nothing_shared() for part in _PARTS}
    for key in sorted(flat):
        part, _, name = key.partition("/")
        if part not in parts or not name:
            raise _refused(f"a tensor {key!r}; expected names under {list(_PARTS)}")
        _check_tensor(key, flat[key])
        parts[part][name] = flat[key]
    return parts


def _check_tensor(key: str, tensor: Tensor) -> None:
    if tensor.dtype not in DTYPES:
        raise _refused(f"tensor {key!r} of type {tensor.dtype}; expected one of {list(DTYPES)}")
    if not bool(torch.isfinite(tensor).all()):
        raise _refused(f"tensor {key!r} with numbers that are not finite")


def _are_scores(scores: Mapping[str, Any]) -> bool:
    return set(scores) <= set(SCORE_NAMES) and all(
        type(value) is float and 0.0 <= value <= 1.0 for value in scores.values()
    )


def _refused(what: str) -> FednerError:
    return FednerError(
        f"message refused: it has {what}",
        "Both sides must run the same version of fedner; otherwise the message was altered.",
    )
