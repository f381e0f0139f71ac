"""Named tensors through memory that two processes share: one copy in, one copy out, no pickling."""

import math
import mmap
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from fedner.errors import FednerError

StartMethod = Literal["fork", "spawn"]
Layout = list[tuple[str, str, list[int], int]]

_ALIGNMENT = 64
_ENTRY = 4
_MOST_DIMENSIONS = 16
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


def view_tensors(buffer: Tensor, layout: object) -> dict[str, Tensor]:
    """Return the tensors that lie in a buffer, as views: they change with it.

    Raises:
        FednerError: If the layout is not one of tensors within the buffer.
    """
    if not isinstance(layout, list) or not all(_is_entry(each, len(buffer)) for each in layout):
        raise FednerError("a layout that is not one of tensors within their buffer")
    tensors: dict[str, Tensor] = {}
    for name, dtype, shape, offset in layout:
        if name in tensors:
            raise FednerError("a layout that names a tensor twice")
        tensors[name] = _view(buffer, _DTYPES[dtype], shape, offset)
    return tensors


def _is_entry(entry: object, room: int) -> bool:
    """Whether an entry of a layout has the right types and lies within a buffer."""
    if not isinstance(entry, list) or len(entry) != _ENTRY:
        return False
    name, dtype, shape, offset = entry
    if not (isinstance(name, str) and isinstance(dtype, str) and dtype in _DTYPES):
        return False
    sizes = [*shape, offset] if isinstance(shape, list) and len(shape) <= _MOST_DIMENSIONS else []
    if not sizes or not all(type(size) is int and 0 <= size <= room for size in sizes):
        return False
    num_bytes = math.prod(shape) * _DTYPES[dtype].itemsize
    return bool(offset % _ALIGNMENT == 0 and offset + num_bytes <= room)


def _view(buffer: Tensor, dtype: torch.dtype, shape: Sequence[int], offset: int) -> Tensor:
    end = offset + math.prod(shape) * dtype.itemsize
    return buffer[offset:end].view(dtype).view(list(shape))


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
