"""Lets go of what a round leaves behind in cycles of references.

Messages, futures and steps of autograd refer to each other. Python looks for such cycles when many
objects are new; a round leaves few, but each may hold megabytes of tensors. So jobs look after
every round. What was there before the first round is not looked at again: that makes it quick.
"""

import gc


class Garbage:
    """Collects after every round of one process."""

    def __init__(self) -> None:
        self._is_frozen = False

    def collect(self) -> None:
        """Let go of all cycles that nobody refers to."""
        gc.collect()
        if not self._is_frozen:
            gc.freeze()
            self._is_frozen = True
