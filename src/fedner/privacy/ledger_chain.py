"""The lines of a ledger: a chain of checksummed JSON records, and its check.

Pure functions over bytes; `ledger.py` sees to files, locks and order of writing. Line 0 opens the
ledger; every line holds its counter, the digest of the line before, and its own digest over all of
its other fields. A release takes two lines: its charge, written before data are touched, and its
answer, written before anything is sent.
"""

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedner.chained import GENESIS, LINKS, follows, linked, self_consistent
from fedner.errors import FednerError
from fedner.privacy.budget import Budget
from fedner.privacy.events import Event, from_json, to_json
from fedner.privacy.ledger_marks import LedgerMark

_VERSION = 1


@dataclass(frozen=True, slots=True)
class OpeningLine:
    """The first line: which ledger it is, and whether it is for simulations."""

    ledger: str
    version: int
    is_simulation: bool
    time: str


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """From here on this budget holds: the owner of the ledger granted it.

    Attributes:
        budget: What may be spent in all.
        time: When it was granted.
        who: The user of the operating system who granted it; empty in ledgers of earlier versions,
            where the file of a run could set it.
        old: The budget that held before.
        public_units: The public number of units that the owner declares, if any.
        key_digest: The digest of the platform's key; empty where there is none yet.
    """

    budget: Budget
    time: str
    who: str = ""
    old: Budget | None = None
    public_units: int | None = None
    key_digest: str = ""


@dataclass(frozen=True, slots=True)
class ChargeLine:
    """The cost of one release, counted before the data are touched.

    Attributes:
        run: The run that asked.
        round: The round that was asked for.
        platform: Whose release it is; empty where the ledger has one platform alone.
        broadcast: The digest of the request.
        event: What it costs.
        time: When.
        study: The digest of the study that asked; empty where nobody said.
    """

    run: str
    round: int
    platform: str
    broadcast: str
    event: Event
    time: str
    study: str = ""


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """What a charge was spent on: the digests of what is transmitted and of what is kept.

    Attributes:
        charge: The counter of the charge's line.
        payload_sha256: The digest of the bytes that are transmitted.
        payload_bytes: Their number.
        kept_sha256: The digest of what the platform keeps beside them.
        kept_bytes: Their number.
        time: When.
    """

    charge: int
    payload_sha256: str
    payload_bytes: int
    kept_sha256: str
    kept_bytes: int
    time: str


Line = OpeningLine | BudgetLine | ChargeLine | AnswerLine


@dataclass(frozen=True, slots=True)
class ReleaseEntry:
    """A release as the chain tells it.

    Attributes:
        counter: The number of the charge's line.
        charge: Its cost: counted whether or not there is an answer.
        answer: What was stored to be sent; None where the platform stopped before.
    """

    counter: int
    charge: ChargeLine
    answer: AnswerLine | None = None

    @property
    def run(self) -> str:
        """The run that asked."""
        return self.charge.run

    @property
    def round(self) -> int:
        """The round that was asked for."""
        return self.charge.round

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.charge.event

    @property
    def digests(self) -> tuple[str, ...]:
        """The names of its stored bytes."""
        answer = self.answer
        return () if answer is None else (answer.payload_sha256, answer.kept_sha256)


@dataclass(frozen=True, slots=True)
class Chain:
    """A checked ledger.

    Attributes:
        opening: Its first line.
        mark: Where it stands.
        digests: The digest of every line.
        budget: The budget that holds, if one was set.
        releases: The releases, answered or not, in the order of their charges.
        grants: Every budget that was ever granted, in order.
    """

    opening: OpeningLine
    mark: LedgerMark
    digests: tuple[str, ...]
    budget: Budget | None = None
    releases: tuple[ReleaseEntry, ...] = ()
    grants: tuple[BudgetLine, ...] = ()

    @property
    def key_digest(self) -> str:
        """The digest of the platform's key; empty where there is none."""
        return self.grants[-1].key_digest if self.grants else ""

    @property
    def public_units(self) -> int | None:
        """The public number of units that the owner declares, if any."""
        return self.grants[-1].public_units if self.grants else None


def opened(time: str, *, is_simulation: bool) -> tuple[Chain, bytes]:
    """Return a new ledger and the bytes of its first line."""
    line = OpeningLine(secrets.token_hex(16), _VERSION, is_simulation, time)
    encoded, digest = _encode(line, 0, GENESIS)
    return Chain(line, _first_mark(line, digest), (digest,)), encoded


def _first_mark(line: OpeningLine, digest: str) -> LedgerMark:
    return LedgerMark(line.ledger, 0, digest, GENESIS, GENESIS)


def appended(chain: Chain, line: BudgetLine | ChargeLine | AnswerLine) -> tuple[Chain, bytes]:
    """Return the ledger with one more line, and the bytes of that line."""
    encoded, digest = _encode(line, chain.mark.counter + 1, chain.mark.digest)
    return _extended(chain, line, digest), encoded


def read_chain(data: bytes, name: Path) -> tuple[Chain | None, bytes]:
    """Check every line of a ledger.

    Args:
        data: What the file holds.
        name: The file, for messages.

    Returns:
        The ledger up to its last whole line, or None if there is none, and the torn rest.

    Raises:
        FednerError: If a line was changed, removed, inserted or moved. A rest that no whole line
            follows is not an error here: whether it may be dropped, the witness tells.
    """
    chain: Chain | None = None
    lines = data.splitlines(keepends=True)
    for number, raw in enumerate(lines):
        record = self_consistent(raw)
        if record is None:
            if any(self_consistent(later) is not None for later in lines[number + 1 :]):
                raise _tampered(name, number, "was changed: its digest is wrong")
            return chain, b"".join(lines[number:])
        chain = _checked(chain, record, number, name)
    return chain, b""


def _checked(chain: Chain | None, record: dict[str, Any], number: int, name: Path) -> Chain:
    expected = GENESIS if chain is None else chain.mark.digest
    if not follows(record, number, expected):
        raise _tampered(name, number, "does not follow the one before: lines are missing or moved")
    line = _decode(record, number, name)
    if chain is None:
        if not isinstance(line, OpeningLine):
            raise _tampered(name, number, "is not an opening: the beginning is missing")
        digest = record["digest"]
        return Chain(line, _first_mark(line, digest), (digest,))
    match line:
        case OpeningLine():
            raise _tampered(name, number, "opens a second ledger")
        case _Both():
            longer = _extended(chain, line.charge, record["digest"])
            answer = replace(line.answer, charge=longer.mark.counter)
            return replace(longer, releases=_answered(longer.releases, answer))
        case _:
            try:
                return _extended(chain, line, record["digest"])
            except ValueError as error:
                raise _tampered(name, number, "answers a charge that is not there") from error


def _extended(chain: Chain, line: BudgetLine | ChargeLine | AnswerLine, digest: str) -> Chain:
    """Return the ledger with a line more.

    Raises:
        ValueError: If an answer has no charge that waits for it.
    """
    last = chain.mark
    mark = LedgerMark(last.ledger, last.counter + 1, digest, last.digest, last.previous)
    longer = replace(chain, mark=mark, digests=(*chain.digests, digest))
    match line:
        case BudgetLine():
            return replace(longer, budget=line.budget, grants=(*chain.grants, line))
        case ChargeLine():
            entry = ReleaseEntry(mark.counter, line)
            return replace(longer, releases=(*chain.releases, entry))
        case AnswerLine():
            return replace(longer, releases=_answered(chain.releases, line))


def _answered(releases: tuple[ReleaseEntry, ...], line: AnswerLine) -> tuple[ReleaseEntry, ...]:
    for place in reversed(range(len(releases))):
        entry = releases[place]
        if entry.counter == line.charge and entry.answer is None:
            return (*releases[:place], replace(entry, answer=line), *releases[place + 1 :])
    raise ValueError(f"no charge {line.charge!r} waits for an answer")


def _encode(line: Line, counter: int, previous: str) -> tuple[bytes, str]:
    return linked(_fields(line), counter, previous)


def _fields(line: Line) -> dict[str, Any]:
    match line:
        case OpeningLine():
            return {"kind": "opening", **asdict(line)}
        case BudgetLine():
            return {"kind": "budget", **asdict(line)}
        case ChargeLine():
            return {"kind": "charge", **asdict(line), "event": to_json(line.event)}
        case AnswerLine():
            return {"kind": "answer", **asdict(line)}


@dataclass(frozen=True, slots=True)
class _Both:
    """Charge and answer in one line, as versions before wrote them."""

    charge: ChargeLine
    answer: AnswerLine


def _decode(record: Mapping[str, Any], number: int, name: Path) -> Line | _Both:
    values = dict(record)
    kind = values.pop("kind", None)
    for key in LINKS:
        values.pop(key)
    try:
        if kind == "opening" and values.get("version") == _VERSION:
            return OpeningLine(**values)
        if kind == "budget":
            old = values.pop("old", None)
            old = None if old is None else Budget(**old)
            return BudgetLine(Budget(**values.pop("budget")), old=old, **values)
        if kind == "charge":
            return ChargeLine(event=from_json(values.pop("event")), **values)
        if kind == "answer":
            return AnswerLine(**values)
        if kind == "release":
            return _decode_release(values)
    except (TypeError, KeyError) as error:
        raise _unknown(name, number) from error
    raise _unknown(name, number)


def _decode_release(values: dict[str, Any]) -> _Both:
    asked = {name: values.pop(name) for name in ("run", "round", "broadcast")}
    event, time = from_json(values.pop("event")), values.pop("time")
    charge = ChargeLine(platform="", event=event, time=time, **asked)
    return _Both(charge, AnswerLine(charge=0, time=time, **values))


def _tampered(name: Path, number: int, problem: str) -> FednerError:
    return FednerError(
        f"{name}: line {number + 1} {problem}.",
        "The ledger cannot be trusted: restore its newest backup. Until then nothing is released.",
    )


def _unknown(name: Path, number: int) -> FednerError:
    return FednerError(
        f"{name}: line {number + 1} has a form that this version of fedner does not know.",
        "Read it with the version that wrote it.",
    )
