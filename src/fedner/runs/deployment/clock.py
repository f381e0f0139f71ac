"""Whether the operating system keeps its clock right."""

import ctypes
import sys

_UNSYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)
_TIMEX_BYTES = 512  # more than struct timex has anywhere; all zero asks and changes nothing


def is_synchronised() -> bool | None:
    """Whether the system says that its clock follows another one; None where it cannot say."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        state: int = library.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _UNSYNCHRONISED
