"""One process at a time works in a folder. Loads no torch: commands that only sign take it too."""

import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedner.errors import FednerError

LOCK = ".lock"
# How the system writes a lock down: its fields, the place of its type, and of the others zeros.
_FORMS = {"linux": ("hhqqi", 0), "darwin": ("qqihh", 3)}


class FolderInUseError(FednerError):
    """Another process works in a folder."""


@contextmanager
def held_by_this_process(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Keep other processes from running in a folder; the lock ends with the process, even killed.

    Args:
        folder: The folder.
        name: The file that is locked: one for each kind of work that goes on at a time.

    Raises:
        FolderInUseError: If another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows: nothing to lock with, and nothing to lose but the warning
        yield
        return
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            # A record lock and not flock: forked workers must not inherit it.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise FolderInUseError(
                f"{folder} is in use by another process",
                "Wait for its end, or take another folder.",
            ) from error
        yield
    finally:
        os.close(descriptor)


def is_held(folder: Path, name: str = LOCK) -> bool | None:
    """Whether another process holds a folder; None where the system does not tell.

    Nothing is locked by asking: whoever begins to work there at this moment is not in the way.

    Args:
        folder: The folder; this process itself must not hold it.
        name: The file that is locked.
    """
    form = _FORMS.get(sys.platform)
    if form is None:
        return None
    import fcntl

    shape, place = form
    asked = [0] * len(shape)
    asked[place] = fcntl.F_WRLCK
    try:
        descriptor = os.open(folder / name, os.O_RDONLY)
    except OSError:
        return False  # nobody ever worked there
    try:
        told = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(shape, *asked))
    except OSError:
        return None  # a network file system without locks
    finally:
        os.close(descriptor)
    return int(struct.unpack(shape, told)[place]) != fcntl.F_UNLCK
