"""Lines of JSON in a hash chain: each holds its number, the digest of the line before, and its own.

Pure functions over bytes. A line that was changed, removed, inserted or moved does not fit any
more; what a cut end is worth, only a second place can tell.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

GENESIS = "0" * 64
LINKS = ("counter", "previous", "digest")


def linked(record: Mapping[str, Any], counter: int, previous: str) -> tuple[bytes, str]:
    """Return a record as the line that follows another, and the digest of that line.

    Args:
        record: What the line says.
        counter: Its number.
        previous: The digest of the line before; `GENESIS` for the first.
    """
    whole = {**record, "counter": counter, "previous": previous}
    digest = hashlib.sha256(_canonical(whole)).hexdigest()
    return _canonical({**whole, "digest": digest}) + b"\n", digest


def self_consistent(raw: bytes) -> dict[str, Any] | None:
    """Return the record of a line whose digest is right, links included; None for anything else."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("digest"), str):
        return None
    body = {key: value for key, value in record.items() if key != "digest"}
    is_right = hashlib.sha256(_canonical(body)).hexdigest() == record["digest"]
    return record if is_right else None


def follows(record: Mapping[str, Any], counter: int, previous: str) -> bool:
    """Whether a line is the one of a number, behind the line of a digest."""
    return record.get("counter") == counter and record.get("previous") == previous


def _canonical(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
