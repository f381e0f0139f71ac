"""One process at a time works in a folder. Loads no torch: commands that only sign take it too."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedner.errors import FednerError


class FolderInUseError(FednerError):
    """Another process works in a folder."""


@contextmanager
def held_by_this_process(folder: Path) -> Iterator[None]:
    """Keep other processes from running in a folder; the lock ends with the process, even killed.

    Raises:
        FolderInUseError: If another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows: nothing to lock with, and nothing to lose but the warning
        yield
        return
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
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
