"""What goes through the pipe between an engine and a worker: small frames of fixed form.

Messages themselves lie in shared buffers, or follow their frame where they have no room there.
"""

import struct
from typing import NamedTuple

from fedner.errors import FednerError

STOP, FREE, ORDER, REPLY, INLINE = range(5)
_LAYOUT = struct.Struct("<BBQIQ")
FRAME_BYTES = _LAYOUT.size


class Frame(NamedTuple):
    """One frame.

    Attributes:
        kind: `STOP` and `FREE` (a slot) to a worker; `ORDER` to a worker, `REPLY` to the engine,
            where the message lies in a buffer; `INLINE` either way, where it follows.
        sequence: The call of `ask` that it belongs to: a late reply shows.
        slot: The buffer that is meant, of those that replies lie in.
        length: How long the message is.
        is_last: Whether no further order of the same call follows.
        rest: What follows: names in an order, and an inline message.
    """

    kind: int
    sequence: int = 0
    slot: int = 0
    length: int = 0
    is_last: bool = True
    rest: bytes = b""

    def to_bytes(self) -> bytes:
        """Return the frame as it goes through the pipe."""
        head = (self.kind, self.is_last, self.sequence, self.slot, self.length)
        return _LAYOUT.pack(*head) + self.rest


def read_frame(data: bytes) -> Frame:
    """Return the frame in some bytes.

    Raises:
        FednerError: If they are too few to be one, or of an unknown kind.
    """
    if len(data) < FRAME_BYTES:
        raise FednerError(f"a frame of {len(data)} bytes; expected at least {FRAME_BYTES}")
    kind, is_last, sequence, slot, length = _LAYOUT.unpack_from(data)
    if kind > INLINE:
        raise FednerError(f"a frame of kind {kind}; expected at most {INLINE}")
    return Frame(kind, sequence, slot, length, bool(is_last), data[FRAME_BYTES:])
