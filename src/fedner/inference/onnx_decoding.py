"""The decoder of an exported tagger, in NumPy alone: best tags, and how sure it is of a mention.

What `models/crf.py` and `confidence.py` reckon with torch, for machines that have none. A softmax
decoder is a chain whose steps all score zero. Everything runs in float64, in log-space.

Shapes: B sentences, L tokens of the longest, K tags, R mentions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedner.corpus.sentence import Entity

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Mentions are gone through this many cells (mentions * tokens * tags) at a time.
CELLS_AT_A_TIME = 1 << 20


@dataclass(frozen=True, slots=True)
class Steps:
    """The scores of a chain beside the emissions; minus infinity is forbidden.

    Attributes:
        start_K: The score of beginning with each tag.
        end_K: The score of ending with each tag.
        transitions_KK: The score of stepping from one tag (row) to the next (column).
    """

    start_K: Floats
    end_K: Floats
    transitions_KK: Floats


def best_tags(steps: Steps, emissions_BLK: NDArray[np.float32], lengths_B: Indices) -> Indices:
    """Return (B, L) the best tags, 0 behind a sentence's end.

    Among equal scores the lower tag wins, looking from the end. Sentences have at least one token.
    """
    num_sentences, num_tokens, num_tags = emissions_BLK.shape
    scores_BLK = emissions_BLK.astype(np.float64)
    best_BK = scores_BLK[:, 0] + steps.start_K
    # Behind an end a tag comes from itself: every path can be read from the last column.
    came_from_BLK = np.broadcast_to(np.arange(num_tags), emissions_BLK.shape).copy()
    for token in range(1, num_tokens):
        going = token < lengths_B
        paths_BKK = best_BK[going, :, None] + steps.transitions_KK
        came_from_BLK[going, token] = paths_BKK.argmax(1)
        best_BK[going] = paths_BKK.max(1) + scores_BLK[going, token]
    tags_BL = np.zeros((num_sentences, num_tokens), np.int64)
    rows_B = np.arange(num_sentences)
    tags_B = (best_BK + steps.end_K).argmax(1)
    for token in range(num_tokens - 1, -1, -1):
        tags_BL[:, token] = tags_B
        tags_B = came_from_BLK[rows_B, token, tags_B]
    tags_BL[np.arange(num_tokens) >= lengths_B[:, None]] = 0
    return tags_BL


def confidences(
    steps: Steps,
    emissions_BLK: NDArray[np.float32],
    tags_BL: Indices,
    lengths_B: Indices,
    mentions: Sequence[tuple[int, Entity]],
    joins_KK: Flags,
) -> list[float]:
    """Return the probability of each mention, given as its row in the batch and its place.

    That is the sum over all paths with the mention's own tags at its tokens and nothing beside it
    that joins it, divided by the sum over all paths.

    Args:
        steps: The chain.
        emissions_BLK: The scores of all tags of a batch.
        tags_BL: The tags in which the mentions were read.
        lengths_B: The lengths of the sentences.
        mentions: For each mention its row in the batch and where it is.
        joins_KK: Whether a tag (column) goes on with the mention of the tag before it (row).
    """
    found: list[float] = []
    size = max(1, CELLS_AT_A_TIME // max(1, emissions_BLK[:1].size))
    for start in range(0, len(mentions), size):
        part = mentions[start : start + size]
        rows_R = np.asarray([row for row, _ in part], np.int64)
        lengths_R = lengths_B[rows_R]
        scores_RLK = emissions_BLK[rows_R, : lengths_R.max()].astype(np.float64)
        all_R = _log_partition(steps, scores_RLK, lengths_R)
        for row, (number, entity) in enumerate(part):
            _restrict(scores_RLK[row], tags_BL[number], int(lengths_R[row]), entity, joins_KK)
        within_R = _log_partition(steps, scores_RLK, lengths_R)
        found += np.minimum(np.exp(within_R - all_R), 1.0).tolist()
    return found


def _restrict(
    scores_LK: Floats, tags_L: Indices, length: int, entity: Entity, joins_KK: Flags
) -> None:
    """Forbid, in place, every tag that would make the mention another one."""
    for token in range(entity.start, entity.end):
        is_other_K = np.arange(scores_LK.shape[1]) != tags_L[token]
        scores_LK[token, is_other_K] = -np.inf
    if entity.start > 0:
        scores_LK[entity.start - 1, joins_KK[:, tags_L[entity.start]]] = -np.inf
    if entity.end < length:
        scores_LK[entity.end, joins_KK[tags_L[entity.end - 1]]] = -np.inf


def _log_partition(steps: Steps, scores_BLK: Floats, lengths_B: Indices) -> Floats:
    """Return (B,) the log of the sum over all paths."""
    sums_BK = scores_BLK[:, 0] + steps.start_K
    for token in range(1, scores_BLK.shape[1]):
        going = token < lengths_B
        paths_BKK = sums_BK[going, :, None] + steps.transitions_KK
        sums_BK[going] = np.logaddexp.reduce(paths_BKK, axis=1) + scores_BLK[going, token]
    totals_B: Floats = np.logaddexp.reduce(sums_BK + steps.end_K, axis=1)
    return totals_B
