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
OWNER_FOLDER = 0o700
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def writing(
    path: Path, *, owner_only: bool = False, mode: int | None = None, overwrite: bool = True
) -> Iterator[BinaryIO]:
    """Open a binary file that takes the place of `path` when the block ends without an error.

    An existing file keeps its permissions; a symbolic link is followed. If the block raises, the
    old file stays as it was and nothing is left behind.

    Args:
        path: Where the file shall stand.
        owner_only: Whether nobody but the owner may read it (mode 0600).
        mode: Its permissions from the first byte on, less the umask; None for the usual ones.
        overwrite: Whether it may take the place of an existing file.

    Raises:
        FednerError: If the file cannot be written there, the disk is full, or a file is there
            that shall not be overwritten.
    """
    target = Path(os.path.realpath(path))
    if not overwrite and os.path.lexists(path):
        raise _already_there(path)
    if target.exists() and not target.is_file():
        raise FednerError(f"{path} is not a regular file", "Name a file to write to.")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        handle = _create(temporary, target, OWNER_ONLY if owner_only else mode)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        if overwrite:
            temporary.replace(target)
        else:
            place_anew(temporary, target, path)
        sync_folder(target.parent)
    except OSError as error:
        if error.errno in _FULL or error.filename == str(temporary):
            raise _unwritable(path, error) from error
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_bytes(
    path: Path,
    data: bytes,
    *,
    owner_only: bool = False,
    mode: int | None = None,
    overwrite: bool = True,
) -> None:
    """Put `data` at `path`, wholly or not at all; `writing` explains the arguments."""
    with writing(path, owner_only=owner_only, mode=mode, overwrite=overwrite) as handle:
        handle.write(data)


def append_whole(descriptor: int, data: bytes) -> None:
    """Add `data` behind the end of an open file, wholly or not at all; `os.fsync` is the caller's.

    On a disk that is full a write may end half-way: what arrived is taken back.

    Args:
        descriptor: Of a file that this process alone writes to.
        data: What to add.
    """
    end = os.lseek(descriptor, 0, os.SEEK_END)
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, end)
        os.lseek(descriptor, end, os.SEEK_SET)
        raise


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error came of a disk without room, of a quota or of a limit on a file's size."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


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


def place_anew(temporary: Path, target: Path, path: Path) -> None:
    """Give a written file its name; one that somebody made in the meantime stays.

    Args:
        temporary: The file, in the folder of `target` or on the same file system.
        target: Its name.
        path: What users call that.

    Raises:
        FednerError: A file of that name is there.
    """
    try:
        os.link(temporary, target)
    except FileExistsError as error:
        raise _already_there(path) from error
    except (OSError, NotImplementedError) as error:  # a file system without hard links
        if target.exists():
            raise _already_there(path) from error
        temporary.replace(target)


def _create(temporary: Path, target: Path, mode: int | None) -> BinaryIO:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    # The process's umask applies to either mode.
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode)
    if mode is None and target.exists():
        with suppress(OSError):
            temporary.chmod(target.stat().st_mode & 0o777)
    return os.fdopen(descriptor, "wb")


def _already_there(path: Path) -> FednerError:
    return FednerError(f"{path} is already there", "Choose another name: nothing is overwritten.")


def _unwritable(path: Path, error: OSError) -> FednerError:
    return FednerError(
        f"cannot write {path}: {error.strerror or error}",
        "Check that the folder exists, that you may write there and that the disk has room.",
    )


def owner_folder(folder: Path) -> Path:
    """Make a folder, with its parents, that nobody but the owner may enter; return it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=OWNER_FOLDER, exist_ok=True)
    return folder
