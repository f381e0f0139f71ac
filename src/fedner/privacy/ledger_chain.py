"""The lines of a ledger: a chain of checksummed JSON records, and its check.

Pure functions over bytes; `ledger.py` sees to files, locks and order of writing. Line 0 opens the
ledger; every line holds its counter, the digest of the line before, and its own digest over all of
its other fields.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedner.errors import FednerError
from fedner.privacy.budget import Budget
from fedner.privacy.events import Event, from_json, to_json

_VERSION = 1
_GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class LedgerMark:
    """Where a ledger stands: what the server remembers of it, and what the witness holds.

    Attributes:
        ledger: The random name of the ledger.
        counter: The number of its last line.
        digest: The digest of that line.
        previous: The digest of the line before.
    """

    ledger: str
    counter: int
    digest: str
    previous: str


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
class ReleaseLine:
    """One release: for which request, at what cost, and the digests of its bytes."""

    run: str
    round: int
    broadcast: str
    event: Event
    payload_sha256: str
    payload_bytes: int
    kept_sha256: str
    kept_bytes: int
    time: str


Line = OpeningLine | BudgetLine | ReleaseLine


@dataclass(frozen=True, slots=True)
class Chain:
    """A checked ledger.

    Attributes:
        opening: Its first line.
        mark: Where it stands.
        digests: The digest of every line.
        budget: The budget that holds, if one was set.
        releases: The releases, in order.
        grants: Every budget that was ever granted, in order.
    """

    opening: OpeningLine
    mark: LedgerMark
    digests: tuple[str, ...]
    budget: Budget | None = None
    releases: tuple[ReleaseLine, ...] = ()
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
    encoded, digest = _encode(line, 0, _GENESIS)
    return Chain(line, LedgerMark(line.ledger, 0, digest, _GENESIS), (digest,)), encoded


def appended(chain: Chain, line: BudgetLine | ReleaseLine) -> tuple[Chain, bytes]:
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
        record = _self_consistent(raw)
        if record is None:
            if any(_self_consistent(later) is not None for later in lines[number + 1 :]):
                raise _tampered(name, number, "was changed: its digest is wrong")
            return chain, b"".join(lines[number:])
        chain = _checked(chain, record, number, name)
    return chain, b""


def _checked(chain: Chain | None, record: dict[str, Any], number: int, name: Path) -> Chain:
    expected = _GENESIS if chain is None else chain.mark.digest
    if record.get("counter") != number or record.get("previous") != expected:
        raise _tampered(name, number, "does not follow the one before: lines are missing or moved")
    line = _decode(record, number, name)
    if chain is None:
        if not isinstance(line, OpeningLine):
            raise _tampered(name, number, "is not an opening: the beginning is missing")
        digest = record["digest"]
        return Chain(line, LedgerMark(line.ledger, 0, digest, _GENESIS), (digest,))
    if isinstance(line, OpeningLine):
        raise _tampered(name, number, "opens a second ledger")
    return _extended(chain, line, record["digest"])


def _extended(chain: Chain, line: BudgetLine | ReleaseLine, digest: str) -> Chain:
    mark = LedgerMark(chain.mark.ledger, chain.mark.counter + 1, digest, chain.mark.digest)
    longer = replace(chain, mark=mark, digests=(*chain.digests, digest))
    if isinstance(line, BudgetLine):
        return replace(longer, budget=line.budget, grants=(*chain.grants, line))
    return replace(longer, releases=(*chain.releases, line))


def encode_mark(mark: LedgerMark) -> bytes:
    """Return the bytes of a witness file."""
    return _canonical(asdict(mark)) + b"\n"


def decode_mark(data: bytes, name: Path) -> LedgerMark:
    """Read a witness file back.

    Raises:
        FednerError: If it is not one.
    """
    try:
        return LedgerMark(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise FednerError(
            f"{name} is not the witness of a ledger: {error}.",
            "Restore it from a backup: without it nobody can tell whether the ledger is complete.",
        ) from error


def _encode(line: Line, counter: int, previous: str) -> tuple[bytes, str]:
    record = {**_fields(line), "counter": counter, "previous": previous}
    digest = hashlib.sha256(_canonical(record)).hexdigest()
    return _canonical({**record, "digest": digest}) + b"\n", digest


def _fields(line: Line) -> dict[str, Any]:
    match line:
        case OpeningLine():
            return {"kind": "opening", **asdict(line)}
        case BudgetLine():
            return {"kind": "budget", **asdict(line)}
        case ReleaseLine():
            return {"kind": "release", **asdict(line), "event": to_json(line.event)}


def _decode(record: Mapping[str, Any], number: int, name: Path) -> Line:
    values = dict(record)
    kind = values.pop("kind", None)
    for key in ("counter", "previous", "digest"):
        values.pop(key)
    try:
        if kind == "opening" and values.get("version") == _VERSION:
            return OpeningLine(**values)
        if kind == "budget":
            old = values.pop("old", None)
            old = None if old is None else Budget(**old)
            return BudgetLine(Budget(**values.pop("budget")), old=old, **values)
        if kind == "release":
            return ReleaseLine(event=from_json(values.pop("event")), **values)
    except (TypeError, KeyError) as error:
        raise _unknown(name, number) from error
    raise _unknown(name, number)


def _self_consistent(raw: bytes) -> dict[str, Any] | None:
    """Return the record of a line whose digest is right; None for anything else."""
    try:
        record = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("digest"), str):
        return None
    body = {key: value for key, value in record.items() if key != "digest"}
    is_right = hashlib.sha256(_canonical(body)).hexdigest() == record["digest"]
    return record if is_right else None


def _canonical(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


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
