"""A disk without room, for tests: a limit on the size of files, which can be lifted again."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


def fill(num_bytes: int, pid: int = 0) -> None:
    """Let a process write no byte of a file behind this one; its new children inherit that."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (num_bytes, hard))


def free(pid: int = 0) -> None:
    """Let a process write again."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def full_disk(num_bytes: int = 0) -> Iterator[None]:
    """Let this process write no byte of a file behind this one."""
    fill(num_bytes)
    try:
        yield
    finally:
        free()
