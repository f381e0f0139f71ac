"""The memory that a piece of code takes at most, whatever ran before it in this process."""

import gc
import tracemalloc
from collections.abc import Callable


def traced_peak(run: Callable[[], object]) -> int:
    """Return the most bytes that Python held at a time while it ran.

    What earlier tests left in cycles is let go before: to finalize it in between, with the warnings
    that come of that, takes megabytes.
    """
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()
