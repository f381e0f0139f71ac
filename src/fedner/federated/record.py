"""The record of a run: one JSON line for each round, kept in step with the checkpoints."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedner.durable import write_bytes
from fedner.errors import FednerError

_NEWLINE = b"\n"


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
        refusals: Updates that were not taken: platform, code, message.
        failures: Platforms that did not answer: platform, code, message.
        scores: The scores of each platform (`Scores.as_dict`), in rounds that were evaluated.
        events: What each platform's release cost, taken or refused, under differential privacy.
    """

    round: int
    seconds: float
    loss: float | None
    losses: Mapping[str, float]
    norms: Mapping[str, float]
    bytes_up: Mapping[str, int]
    bytes_down: Mapping[str, int]
    refusals: tuple[Mapping[str, str], ...] = ()
    failures: tuple[Mapping[str, str], ...] = ()
    scores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    events: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def line(self) -> bytes:
        """Return the record as one line of JSON."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(facts, ensure_ascii=False).encode() + _NEWLINE


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
        records = [self._parsed(line, number) for number, line in enumerate(kept, start=1)]
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
        os.write(self._handle, record.line())

    def sync(self) -> None:
        """Make the lines durable: before the checkpoint of their round."""
        if self._handle is not None:
            os.fsync(self._handle)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _parsed(self, line: bytes, number: int) -> RoundRecord:
        try:
            facts = json.loads(line)
            record = RoundRecord(
                **{
                    **facts,
                    "refusals": tuple(facts["refusals"]),
                    "failures": tuple(facts["failures"]),
                }
            )
        except (ValueError, KeyError, TypeError) as error:
            raise FednerError(
                f"{self.path}, line {number} is not the record of a round",
                "The record was altered: restore it, or begin the run anew.",
            ) from error
        if record.round != number:
            raise FednerError(
                f"{self.path}, line {number} has round {record.round}; expected {number}",
                "The record was altered: restore it, or begin the run anew.",
            )
        return record
