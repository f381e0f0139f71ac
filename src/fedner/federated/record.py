"""The record of a run: one JSON line for each round, kept in step with the checkpoints."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedner.durable import append_whole, write_bytes
from fedner.errors import FednerError
from fedner.federated.messages import Failure, Verb
from fedner.federated.screening import Refusal
from fedner.privacy.events import GaussianRelease, from_json, to_json
from fedner.privacy.scores import NOISED, NoisedScores
from fedner.scoring import Scores

_NEWLINE = b"\n"


class Missing(NamedTuple):
    """A platform that did not do what it was asked for.

    Attributes:
        platform: Whose it is.
        verb: What it was asked for.
        code: Why not, as a constant.
        message: Why not, in fixed words.
    """

    platform: str
    verb: Verb
    code: str
    message: str


def missing(failed: Failure, verb: Verb) -> Missing:
    """Return the record of a failure."""
    return Missing(failed.platform, verb, failed.code, failed.message)


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """What happened in a round.

    Attributes:
        round: Counted from 1.
        seconds: How long it took, evaluation included.
        loss: The mean of the platforms' training losses by public size, or None.
        losses: The training loss of each platform that sent it.
        norms: The norm of each accepted update.
        bytes_up: Bytes of tensors that each platform transmitted.
        bytes_down: Bytes of tensors sent to each platform.
        refusals: Updates that were not taken.
        failures: Platforms that did not do something, whatever it was.
        scores: The scores of each platform, in rounds that were evaluated.
        events: What each platform's release cost, taken or refused, under differential privacy.
    """

    round: int
    seconds: float
    loss: float | None
    losses: Mapping[str, float]
    norms: Mapping[str, float]
    bytes_up: Mapping[str, int]
    bytes_down: Mapping[str, int]
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[Missing, ...] = ()
    scores: Mapping[str, Scores | NoisedScores] = field(default_factory=dict)
    events: Mapping[str, GaussianRelease] = field(default_factory=dict)

    def line(self) -> bytes:
        """Return the record as one line of JSON."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        facts["refusals"] = [each._asdict() for each in self.refusals]
        facts["failures"] = [each._asdict() for each in self.failures]
        facts["scores"] = {name: each.as_dict() for name, each in self.scores.items()}
        facts["events"] = {name: to_json(each) for name, each in self.events.items()}
        return json.dumps(facts, ensure_ascii=False).encode() + _NEWLINE


def _record(facts: dict[str, Any]) -> RoundRecord:
    """Return the record of which `line` wrote the facts."""
    facts["refusals"] = tuple(Refusal(**each) for each in facts["refusals"])
    facts["failures"] = tuple(Missing(**each) for each in facts["failures"])
    facts["scores"] = {name: _scores(each) for name, each in facts["scores"].items()}
    facts["events"] = {name: _event(each) for name, each in facts["events"].items()}
    return RoundRecord(**facts)


def _scores(stated: dict[str, Any]) -> Scores | NoisedScores:
    return NoisedScores.from_dict(stated) if NOISED in stated else Scores.from_dict(stated)


def _event(stated: dict[str, Any]) -> GaussianRelease:
    event = from_json(stated)
    if not isinstance(event, GaussianRelease):
        raise TypeError("an event that is no release")
    return event


def parse_round(path: Path | str, line: bytes | str, number: int) -> RoundRecord:
    """Return the record that a line holds.

    Args:
        path: Where the line is from, for errors.
        line: The line.
        number: The round that it must be of.

    Raises:
        FednerError: It is no record of that round.
    """
    try:
        record = _record(json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError, FednerError) as error:
        raise FednerError(
            f"{path}, line {number} is not the record of a round",
            "The record was altered: restore it, or begin the run anew.",
        ) from error
    if record.round != number:
        raise FednerError(
            f"{path}, line {number} has round {record.round}; expected {number}",
            "The record was altered: restore it, or begin the run anew.",
        )
    return record


def read_rounds(path: Path) -> list[RoundRecord]:
    """Return the record of every round that a file holds; a torn last line is left out.

    Raises:
        FednerError: A line is damaged.
    """
    lines = path.read_bytes().split(_NEWLINE)[:-1] if path.is_file() else []
    return [parse_round(path, line, number) for number, line in enumerate(lines, start=1)]


class RecordFile:
    """The record of a run on disk; lines are whole or dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def keep_until(self, round_: int) -> list[RoundRecord]:
        """Drop what lies beyond a round, torn lines included; return what is kept.

        Raises:
            FednerError: If a line before that is damaged or missing.
        """
        data = self.path.read_bytes() if self.path.exists() else b""
        kept = data.split(_NEWLINE)[: min(round_, data.count(_NEWLINE))]
        records = [
            parse_round(self.path, line, number) for number, line in enumerate(kept, start=1)
        ]
        if len(records) < round_:
            raise FednerError(
                f"{self.path} ends with round {len(records)}; expected {round_} rounds",
                "The record was altered: restore it, or begin the run anew.",
            )
        write_bytes(self.path, b"".join(line + _NEWLINE for line in kept), owner_only=True)
        return records

    def append(self, record: RoundRecord) -> None:
        """Add one line."""
        if self._handle is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._handle = os.open(self.path, flags, 0o600)
        append_whole(self._handle, record.line())

    def sync(self) -> None:
        """Make the lines durable: before the checkpoint of their round."""
        if self._handle is not None:
            os.fsync(self._handle)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
