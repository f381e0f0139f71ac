"""Named tensors through memory that two processes share: one copy in, one copy out, no pickling."""

import mmap
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

StartMethod = Literal["fork", "spawn"]
Layout = list[tuple[str, str, list[int], int]]

_ALIGNMENT = 64
_DTYPES = {"float32": torch.float32, "float64": torch.float64}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


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


def room_for(states: Sequence[Mapping[str, Tensor]]) -> int:
    """Return how many bytes the tensors of all states take in a buffer."""
    return sum(_aligned(each.numel() * each.element_size()) for s in states for each in s.values())


@torch.no_grad()
def write_tensors(buffer: Tensor, tensors: Mapping[str, Tensor]) -> Layout | None:
    """Copy tensors into a buffer and return where they lie, or None where they do not fit."""
    if room_for([tensors]) > len(buffer) or not all(t.dtype in _NAMES for t in tensors.values()):
        return None
    layout: Layout = []
    offset = 0
    for name, tensor in tensors.items():
        _view(buffer, tensor.dtype, tensor.shape, offset).copy_(tensor)
        layout.append((name, _NAMES[tensor.dtype], list(tensor.shape), offset))
        offset += _aligned(tensor.numel() * tensor.element_size())
    return layout


def view_tensors(buffer: Tensor, layout: Sequence[Sequence[Any]]) -> dict[str, Tensor]:
    """Return the tensors that lie in a buffer, as views: they change with it."""
    return {
        name: _view(buffer, _DTYPES[dtype], shape, offset) for name, dtype, shape, offset in layout
    }


def _view(buffer: Tensor, dtype: torch.dtype, shape: Sequence[int], offset: int) -> Tensor:
    count = 1
    for size in shape:
        count *= size
    end = offset + count * dtype.itemsize
    return buffer[offset:end].view(dtype).view(*shape)


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
