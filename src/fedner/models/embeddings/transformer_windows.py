"""Sentences of any length for an encoder of bounded length: windows that overlap.

A sentence with more pieces (sub-tokens) than the encoder takes is read through several windows, and
every word is taken from the window in which it stands farthest from an edge that cuts text off.

Shapes: R rows, one for each piece, W words, D features.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Padded pieces read at a time: keeps a processor busy within the memory of any machine.
BATCH_PIECES = 1 << 13
# A processor reads a batch apart where windows fall below this share of the longest, in groups of
# at least so many pieces: padding costs it more than another call does.
SHORTER, GROUP_PIECES = 0.6, 256
# Where nothing is trained a call costs less: the sentences of a single note are read in groups too.
SHORTER_READ, GROUP_PIECES_READ = 0.8, 64


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a sentence's pieces, and which of them are taken from here.

    Attributes:
        pieces: The pieces that the encoder sees, without the special ones.
        taken: Which of them (positions in the window) give features.
        rows: For each of those, the row of its features.
    """

    pieces: NDArray[np.int64]
    taken: NDArray[np.int64]
    rows: NDArray[np.int64]


def cut(
    pieces: NDArray[np.int64],
    word_of: NDArray[np.int64],
    capacity: int,
    overlap: int,
    first_row: int = 0,
) -> list[Window]:
    """Cut the pieces of a sentence into windows; every piece is taken from exactly one of them.

    All pieces of a word come from the window that holds the whole word and leaves most context on
    its poorer side; where the sentence itself begins or ends, no context is missing. A word that no
    window holds is taken piece by piece in the same manner.

    Args:
        pieces: The pieces.
        word_of: Which word each belongs to; it never falls.
        capacity: Pieces that a window has room for.
        overlap: Pieces that neighbouring windows share at least; less than the capacity.
        first_row: Where the features of the first piece go.
    """
    count = len(pieces)
    if not count:
        return []
    starts = _starts(count, capacity, overlap)
    window_of = np.zeros(count, dtype=np.int64)
    if len(starts) > 1:
        bounds = np.flatnonzero(np.diff(word_of)) + 1
        firsts = np.concatenate([[0], bounds])
        lasts = np.concatenate([bounds, [count]])
        best, is_whole = _most_central(starts, capacity, count, firsts, lasts)
        window_of = np.repeat(best, lasts - firsts)
        split = ~np.repeat(is_whole, lasts - firsts)
        each = np.arange(count)
        window_of[split] = _most_central(starts, capacity, count, each, each + 1)[0][split]
    windows = []
    for number, start in enumerate(starts.tolist()):
        taken = np.flatnonzero(window_of == number)
        if len(taken):
            part = pieces[start : start + capacity]
            windows.append(Window(part, taken - start, taken + first_row))
    return windows


def _starts(count: int, capacity: int, overlap: int) -> NDArray[np.int64]:
    """Return where windows begin: as few as the overlap allows, evenly spread."""
    if count <= capacity:
        return np.zeros(1, dtype=np.int64)
    number = 1 + math.ceil((count - capacity) / (capacity - overlap))
    return np.arange(number, dtype=np.int64) * (count - capacity) // (number - 1)


def _most_central(
    starts: NDArray[np.int64],
    capacity: int,
    count: int,
    firsts: NDArray[np.int64],
    lasts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return for each stretch its best window, and whether that window holds it whole."""
    best = np.zeros(len(firsts), dtype=np.int64)
    margins = np.full(len(firsts), -1, dtype=np.int64)
    for number, start in enumerate(starts.tolist()):
        left = firsts - start if start else np.full(len(firsts), count)
        right = start + capacity - lasts if start + capacity < count else np.full_like(left, count)
        # Without text to cut off there is no edge, yet what lies outside must not be taken.
        margin = np.minimum(left, right)
        margin[(firsts < start) | (lasts > start + capacity)] = -1
        is_better = margin > margins
        best[is_better], margins[is_better] = number, margin[is_better]
    return best, margins >= 0


def batched(windows: Sequence[Window], num_special: int) -> Iterator[list[Window]]:
    """Group windows of like length, longest first, into batches of bounded size.

    Args:
        windows: The windows.
        num_special: Pieces that the encoder adds to each.
    """
    batch: list[Window] = []
    for window in sorted(windows, key=lambda window: -len(window.pieces)):
        widest = len(batch[0].pieces) + num_special if batch else 0
        if widest * (len(batch) + 1) > BATCH_PIECES:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def by_length(
    batch: Sequence[Window],
    num_special: int,
    shorter: float = SHORTER,
    least_pieces: int = GROUP_PIECES,
) -> Iterator[list[Window]]:
    """Split a batch, longest first, into groups of like length: random ones are half padding.

    Args:
        batch: The windows.
        num_special: Pieces that the encoder adds to each.
        shorter: A window below this share of the longest begins a group.
        least_pieces: What a group has at least.
    """
    group: list[Window] = []
    for window in batch:
        if group:
            widest = len(group[0].pieces) + num_special
            is_shorter = len(window.pieces) + num_special < shorter * widest
            if is_shorter and widest * len(group) >= least_pieces:
                yield group
                group = []
        group.append(window)
    yield group


def lay_out(
    windows: Sequence[Window], before: Sequence[int], after: Sequence[int], padding: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return windows side by side, as an encoder reads them.

    Args:
        windows: At least one.
        before: The special pieces at the beginning of each.
        after: Those at the end.
        padding: What fills short ones up.

    Returns:
        The pieces, 1 where there is one (the rest is padding), and the cells (counted row by row)
        of all pieces that are taken, window after window.
    """
    longest = max(len(window.pieces) for window in windows) + len(before) + len(after)
    pieces = np.full((len(windows), longest), padding, np.int64)
    is_piece = np.zeros((len(windows), longest), np.int64)
    cells = []
    for row, window in enumerate(windows):
        line = np.concatenate([before, window.pieces, after])
        pieces[row, : len(line)] = line
        is_piece[row, : len(line)] = 1
        cells.append(row * longest + len(before) + window.taken)
    return pieces, is_piece, np.concatenate(cells)


def means(
    rows_RD: NDArray[np.float32], word_of_row: NDArray[np.int64], num_words: int
) -> NDArray[np.float32]:
    """Return the mean of each word's rows (W, D); zero where it has none."""
    means_WD = np.zeros((num_words, rows_RD.shape[1]), np.float32)
    if len(rows_RD):
        present, begins, counts = np.unique(word_of_row, return_index=True, return_counts=True)
        means_WD[present] = np.add.reduceat(rows_RD, begins, axis=0) / counts[:, None]
    return means_WD
