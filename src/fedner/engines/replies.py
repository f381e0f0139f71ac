"""What a worker process says, read without trust: a reply of the right form, or a refusal."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from fedner.engines.buffers import view_tensors
from fedner.errors import FednerError
from fedner.federated.messages import FAILURES, Failure, Update, failure_from_bytes, update_of
from fedner.federated.strict_json import read_json
from fedner.privacy.scores import NOISED, NoisedScores
from fedner.scoring import Scores
from fedner.tensors import SharedState

MOST_CONTROL_BYTES = 2**24
_FACTS = ("platform", "round", "loss", "scores", "event")


def read_message(data: bytes) -> dict[str, Any]:
    """Return the control message that a worker sent.

    Raises:
        FednerError: If it is not a JSON object.
    """
    # The loss of a platform that diverged is no number: screening refuses it, as of any engine.
    message = read_json(data, MOST_CONTROL_BYTES, allows_nan=True)
    if not isinstance(message, dict):
        raise FednerError("a message that is no JSON object")
    return message


def failure_in(message: Mapping[str, Any]) -> Failure:
    """Return the failure that a message holds.

    Raises:
        FednerError: If it holds something else.
    """
    stated = message["failure"]
    if set(message) != {"failure"} or not isinstance(stated, str):
        raise FednerError("a failure of another form")
    return failure_from_bytes(stated.encode())


def slot_in(message: Mapping[str, Any], num_slots: int) -> int:
    """Return the slot in which a worker says that its update lies.

    Raises:
        FednerError: If there is no such slot.
    """
    slot = message.get("slot")
    if type(slot) is not int or not 0 <= slot < num_slots:
        raise FednerError("a slot that does not exist")
    return slot


def update_in(message: Mapping[str, Any], slot: Tensor) -> Update:
    """Return the update that a message describes, with copies of the tensors in its slot.

    Raises:
        FednerError: If the message is of another form.
    """
    if set(message) != {*_FACTS, "slot", "layout"}:
        raise FednerError("an update with other fields")
    parts: dict[str, dict[str, Tensor]] = {"tensors": {}, "extra": {}}
    for key, tensor in view_tensors(slot, message["layout"]).items():
        part, _, name = key.partition("/")
        if part not in parts or not name:
            raise FednerError("a tensor of an unknown part")
        parts[part][name] = tensor.clone()
    facts = {name: message[name] for name in _FACTS}
    return update_of(facts, SharedState(parts["tensors"]), SharedState(parts["extra"]))


def scores_in(answer: Mapping[str, Any], names: Sequence[str]) -> dict[str, Scores | NoisedScores]:
    """Return the scores of a worker's platforms, as far as they can be read.

    Raises:
        FednerError: If the answer holds no scores by platform, or such of other platforms.
    """
    found = answer.get("scores")
    if set(answer) != {"scores"} or not isinstance(found, dict) or not set(found) <= set(names):
        raise FednerError("an answer without scores by platform")
    return {name: scores_from(record) for name, record in found.items()}


def scores_from(record: object) -> Scores | NoisedScores:
    """Return the scores, noised or not, of a record.

    Raises:
        FednerError: If it is of another form.
    """
    if not isinstance(record, dict):
        raise FednerError("not a record of scores")
    return NoisedScores.from_dict(record) if NOISED in record else Scores.from_dict(record)


def require_done(answer: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise if a worker says that it could not do what it was asked for, in our own words.

    Raises:
        FednerError: If so.
    """
    code = answer.get("error")
    if code is None:
        return
    words = FAILURES[code] if isinstance(code, str) and code in FAILURES else FAILURES["malformed"]
    raise FednerError(
        f"platforms {', '.join(names)}: {words}",
        "Read the platforms' log above or beside them, fix the cause and resume the run.",
    )
