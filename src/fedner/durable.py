"""Writing that survives a crash: a file is either the old one or the whole new one, never half.

Everything that fedner keeps (corpora, checkpoints, ledgers, records) is written through here: into
a temporary file in the same folder, flushed, synchronised to the disk, and moved into place.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedner.errors import FednerError

OWNER_ONLY = 0o600
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def writing(path: Path, *, owner_only: bool = False) -> Iterator[BinaryIO]:
    """Open a binary file that takes the place of `path` when the block ends without an error.

    An existing file keeps its permissions; a symbolic link is followed. If the block raises, the
    old file stays as it was and nothing is left behind.

    Args:
        path: Where the file shall stand.
        owner_only: Whether nobody but the owner may read it (mode 0600).

    Raises:
        FednerError: If the file cannot be written there, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise FednerError(f"{path} is not a regular file", "Name a file to write to.")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        handle = _create(temporary, target, owner_only)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        if error.errno in _FULL or error.filename == str(temporary):
            raise _unwritable(path, error) from error
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_bytes(path: Path, data: bytes, *, owner_only: bool = False) -> None:
    """Put `data` at `path`, wholly or not at all."""
    with writing(path, owner_only=owner_only) as handle:
        handle.write(data)


def write_text(path: Path, text: str, *, owner_only: bool = False) -> None:
    """Put `text` at `path` in UTF-8, wholly or not at all."""
    write_bytes(path, text.encode(), owner_only=owner_only)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable, where the system can do that."""
    flags = getattr(os, "O_DIRECTORY", None)
    if flags is None:  # Windows has no such call, and needs none
        return
    descriptor = os.open(folder, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot do it for folders; the file itself is safe.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:
            raise
    finally:
        os.close(descriptor)


def _create(temporary: Path, target: Path, owner_only: bool) -> BinaryIO:
    mode = OWNER_ONLY if owner_only else 0o666  # the process's umask applies
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, mode)
    if target.exists() and not owner_only:
        with suppress(OSError):
            temporary.chmod(target.stat().st_mode & 0o777)
    return os.fdopen(descriptor, "wb")


def _unwritable(path: Path, error: OSError) -> FednerError:
    return FednerError(
        f"cannot write {path}: {error.strerror or error}",
        "Check that the folder exists, that you may write there and that the disk has room.",
    )
