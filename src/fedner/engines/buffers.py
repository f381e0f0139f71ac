"""Memory that two processes share: a message is written there once and copied out once."""

import mmap
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

StartMethod = Literal["fork", "spawn"]

_HEADER_BYTES, _ENTRY_BYTES = 2**16, 400


def shared_buffer(num_bytes: int, method: StartMethod) -> Tensor:
    """Return bytes that a process started afterwards by `method` has in common with this one.

    Forked processes inherit an anonymous mapping: it has no name, so that nothing is left behind
    by a kill, and no share of /dev/shm, which containers keep small.
    """
    size = max(num_bytes, 1)
    if method == "fork":
        return torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
    buffer = torch.zeros(size, dtype=torch.uint8)
    buffer.share_memory_()  # type: ignore[no-untyped-call]
    return buffer


def room_for(state: Mapping[str, Tensor]) -> int:
    """Return the bytes of a message with two states like this one, or one of twice its precision.

    A longer message finds another way: the room is for speed alone.
    """
    numbers = sum(each.numel() * each.element_size() for each in state.values())
    return 2 * (numbers + _ENTRY_BYTES * len(state)) + _HEADER_BYTES
