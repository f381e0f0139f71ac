"""Facts and named tensors in one row of bytes: the safetensors layout, with one copy each way.

8 bytes with the length of the header, the header in JSON (names, types, shapes, places; the facts
as metadata), then the numbers. A message is written straight into a buffer, which may be memory
that two processes share, and read out of a copy that the reader owns: what was checked is what is
used. Nothing is unpickled; every size, name and count has a bound.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.strict_json import read_json

MOST_BYTES = 2**32
MOST_HEADER = 10_000_000
MOST_TENSORS = 100_000
MOST_KEY = 600
MOST_DIMENSIONS = 16
_LENGTH, _ALIGNMENT = 8, 64
_METADATA, _FACTS = "__metadata__", "fedner"
_ENTRY = {"dtype", "shape", "data_offsets"}
_DTYPES = {
    "F64": torch.float64,
    "I64": torch.int64,
    "F32": torch.float32,
    "I32": torch.int32,
    "BF16": torch.bfloat16,
    "U8": torch.uint8,
    "I8": torch.int8,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_RANKS = {dtype: rank for rank, dtype in enumerate(_DTYPES.values())}


class NotFiniteError(FednerError):
    """A message with numbers that are not finite."""


class _Place(NamedTuple):
    """Where a tensor lies, after the header."""

    key: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Packed:
    """A message that is ready to be written.

    Attributes:
        header: The length, the header and its padding.
        tensors: The tensors, in the order in which they lie after the header: by type.
        num_bytes: How long the whole is.
    """

    header: bytes
    tensors: tuple[Tensor, ...]
    num_bytes: int

    @torch.no_grad()
    def write(self, buffer: Tensor) -> None:
        """Write the message to the beginning of a buffer of bytes that has room for it.

        Raises:
            NotFiniteError: If a number is not finite.
        """
        end = len(self.header)
        buffer[:end] = torch.frombuffer(bytearray(self.header), dtype=torch.uint8)
        for dtype, alike in groupby(self.tensors, key=lambda tensor: tensor.dtype):
            flat = [tensor.detach().cpu().reshape(-1) for tensor in alike]
            begin, end = end, end + dtype.itemsize * sum(len(each) for each in flat)
            numbers = buffer[begin:end].view(dtype)
            torch.cat(flat, out=numbers)  # one copy, of all tensors of a type at once
            _require_finite(numbers)

    def to_bytes(self) -> bytes:
        """Return the message as bytes of its own."""
        buffer = torch.empty(self.num_bytes, dtype=torch.uint8)
        self.write(buffer)
        return buffer.numpy().tobytes()


def pack(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Packed:
    """Return facts and tensors, ready to be written; the order of the tensors is kept.

    Raises:
        FednerError: If a tensor is of a type that does not travel, or a fact is not finite.
    """
    for key, tensor in tensors.items():
        if tensor.dtype not in _NAMES or tensor.layout is not torch.strided:
            raise refused(f"tensor {key!r:.60} of type {tensor.dtype}, which does not travel")
    # Wide types first, so that each lies at a multiple of its width.
    by_type = sorted(tensors, key=lambda key: _RANKS[tensors[key].dtype])
    begins, end = {}, 0
    for key in by_type:
        begins[key] = end
        end += tensors[key].numel() * tensors[key].element_size()
    try:
        stated = json.dumps(facts, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise NotFiniteError("message refused: it has a fact that is not finite") from error
    header = _header(stated, tensors, begins)
    return Packed(header, tuple(tensors[key] for key in by_type), len(header) + end)


def _header(facts: str, tensors: Mapping[str, Tensor], begins: Mapping[str, int]) -> bytes:
    entries: dict[str, Any] = {_METADATA: {_FACTS: facts}}
    for key, tensor in tensors.items():
        begin = begins[key]
        entries[key] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, begin + tensor.numel() * tensor.element_size()],
        }
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(_LENGTH + len(text)) % _ALIGNMENT)
    return len(text).to_bytes(_LENGTH, "little") + text


def copied_bytes(data: bytes) -> Tensor:
    """Return bytes as a tensor that may be written to."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0).byte()


def unpack(region: Tensor) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the facts and the tensors of a message, the latter as views of its bytes.

    Args:
        region: All bytes of the message and no more, in memory that nobody else writes to.

    Raises:
        FednerError: If the bytes are not exactly such a message.
    """
    if not _LENGTH + 2 <= len(region) <= MOST_BYTES:
        raise refused("no header")
    length = int.from_bytes(region[:_LENGTH].numpy().tobytes(), "little")
    start = _LENGTH + length
    if not 2 <= length <= MOST_HEADER or start > len(region):
        raise refused("no header")
    entries, facts = _read_header(region[_LENGTH:start].numpy().tobytes())
    room = len(region) - start
    places = _tiled([_place(key, entry, room) for key, entry in entries.items()], start, room)
    found = dict(_views(region[start:], places))
    return facts, {key: found[key] for key in entries}


def _read_header(text: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the entries of the tensors, and the facts."""
    try:
        entries = read_json(text, MOST_HEADER)
        metadata = entries.pop(_METADATA)
        facts = read_json(metadata[_FACTS], MOST_HEADER)
    except (FednerError, KeyError, TypeError, AttributeError) as error:
        raise refused("no facts in its header") from error
    if set(metadata) != {_FACTS} or not isinstance(facts, dict):
        raise refused("unknown facts in its header")
    if len(entries) > MOST_TENSORS or any(len(key) > MOST_KEY for key in entries):
        raise refused("more tensors, or longer names, than a message may have")
    return entries, facts


def _place(key: str, entry: object, room: int) -> _Place:
    """Return where a tensor lies, if its entry is sound."""
    if not isinstance(entry, dict) or set(entry) != _ENTRY:
        raise refused("a tensor that is not described by type, shape and place")
    name, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(name, str) or name not in _DTYPES:
        raise refused("a tensor of another type than those that travel")
    is_sound = _are_sizes(shape, MOST_DIMENSIONS, MOST_BYTES) and _are_sizes(offsets, 2, room)
    # Not even an empty tensor has sides that no machine could hold.
    if not is_sound or len(offsets) != 2 or math.prod(max(1, side) for side in shape) > MOST_BYTES:
        raise refused("a tensor whose shape or place is none")
    begin, end = offsets
    if end - begin != math.prod(shape) * _DTYPES[name].itemsize:
        raise refused("a tensor whose shape and place differ")
    return _Place(key, _DTYPES[name], tuple(shape), begin, end)


def _are_sizes(values: object, most: int, room: int) -> bool:
    if not isinstance(values, list) or len(values) > most:
        return False
    return all(type(each) is int and 0 <= each <= room for each in values)


def _tiled(places: list[_Place], start: int, room: int) -> list[_Place]:
    """Return the places as they lie, if they fill the bytes without gap or overlap."""
    places.sort(key=lambda each: (each.begin, each.end))
    end = 0
    for place in places:
        if place.begin != end or (start + place.begin) % place.dtype.itemsize:
            raise refused("damaged tensors")
        end = place.end
    if end != room:
        raise refused("bytes beyond its tensors")
    return places


def _views(numbers: Tensor, places: list[_Place]) -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor as a view, neighbours of one type together: few looks, not many."""
    for dtype, group in groupby(places, key=lambda place: place.dtype):
        alike = list(group)
        row = numbers[alike[0].begin : alike[-1].end].view(dtype)
        _require_finite(row)
        lengths = [(each.end - each.begin) // dtype.itemsize for each in alike]
        for place, piece in zip(alike, row.split_with_sizes(lengths), strict=True):
            yield place.key, piece.view(place.shape)


def _require_finite(row: Tensor) -> None:
    """Raise unless all numbers are finite, as those of a finite sum are."""
    if not row.is_floating_point() or math.isfinite(float(row.sum())):
        return
    if not bool(row.isfinite().all()):  # or the sum of large numbers overflowed
        raise NotFiniteError("message refused: it has numbers that are not finite")


def refused(what: str) -> FednerError:
    """Return the refusal of a message, in our own words."""
    return FednerError(
        f"message refused: it has {what}",
        "Both sides must run the same version of fedner; otherwise the message was altered.",
    )
