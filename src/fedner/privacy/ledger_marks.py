"""Where a ledger stands, in a few words: for the witness beside it, and for the server.

A mark travels with every release. The server remembers the last one of each platform and refuses a
platform whose ledger went back (`check_mark`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from fedner.errors import FednerError

MOST_ENTRIES = 10**12
_DIGEST_LENGTH = 64
_HEX = frozenset("0123456789abcdef")
_NAME_LENGTH = 32


@dataclass(frozen=True, slots=True)
class LedgerMark:
    """Where a ledger stands: what the server remembers of it, and what the witness holds.

    Attributes:
        ledger: The random name of the ledger.
        counter: The number of its last line.
        digest: The digest of that line.
        previous: The digest of the line before.
        earlier: The digest of the line before that: a release takes two lines. Empty in marks of
            older versions.
    """

    ledger: str
    counter: int
    digest: str
    previous: str
    earlier: str = ""

    def is_at(self, other: "LedgerMark") -> bool:
        """Whether both stand at the same line of the same ledger."""
        own = (self.ledger, self.counter, self.digest)
        return own == (other.ledger, other.counter, other.digest)


def encode_mark(mark: LedgerMark) -> bytes:
    """Return the bytes of a witness file."""
    return json.dumps(asdict(mark), sort_keys=True, separators=(",", ":")).encode() + b"\n"


def decode_mark(data: bytes, name: Path) -> LedgerMark:
    """Read a witness file back.

    Raises:
        FednerError: If it is not one.
    """
    try:
        return mark_from_json(json.loads(data), is_exact=False)
    except (ValueError, RecursionError, FednerError) as error:
        raise FednerError(
            f"{name} is not the witness of a ledger: {error}.",
            "Restore it from a backup: without it nobody can tell whether the ledger is complete.",
        ) from error


def mark_from_json(record: object, *, is_exact: bool = True) -> LedgerMark:
    """Return the mark that a platform or a witness states.

    Args:
        record: What was stated.
        is_exact: Whether all fields must be there; else those of older versions are enough.

    Raises:
        FednerError: If it is not exactly a mark.
    """
    stated = dict(record) if isinstance(record, Mapping) else {}
    if not is_exact:
        stated.setdefault("earlier", "")
    digests = [stated.get(name) for name in ("digest", "previous")]
    earlier, counter = stated.get("earlier"), stated.get("counter")
    is_sound = (
        set(stated) == {field.name for field in fields(LedgerMark)}
        and _is_hex(stated["ledger"], _NAME_LENGTH)
        and type(counter) is int
        and 0 <= counter <= MOST_ENTRIES
        and all(_is_hex(digest, _DIGEST_LENGTH) for digest in digests)
        and (_is_hex(earlier, _DIGEST_LENGTH) or (not is_exact and earlier == ""))
    )
    if not is_sound:
        raise FednerError("the mark of its ledger has another form")
    return LedgerMark(**stated)


def _is_hex(value: object, length: int) -> bool:
    return isinstance(value, str) and len(value) == length and set(value) <= _HEX


def check_mark(platform: str, last_seen: LedgerMark | None, new: LedgerMark) -> None:
    """See to it, on the server, that a platform's ledger only moves forward.

    Raises:
        FednerError: If the ledger is another one, went back, or holds another history.
    """
    if last_seen is None or new == last_seen:
        return
    if new.ledger != last_seen.ledger:
        problem = f"is another ledger ({new.ledger}, expected {last_seen.ledger})"
    elif new.counter < last_seen.counter:
        problem = f"went back from entry {last_seen.counter} to {new.counter}"
    elif new.counter == last_seen.counter:
        problem = f"has another entry {new.counter} than it had before"
    elif new.counter == last_seen.counter + 1 and new.previous != last_seen.digest:
        problem = f"has another history before entry {new.counter}"
    elif new.counter == last_seen.counter + 2 and new.earlier != last_seen.digest:
        problem = f"has another history before entry {new.counter - 1}"
    else:
        return
    raise FednerError(
        f"The privacy ledger of platform {platform} {problem}: an older state was restored, or "
        "the ledger was replaced, and what it has spent since may be forgotten.",
        f"Let {platform} restore its newest ledger before it takes part again.",
    )
