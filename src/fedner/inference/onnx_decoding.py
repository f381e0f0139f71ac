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


def doubts(
    steps: Steps, emissions_BLK: NDArray[np.float32], tags_BL: Indices, lengths_B: Indices
) -> list[float]:
    """Return the negative log-likelihood of each sentence's best tags; at least 0.

    Args:
        steps: The chain.
        emissions_BLK: The scores of all tags of a batch.
        tags_BL: The best tags.
        lengths_B: The lengths of the sentences, of at least one token.
    """
    rows_B = np.arange(len(lengths_B))
    scores_BLK = emissions_BLK.astype(np.float64)
    own_BL = np.take_along_axis(scores_BLK, tags_BL[:, :, None], 2)[:, :, 0]
    ahead_BK = scores_BLK[:, 0] + steps.start_K
    path_B = own_BL[:, 0] + steps.start_K[tags_BL[:, 0]]
    for token in range(1, scores_BLK.shape[1]):
        going = token < lengths_B
        paths_BKK = ahead_BK[going, :, None] + steps.transitions_KK
        ahead_BK[going] = _log_sum(paths_BKK, 1) + scores_BLK[going, token]
        step_B = steps.transitions_KK[tags_BL[going, token - 1], tags_BL[going, token]]
        path_B[going] += own_BL[going, token] + step_B
    path_B += steps.end_K[tags_BL[rows_B, lengths_B - 1]]
    found: list[float] = np.maximum(_log_sum(ahead_BK + steps.end_K, 1) - path_B, 0.0).tolist()
    return found


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
    that joins it, divided by the sum over all paths. Both follow from one pass over each sentence
    in either direction, however many mentions it has.

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
        rows, row_R = np.unique(np.asarray([row for row, _ in part], np.int64), return_inverse=True)
        lengths = lengths_B[rows]
        chain = _Chain.of(
            steps,
            emissions_BLK[rows, : lengths.max()].astype(np.float64),
            tags_BL[rows, : lengths.max()],
            lengths,
        )
        places = np.asarray([entity[:2] for _, entity in part], np.int64)
        found += _probabilities(chain, row_R, places, joins_KK).tolist()
    return found


@dataclass(frozen=True, slots=True)
class _Chain:
    """Sentences that hold mentions, and the sums over their paths; all in logs.

    Attributes:
        steps: The scores of the chain.
        scores_BLK: The emissions.
        tags_BL: The best tags.
        lengths_B: The lengths.
        ahead_BLK: The sum over all paths from the beginning up to each tag, its emission included.
        behind_BLK: The sum over all paths from behind each tag to the end.
    """

    steps: Steps
    scores_BLK: Floats
    tags_BL: Indices
    lengths_B: Indices
    ahead_BLK: Floats
    behind_BLK: Floats

    @classmethod
    def of(cls, steps: Steps, scores_BLK: Floats, tags_BL: Indices, lengths_B: Indices) -> "_Chain":
        ahead_BLK, behind_BLK = np.empty_like(scores_BLK), np.empty_like(scores_BLK)
        num_tokens = scores_BLK.shape[1]
        ahead_BLK[:, 0] = scores_BLK[:, 0] + steps.start_K
        for token in range(1, num_tokens):
            paths_BKK = ahead_BLK[:, token - 1, :, None] + steps.transitions_KK
            ahead_BLK[:, token] = _log_sum(paths_BKK, 1) + scores_BLK[:, token]
        behind_BLK[:, -1] = steps.end_K
        for token in range(num_tokens - 2, -1, -1):
            going_BK = behind_BLK[:, token + 1] + scores_BLK[:, token + 1]
            further_BK = _log_sum(steps.transitions_KK + going_BK[:, None, :], 2)
            is_last_B1 = np.equal(lengths_B, token + 1)[:, None]
            behind_BLK[:, token] = np.where(is_last_B1, steps.end_K, further_BK)
        return cls(steps, scores_BLK, tags_BL, lengths_B, ahead_BLK, behind_BLK)


def _probabilities(chain: _Chain, row_R: Indices, places_R2: Indices, joins_KK: Flags) -> Floats:
    """Return (R,) the probability of mentions at half-open places of the chain's sentences."""
    steps, tags_BL = chain.steps, chain.tags_BL
    first_R, last_R = places_R2[:, 0], places_R2[:, 1] - 1
    first_tag_R, last_tag_R = tags_BL[row_R, first_R], tags_BL[row_R, last_R]
    before_RK = chain.ahead_BLK[row_R, first_R - 1] + steps.transitions_KK[:, first_tag_R].T
    before_RK[joins_KK[:, first_tag_R].T] = -np.inf
    before_R = np.where(first_R > 0, _log_sum(before_RK, 1), steps.start_K[first_tag_R])
    # Behind the last token of the longest sentence there is none: any will do, for none is taken.
    next_R = np.minimum(last_R + 1, chain.scores_BLK.shape[1] - 1)
    following_RK = (chain.scores_BLK + chain.behind_BLK)[row_R, next_R]
    following_RK = following_RK + steps.transitions_KK[last_tag_R]
    following_RK[joins_KK[last_tag_R]] = -np.inf
    is_end_R = last_R + 1 == chain.lengths_B[row_R]
    after_R = np.where(is_end_R, steps.end_K[last_tag_R], _log_sum(following_RK, 1))
    within_R = _path_scores(chain, row_R, first_R, last_R)
    all_R = _log_sum(chain.ahead_BLK[:, 0] + chain.behind_BLK[:, 0], 1)[row_R]
    sure_R: Floats = np.minimum(np.exp(before_R + within_R + after_R - all_R), 1.0)
    return sure_R


def _path_scores(chain: _Chain, row_R: Indices, first_R: Indices, last_R: Indices) -> Floats:
    """Return (R,) the scores of the best tags from one token to another, both included."""
    tags_BL = chain.tags_BL
    own_BL = np.take_along_axis(chain.scores_BLK, tags_BL[:, :, None], 2)[:, :, 0]
    scores_R: Floats = own_BL[row_R, first_R].copy()
    for further in range(1, int((last_R - first_R).max(initial=0)) + 1):
        going = first_R + further <= last_R
        row, token = row_R[going], first_R[going] + further
        step = chain.steps.transitions_KK[tags_BL[row, token - 1], tags_BL[row, token]]
        scores_R[going] += own_BL[row, token] + step
    return scores_R


def _log_sum(values: Floats, axis: int) -> Floats:
    """Return the log of the sum of exponentials; minus infinity where there is nothing to sum."""
    highest = values.max(axis, keepdims=True)
    highest[np.isneginf(highest)] = 0.0
    with np.errstate(divide="ignore"):
        sums: Floats = np.log(np.exp(values - highest).sum(axis)) + highest.squeeze(axis)
    return sums
