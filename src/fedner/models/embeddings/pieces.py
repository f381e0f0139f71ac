"""The pieces (sub-tokens) of a corpus, and those of a batch as an encoder reads them.

A corpus is split into pieces once. A word is read at its *first* piece: every other piece reaches
it through attention, one gather takes it, and its gradient is the same on every device and in every
run, as no two words add to one cell. Devlin et al. 2019 fine-tune so too.

Shapes: P pieces of the corpus, T tokens of the corpus, B sentences, L tokens of the longest, W
windows, S pieces of the longest window.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.models.embeddings.transformer_loading import Reading
from fedner.models.embeddings.transformer_windows import (
    Window,
    batched,
    by_length,
    cut,
    lay_out,
)

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of every token of a corpus, token after token.

    Attributes:
        ids_P: The pieces.
        offsets: Where the pieces of each token begin, and where the last ones end (T + 1).
        reading: How the encoder reads them.
    """

    ids_P: Indices
    offsets: Indices
    reading: Reading

    @property
    def num_tokens(self) -> int:
        """How many tokens they belong to."""
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class PieceBatch:
    """The windows of a batch of sentences, and where its tokens stand in them.

    Attributes:
        groups: Windows of like length: their pieces (W, S), and 1 where there is one (W, S).
        cell_BL: The cell of each token's first piece, counted through all groups.
        has_piece_BL: Where a token has a piece at all.
    """

    groups: tuple[tuple[Tensor, Tensor], ...]
    cell_BL: Tensor
    has_piece_BL: Tensor


def gather_pieces(
    pieces: Pieces, starts: Indices, lengths: Indices, device: torch.device | str = "cpu"
) -> PieceBatch:
    """Return the pieces of some sentences as windows.

    Args:
        pieces: Those of the corpus.
        starts: The first token of each sentence.
        lengths: How many tokens it has; at least one sentence has any.
        device: Where the encoder runs.
    """
    reading = pieces.reading
    windows: list[Window] = []
    shape = (len(starts), int(lengths.max()))
    row_BL = np.full(shape, -1, np.int64)  # the row of each token's first piece
    num_rows = 0
    for sentence, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        bounds = pieces.offsets[start : start + length + 1]
        counts = np.diff(bounds)
        ids = pieces.ids_P[bounds[0] : bounds[-1]]
        word_of = np.repeat(np.arange(length), counts)
        windows += cut(ids, word_of, reading.capacity, reading.overlap, num_rows)
        row_BL[sentence, :length][counts > 0] = (bounds[:-1] - bounds[0] + num_rows)[counts > 0]
        num_rows += len(ids)
    is_cpu = torch.device(device).type == "cpu"
    groups, cell_R = _groups(windows, num_rows, reading, split=is_cpu)
    has_piece_BL = row_BL >= 0
    cell_BL = np.zeros(shape, np.int64)
    cell_BL[has_piece_BL] = cell_R[row_BL[has_piece_BL]]
    return PieceBatch(
        tuple((_sent(ids, device), _sent(is_piece, device)) for ids, is_piece in groups),
        _sent(cell_BL, device),
        _sent(has_piece_BL.astype(np.int64), device).bool(),
    )


def _groups(
    windows: Sequence[Window], num_rows: int, reading: Reading, *, split: bool
) -> tuple[list[tuple[Indices, Indices]], Indices]:
    """Return the windows in groups of bounded size, split by length or not; the cell of each row.

    A GPU takes a batch at once: there, calls cost more than padding.
    """
    groups, cell_R = [], np.zeros(num_rows, np.int64)
    num_cells = 0
    if not windows:
        # Words without a piece leave nothing to read, but the encoder must have its (zero) say.
        nothing = np.zeros(0, np.int64)
        windows = [Window(np.array([reading.padding]), nothing, nothing)]
    batches: Iterable[list[Window]] = batched(windows, reading.num_special)
    if split:
        batches = (group for each in batches for group in by_length(each, reading.num_special))
    for group in batches:
        ids, is_piece, cells = lay_out(group, reading.before, reading.after, reading.padding)
        cell_R[np.concatenate([window.rows for window in group])] = cells + num_cells
        groups.append((ids, is_piece))
        num_cells += ids.size
    return groups, cell_R


def _sent(array: Indices, device: torch.device | str) -> Tensor:
    tensor = torch.from_numpy(array)
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
