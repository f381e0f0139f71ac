"""What a platform sent, line by line, in its own folder: the ground of its disclosure record."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedner.durable import append_whole, owner_folder
from fedner.errors import FednerError
from fedner.federated.messages import (
    Failure,
    Order,
    Reply,
    ScoreReport,
    SumMessage,
    Update,
    payload_bytes,
)
from fedner.federated.strict_json import read_json

REPLIES = "replies.jsonl"
_MOST_LINE = 2**20


@dataclass(frozen=True, slots=True)
class Sent:
    """One reply, as the platform that sent it keeps it.

    Attributes:
        run: The run that asked.
        verb: What was asked for.
        round: The round.
        kind: The message type of the reply.
        num_bytes: The bytes of tensors that it carried.
        num_received: The bytes of tensors that came with the order.
        has_loss: Whether it named the training loss.
        has_scores: Whether it named scores.
        event: What it cost under differential privacy; None without.
        code: Why it failed; empty where it did not.
        phase: The phase of a summation that it answered; 0 outside one. Of a secure sum: 1 keys, 2
            sealed shares, 3 masked values, 4 the signed list of survivors, 5 shares opened. Of an
            encrypted one: 1, 5 announcements, 2, 6 sealed keys, 3 encrypted values, 4 nothing.
    """

    run: str
    verb: str
    round: int
    kind: str
    num_bytes: int = 0
    num_received: int = 0
    has_loss: bool = False
    has_scores: bool = False
    event: Mapping[str, Any] | None = None
    code: str = ""
    phase: int = 0


def sent_of(order: Order, reply: Reply) -> Sent:
    """Return what is kept of a reply."""
    return Sent(
        order.run,
        order.verb,
        order.round,
        type(reply).__name__,
        payload_bytes(reply) if isinstance(reply, Update | SumMessage) else 0,
        payload_bytes(order),
        isinstance(reply, Update) and reply.loss is not None,
        isinstance(reply, ScoreReport) and bool(reply.scores or reply.noised),
        None if isinstance(reply, Failure) else reply.event,
        reply.code if isinstance(reply, Failure) else "",
        reply.phase if isinstance(reply, SumMessage) else 0,
    )


class ReplyLog:
    """The file of a platform's replies; a line that a kill cut off is dropped when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def append(self, sent: Sent) -> None:
        """Add one line."""
        if self._handle is None:
            self._handle = open_whole_lines(self.path)
        append_whole(self._handle, json.dumps(asdict(sent), ensure_ascii=False).encode() + b"\n")

    def close(self) -> None:
        """Make the lines durable and close the file; may be called twice."""
        if self._handle is not None:
            os.fsync(self._handle)
            os.close(self._handle)
            self._handle = None


def open_whole_lines(path: Path) -> int:
    """Open a file for appending behind its last whole line."""
    owner_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    data = path.read_bytes()
    os.ftruncate(handle, data.rfind(b"\n") + 1)
    os.lseek(handle, 0, os.SEEK_END)
    return handle


def read_replies(path: Path) -> list[Sent]:
    """Return what a platform sent, oldest first; nothing where there is no file.

    Raises:
        FednerError: A line is damaged.
    """
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    try:
        return [Sent(**read_json(line, _MOST_LINE)) for line in lines]
    except (FednerError, TypeError) as error:
        raise FednerError(
            f"{path} is damaged: {error}", "Use an undamaged copy of the folder."
        ) from error


def updates_in(replies: Sequence[Sent]) -> list[Sent]:
    """Return the replies that carried an update, plain or hidden; one for each round.

    A round that was taken again, after a stop, replaces what was sent before (`num_resent`).
    """
    return list({(each.run, each.round): each for each in _carrying(replies)}.values())


def num_resent(replies: Sequence[Sent]) -> int:
    """Return how many updates were sent for rounds that were then taken again."""
    return len(_carrying(replies)) - len(updates_in(replies))


def _carrying(replies: Sequence[Sent]) -> list[Sent]:
    return [each for each in replies if each.verb == "round" and not each.code]
