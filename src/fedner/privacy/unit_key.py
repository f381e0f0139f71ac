"""The secret that decides which unit goes where: made with the ledger, kept with it, never sent.

Training and test part, the kept share and the slices of a deployed platform go by a hash of the
unit under this key (`corpus.assignment`). Who knows the key can work out on which side a given text
would lie, so only the owner may read it. The ledger's chain holds its digest: a key that was
exchanged would cut the slices anew and make their accounting wrong, so it is refused.
"""

import hashlib
import os
from pathlib import Path

from fedner.corpus.assignment import KEY_BYTES
from fedner.durable import write_bytes
from fedner.errors import FednerError

KEY_FILE = "unit.key"
_OTHERS = 0o077
_RESTORE = "Restore it from the newest backup of the ledger. Until then nothing is released."


def make_key(folder: Path) -> str:
    """Write a new key of 256 bits from the system's entropy into a ledger's folder.

    Returns:
        Its digest, for the chain.
    """
    key = os.urandom(KEY_BYTES)
    write_bytes(folder / KEY_FILE, key.hex().encode() + b"\n", owner_only=True)
    return key_digest(key)


def key_digest(key: bytes) -> str:
    """Return what the chain holds of a key; nothing of the key can be computed from it."""
    return hashlib.sha256(b"fedner unit key" + key).hexdigest()


def read_key(folder: Path, digest: str) -> bytes:
    """Return the key of a ledger.

    Args:
        folder: The ledger's folder.
        digest: What its chain says of the key.

    Raises:
        FednerError: If the key is gone, was exchanged, or others may read it.
    """
    path = folder / KEY_FILE
    try:
        mode = path.stat().st_mode
        text = path.read_bytes()
    except OSError as error:
        problem = f"The key {path} of the ledger cannot be read: {error.strerror or error}."
        raise FednerError(problem, _RESTORE) from error
    if mode & _OTHERS:
        raise FednerError(
            f"The key {path} may be read by others: found mode {mode & 0o777:o}, expected 600.",
            f"Take their rights away: chmod 600 {path}",
        )
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES or key_digest(key) != digest:
        raise FednerError(f"The key {path} is not the one that the ledger was made with.", _RESTORE)
    return key
