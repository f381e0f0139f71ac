"""JSON that tells whether it was altered: a record with its kind, format and digest in it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedner.errors import FednerError

SEAL = "seal"


def seal_of(record: Mapping[str, Any]) -> str:
    """Return the digest of what a record says, its seal aside."""
    sealed = {key: value for key, value in record.items() if key != SEAL}
    return hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path, hint: str = "") -> str:
    """Return the digest of a file.

    Raises:
        FednerError: It cannot be read.
    """
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise FednerError(f"{path} cannot be read: {error.strerror}", hint) from error


def read_sealed(path: Path, kind: str, version: int, hint: str) -> dict[str, Any]:
    """Return a record that a release of fedner wrote, without its seal.

    Args:
        path: The file.
        kind: What it must describe.
        version: The format that this release reads.
        hint: What to do where it is harmed.

    Raises:
        FednerError: It is cut short, altered, of another kind or of another format.
    """
    try:
        record = json.loads(path.read_bytes())
    except ValueError as error:
        raise FednerError(f"{path} is cut short or not JSON: {error}", hint) from error
    if not isinstance(record, dict) or record.get("kind") != kind:
        raise FednerError(f"{path} does not describe a {kind}", hint)
    if record.get("version") != version:
        raise FednerError(
            f"{path} has format {record.get('version')} (written by fedner "
            f"{record.get('fedner')}); this release reads format {version}",
            "Use the release that wrote it.",
        )
    if record.pop(SEAL, None) != seal_of(record):
        raise FednerError(f"{path} was altered since fedner wrote it", hint)
    return record
