"""Keeps FLARE from spelling out every message that arrives, for a log line that nobody writes.

Its receiver formats all the bytes of a message for a line of its debug log, whether that log is
written or not: 6 ms for each megabyte, in which the process does nothing else.
"""

from typing import Any


def print_no_payloads() -> None:
    """Let the parts of a message that arrives in this process print as their number."""
    from nvflare.fuel.utils.buffer_list import ConsumableBufferList

    def printed(parts: Any) -> str:
        return f"<{len(parts)} parts>"

    ConsumableBufferList.__repr__ = printed
