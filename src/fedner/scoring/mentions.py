"""Flat mentions of all sentences on one axis of tokens, and which of two sides match.

Every sentence has its own stretch of the axis, so that mentions of two sentences never touch. The
mentions of one side are flat and sorted, so their starts and their ends both ascend: two binary
searches tell which of them a given range touches.

This module imports NumPy; `sentences.py` imports it only when something is scored.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedner.scoring.counts import Counts, RelaxedCounts

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Mentions:
    """Flat mentions of one side in order of the axis: half-open ranges and the code of the label.

    Attributes:
        starts: Where each mention begins.
        ends: Where it ends.
        labels: The code of its label.
    """

    starts: Ints
    ends: Ints
    labels: Ints

    def only(self, chosen: Bools) -> "Mentions":
        """Return the mentions that are chosen."""
        return Mentions(self.starts[chosen], self.ends[chosen], self.labels[chosen])


@dataclass(frozen=True, slots=True)
class Matches:
    """Which mentions are right, as masks over the mentions of their side.

    Attributes:
        correct: Predictions that are a gold mention.
        predicted_touching: Predictions that touch a gold mention of their type.
        gold_touched: Gold mentions touched by a prediction of their type.
        predicted_touching_any: Predictions that touch a gold mention of any type.
        gold_touched_any: Gold mentions touched by a prediction of any type.
    """

    correct: Bools
    predicted_touching: Bools
    gold_touched: Bools
    predicted_touching_any: Bools
    gold_touched_any: Bools


def match(gold: Mentions, predicted: Mentions) -> Matches:
    """Match both sides; no side is changed."""
    of_gold, of_predicted = _touching_pairs(gold, predicted)
    same_type = gold.labels[of_gold] == predicted.labels[of_predicted]
    same = (
        same_type
        & (gold.starts[of_gold] == predicted.starts[of_predicted])
        & (gold.ends[of_gold] == predicted.ends[of_predicted])
    )
    num_gold, num_predicted = gold.starts.size, predicted.starts.size
    return Matches(
        correct=_mask(of_predicted[same], num_predicted),
        predicted_touching=_mask(of_predicted[same_type], num_predicted),
        gold_touched=_mask(of_gold[same_type], num_gold),
        predicted_touching_any=_mask(of_predicted, num_predicted),
        gold_touched_any=_mask(of_gold, num_gold),
    )


def _touching_pairs(gold: Mentions, predicted: Mentions) -> tuple[Ints, Ints]:
    """Return the indices of all pairs that share a token: fewer than there are mentions."""
    # The gold mentions that a prediction touches are neighbours: the first that is not over when
    # it begins, up to the last that has begun before it ends.
    first = np.searchsorted(gold.ends, predicted.starts, side="right")
    times = np.searchsorted(gold.starts, predicted.ends, side="left") - first
    of_predicted = np.repeat(np.arange(times.size), times)
    before = np.cumsum(times) - times
    of_gold = np.arange(of_predicted.size) + np.repeat(first - before, times)
    return of_gold, of_predicted


def _mask(indices: Ints, size: int) -> Bools:
    mask = np.zeros(size, np.bool_)
    mask[indices] = True
    return mask


def strict_counts(
    matches: Matches, gold_groups: Ints, predicted_groups: Ints, num_groups: int
) -> list[Counts]:
    """Return the strict counts of each group (a label or a sentence) of mentions."""
    predicted = np.bincount(predicted_groups, minlength=num_groups)
    gold = np.bincount(gold_groups, minlength=num_groups)
    tp = np.bincount(predicted_groups[matches.correct], minlength=num_groups)
    rows = zip(tp.tolist(), (predicted - tp).tolist(), (gold - tp).tolist(), strict=True)
    return [Counts(*row) for row in rows]


def relaxed_counts(
    matches: Matches,
    gold_groups: Ints,
    predicted_groups: Ints,
    num_groups: int,
    *,
    any_type: bool,
) -> list[RelaxedCounts]:
    """Return the relaxed counts of each group (a label or a sentence) of mentions."""
    touching = matches.predicted_touching_any if any_type else matches.predicted_touching
    touched = matches.gold_touched_any if any_type else matches.gold_touched
    columns = (
        np.bincount(groups, minlength=num_groups).tolist()
        for groups in (
            predicted_groups,
            predicted_groups[touching],
            gold_groups,
            gold_groups[touched],
        )
    )
    return [RelaxedCounts(*row) for row in zip(*columns, strict=True)]


def sentence_of(mentions: Mentions, offsets: Ints) -> Ints:
    """Return the index of the sentence of each mention."""
    # Empty sentences share their offset with the next one: the last of equals has the tokens.
    return np.searchsorted(offsets, mentions.starts, side="right") - 1
