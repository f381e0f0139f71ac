"""Lets go of what rounds leave behind in cycles of references.

Messages, futures and steps of autograd refer to each other. Python looks for such cycles when many
objects are new; a round leaves few, but each may hold megabytes of tensors. So jobs look every few
seconds. What was there before the first round is not looked at again: that makes it quick, but it
still takes as long as a short round, so not after each.
"""

import gc
import time

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
        if self._last is None:
            gc.freeze()
        self._last = now
