"""Lets go of what rounds leave behind in cycles of references, and of memory that is free again.

Messages, futures and steps of autograd refer to each other. Python looks for such cycles when many
objects are new; a round leaves few, but each may hold megabytes of tensors. So processes look every
few seconds. What was there before the first round is not looked at again: that makes it quick, but
it still takes as long as a short round, so not after each.

What is freed stays with the process, in pieces between what is in use; the system gets it back
where the C library can do that.
"""

import ctypes
import gc
import threading
import time
from collections.abc import Callable
from functools import cache

_SECONDS = 5.0  # between two looks


class Garbage:
    """Collects after rounds of one process."""

    def __init__(self) -> None:
        self._last: float | None = None

    def collect(self) -> None:
        """Let go of all cycles that nobody refers to, unless the last look was just now."""
        now = time.monotonic()
        if self._last is not None and now - self._last < _SECONDS:
            return
        gc.collect()
        _give_back()(0)
        if self._last is None:
            gc.freeze()
        self._last = now


def collect_always(ended: threading.Event | None = None) -> threading.Thread:
    """Collect in a thread, for a process that has no rounds of its own.

    Args:
        ended: Ends the thread when it is set; without one it lasts as long as the process.
    """
    thread = threading.Thread(
        target=_collect_until,
        args=(ended or threading.Event(),),
        name="fedner-garbage",
        daemon=True,
    )
    thread.start()
    return thread


def _collect_until(ended: threading.Event) -> None:
    garbage = Garbage()
    while not ended.wait(_SECONDS):
        garbage.collect()


@cache
def _give_back() -> Callable[[int], object]:
    """Return the function of the C library that gives free memory back; glibc alone has it."""
    found: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return _keep if found is None else found


def _keep(_: int) -> None:
    """Stand for `malloc_trim` where there is none."""
