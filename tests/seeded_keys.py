"""Ledgers whose keys follow from the names of their folders, and not from the system's entropy.

The key decides who is tested on. Of forty made-up sentences none fell on one side once in a few
thousand keys, of ten documents once in a few dozen.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedner.durable import write_bytes
from fedner.privacy import ledger
from fedner.privacy.unit_key import KEY_FILE, key_digest


def _make_key(folder: Path) -> str:
    key = hashlib.sha256(folder.name.encode()).digest()
    write_bytes(folder / KEY_FILE, key.hex().encode() + b"\n", owner_only=True)
    return key_digest(key)


@contextmanager
def seeded_keys() -> Iterator[None]:
    """Let this process open ledgers with such keys."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "make_key", _make_key)
        yield
