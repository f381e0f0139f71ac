"""Which sentences of a batch belong to which unit, and where a unit's tokens lie.

A unit is what clipping protects: a sentence, or all drawn sentences of a document or a patient.

Shapes: B sentences, L tokens of the longest, U units, R rows, M tokens of the largest unit, D
features, N packed tokens, X whatever a token has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.errors import FednerError
from fedner.models.features import Batch

# Rows that are worked on together: enough to keep a device busy, few enough for its caches.
_CPU_ROWS, _CPU_PAIRS = 16, 1 << 18
_DEVICE_ROWS, _DEVICE_PAIRS = 1 << 14, 1 << 26

Chunk = tuple[int, int, int]  # first row, last row (not in it), cells of the longest


class Sizes(NamedTuple):
    """How large gradients are, one number for each row or unit, in float64.

    Attributes:
        squares: The squared norm of the gradient.
        masses: The sum of the norms of the terms that the gradient is added up from.
    """

    squares: Tensor
    masses: Tensor


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a batch.

    Attributes:
        unit_B: The unit of each sentence, on the device.
        num_units: How many units there are; some may have no sentence.
        row_unit_R: The unit of each row: where every sentence is a unit by itself, rows are the
            sentences; else they are the units that have sentences, the largest first.
        row_sizes: How many cells of each row are in use, falling.
        cells_RM: For each cell of a row its cell in the flattened batch, -1 for none; None where
            rows are sentences.
    """

    unit_B: Tensor
    num_units: int
    row_unit_R: Tensor
    row_sizes: tuple[int, ...]
    cells_RM: Tensor | None

    def chunks(self) -> Iterator[Chunk]:
        """Yield rows to be worked on together, the longest first."""
        is_cpu = self.unit_B.device.type == "cpu"
        most_rows, most_pairs = (_CPU_ROWS, _CPU_PAIRS) if is_cpu else (_DEVICE_ROWS, _DEVICE_PAIRS)
        start = 0
        while start < len(self.row_sizes):
            longest = self.row_sizes[start]
            rows = min(most_rows, max(1, most_pairs // max(1, longest * longest)))
            end = min(start + rows, len(self.row_sizes))
            yield start, end, longest
            start = end

    def rows(self, values_BLD: Tensor, chunk: Chunk) -> Tensor:
        """Return the values of some rows (R, M, D); where there is no token, what padding holds."""
        start, end, longest = chunk
        if self.cells_RM is None:
            return values_BLD[start:end, :longest]
        cells_RM = self.cells_RM[start:end, :longest]
        return _gathered(values_BLD.flatten(0, 1), cells_RM.clamp_min(0), cells_RM < 0)

    def packed_rows(self, values_NX: Tensor, places_BL: Tensor, chunk: Chunk) -> Tensor:
        """Return the values of some rows (R, M, X), 0 where there is no token.

        Args:
            values_NX: Values of packed tokens: all first tokens, all second ones, and so on.
            places_BL: For each cell its place among them.
            chunk: Which rows.
        """
        start, end, longest = chunk
        if self.cells_RM is not None:
            cells_RM = self.cells_RM[start:end, :longest]
            return _gathered(values_NX, places_BL.flatten()[cells_RM.clamp_min(0)], cells_RM < 0)
        if len(values_NX) == places_BL.numel():
            # All sentences are of one length: packed tokens are the batch with axes exchanged.
            values_LBX = values_NX.view(*places_BL.t().shape, *values_NX.shape[1:])
            return values_LBX[:, start:end].transpose(0, 1)
        sizes_R1 = torch.tensor(self.row_sizes[start:end], device=places_BL.device).unsqueeze(1)
        missing_RM = torch.arange(longest, device=places_BL.device) >= sizes_R1
        return _gathered(values_NX, places_BL[start:end, :longest], missing_RM)

    def by_unit(self, chunks: Sequence[Sizes]) -> Sizes:
        """Return the sizes of all rows in the order of the units; 0 for one without a sentence."""
        rows = [torch.cat(parts) for parts in zip(*chunks, strict=True)]
        return Sizes(
            *(each.new_zeros(self.num_units).index_copy_(0, self.row_unit_R, each) for each in rows)
        )

    def sums(self, values_B: Tensor) -> Tensor:
        """Return the sum of the sentences' values for each unit (U, ...)."""
        total = values_B.new_zeros(self.num_units, *values_B.shape[1:])
        return total.index_add_(0, self.unit_B, values_B)


def _gathered(values_NX: Tensor, places_RM: Tensor, missing_RM: Tensor) -> Tensor:
    """Return the values at each place, 0 where something is missing (R, M, X)."""
    chosen = values_NX.index_select(0, places_RM.flatten())
    chosen = chosen.view(*places_RM.shape, *values_NX.shape[1:])
    return chosen.masked_fill_(missing_RM.view(*places_RM.shape, *[1] * (chosen.dim() - 2)), 0.0)


def units_of(batch: Batch, units: Sequence[int] | NDArray[np.int64], gap: int = 0) -> Units:
    """Return the units of a batch.

    Args:
        batch: The batch, its sentences of falling length.
        units: For each row of the batch the number of its unit, from 0.
        gap: Cells to leave empty between the sentences of a unit, so that no window of a
            convolution reaches from one into the next.

    Raises:
        FednerError: There is not one unit for each sentence.
    """
    unit_B = np.asarray(units, dtype=np.int64)
    if unit_B.shape != (batch.num_sentences,) or (len(unit_B) and unit_B.min() < 0):
        raise FednerError(
            f"units of shape {unit_B.shape}, the least {unit_B.min(initial=0)}, for "
            f"{batch.num_sentences} sentences; expected one number from 0 for each sentence",
            "Number the drawn units and give each row of the batch the number of its own.",
        )
    device = batch.mask_BL.device
    num_units = int(unit_B.max(initial=-1)) + 1
    lengths = batch.lengths_B.numpy()
    on_device = torch.from_numpy(unit_B).to(device)
    if len(np.unique(unit_B)) == len(unit_B):
        return Units(on_device, num_units, on_device, tuple(lengths.tolist()), None)
    row_unit_R, sizes, cells_RM = _joined(unit_B, lengths, batch.mask_BL.shape[1], gap)
    return Units(
        on_device,
        num_units,
        torch.from_numpy(row_unit_R).to(device),
        tuple(sizes.tolist()),
        torch.from_numpy(cells_RM).to(device),
    )


def _joined(
    unit_B: NDArray[np.int64], lengths: NDArray[np.int64], longest: int, gap: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the units of the rows, their sizes, and the cells of their sentences end to end."""
    order = np.argsort(unit_B, kind="stable")
    present, first = np.unique(unit_B[order], return_index=True)
    spans = lengths[order] + gap
    begins = np.cumsum(spans) - spans
    sizes = np.add.reduceat(spans, first) - gap
    ranking = np.argsort(-sizes, kind="stable")
    row_of = np.empty(len(present), dtype=np.int64)
    row_of[ranking] = np.arange(len(present))
    rank = np.repeat(np.arange(len(present)), np.diff(np.append(first, len(order))))
    begins -= begins[first][rank]
    cells_RM = np.full((len(present), int(sizes.max(initial=0))), -1, dtype=np.int64)
    for position, sentence in enumerate(order):
        begin, length = begins[position], lengths[sentence]
        place = cells_RM[row_of[rank[position]], begin : begin + length]
        place[:] = sentence * longest + np.arange(length)
    return present[ranking], sizes[ranking], cells_RM
