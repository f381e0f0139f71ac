"""A threshold for a wanted recall, chosen on one half of held-out documents, measured on the other.

The half that chooses says nothing about how good the choice is, so the recall that is reported, and
its interval, come from the other half, which had no say. Within the first half a threshold is taken
such that one missed mention more would still do: (missed + 1) / (mentions + 1) is at most the share
that may remain (as in conformal risk control, Angelopoulos et al. 2024).

With a low enough threshold every word goes. What bounds the recall is therefore how many other
words may be lost; a recall that cannot be had within that bound is refused, with the one that can.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedner.errors import FednerError
from fedner.inference.removal_scores import RemovalScores, ScoredDocument, scores_at
from fedner.scoring.intervals import CONFIDENCE
from fedner.seeds import seeded

HALF = 0.5
"""The highest threshold for users: what is likelier a mention than not goes anyway."""

MOST_LOST = 0.2
"""The share of other words that may be lost unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a threshold is chosen for.

    Attributes:
        recall: The share of mentions that has to go.
        each_type: Whether every type by itself has to reach it.
        most_lost: The largest share of other words that may be lost.
        highest: The highest threshold that may be chosen, as far as `most_lost` allows: with one
            above a half, words would stay of which the tagger is nearly sure.
    """

    recall: float
    each_type: bool = False
    most_lost: float = MOST_LOST
    highest: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.recall < 1:
            raise FednerError(
                f"recall: found {self.recall}; expected a share between 0 and 1, both excluded",
                "Write 99 % as 0.99. A recall of 100 % cannot be promised.",
            )
        if not 0 <= self.most_lost <= 1:
            raise FednerError(
                f"most lost: found {self.most_lost}; expected a share from 0 to 1",
                "Write 20 % as 0.2.",
            )


@dataclass(frozen=True, slots=True)
class Calibration:
    """A threshold and what it comes to.

    Attributes:
        threshold: Words of at least this probability go.
        wish: What it was chosen for.
        chosen_on: How many mentions it was chosen on.
        measured: What remains and what is lost, on documents that had no say in the choice.
    """

    threshold: float
    wish: Wish
    chosen_on: int
    measured: RemovalScores


def calibrate(
    documents: Sequence[ScoredDocument],
    wish: Wish,
    *,
    seed: int = 1,
    confidence: float = CONFIDENCE,
) -> Calibration:
    """Choose a threshold on one half of the documents and measure it on the other.

    Args:
        documents: Held-out documents, which the tagger never saw in training.
        wish: What the threshold shall reach.
        seed: Which documents choose.
        confidence: How often the intervals shall hold the truth.

    Raises:
        FednerError: There are too few mentions, or the recall cannot be reached.
    """
    choosing, measuring = halves(documents, seed)
    threshold = choose(choosing, wish)
    measured = scores_at(measuring, threshold, confidence)
    if not measured.overall.mentions:
        raise _too_few(wish, "the half that measures has no mention")
    return Calibration(threshold, wish, _num_mentions(choosing), measured)


def halves(
    documents: Sequence[ScoredDocument], seed: int
) -> tuple[list[ScoredDocument], list[ScoredDocument]]:
    """Return two halves by chance; the documents of a group stay together."""
    groups = list(dict.fromkeys(document.group for document in documents))
    order = seeded(seed, "redaction", "halves").permutation(len(groups)).tolist()
    first = {groups[at] for at in order[: len(groups) // 2]}
    return (
        [document for document in documents if document.group in first],
        [document for document in documents if document.group not in first],
    )


def choose(documents: Sequence[ScoredDocument], wish: Wish) -> float:
    """Return the highest threshold that reaches the wanted recall on these documents.

    Raises:
        FednerError: There are too few mentions, or too many other words would be lost.
    """
    by_type: dict[str, list[float]] = {}
    for document in documents:
        for label, score in document.mentions:
            by_type.setdefault(label if wish.each_type else "", []).append(score)
    if not by_type:
        raise _too_few(wish, "the half that chooses has no mention")
    found = min(_threshold(scores, label, wish) for label, scores in sorted(by_type.items()))
    _check_cost(documents, by_type, found, wish)
    others = [score for each in documents for score in each.others]
    if sum(score >= wish.highest for score in others) > wish.most_lost * len(others):
        return found
    return min(found, wish.highest)


def _threshold(scores: Sequence[float], label: str, wish: Wish) -> float:
    """Return the highest threshold for the mentions of one type, or of all."""
    may_miss = _may_miss(len(scores), wish.recall)
    if may_miss < 0:
        of_type = f" of type {label}" if label else ""
        found = f"found {len(scores):,} mentions{of_type} in the half that chooses"
        raise _too_few(wish, found, len(scores) / (len(scores) + 1))
    # A little below the score itself: the last bits of a sum depend on the size of the batch.
    return _below(sorted(scores)[may_miss])


def _may_miss(mentions: int, recall: float) -> int:
    """Return how many of the mentions may remain; below zero where there are too few to tell."""
    return math.floor((1 - recall) * (mentions + 1) + 1e-9) - 1


def _below(score: float) -> float:
    return float(f"{score * (1 - 1e-4):.4g}") if score < 1 else 0.9999


def _check_cost(
    documents: Sequence[ScoredDocument],
    by_type: dict[str, list[float]],
    threshold: float,
    wish: Wish,
) -> None:
    others = sorted((score for each in documents for score in each.others), reverse=True)
    lost = sum(score >= threshold for score in others)
    if not others or lost <= wish.most_lost * len(others):
        return
    lowest = others[int(wish.most_lost * len(others))]
    reached = min(
        (sum(score > lowest for score in scores)) / (len(scores) + 1) for scores in by_type.values()
    )
    raise FednerError(
        f"a recall of {100 * wish.recall:g} % cannot be reached: it would remove "
        f"{100 * lost / len(others):.0f} % of the other words, and at most "
        f"{100 * wish.most_lost:g} % may be lost",
        f"{_floored(reached)} % is possible within that bound: ask for that, train the tagger "
        "on more data, or allow more words to be lost with --most-lost.",
    )


def _too_few(wish: Wish, found: str, reachable: float = 0.0) -> FednerError:
    needed = math.ceil((1 - 1e-9) / (1 - wish.recall)) - 1
    can = f" With these, {_floored(reachable)} % can be asked for." if reachable else ""
    return FednerError(
        f"too few mentions to choose a threshold for a recall of {100 * wish.recall:g} %: {found}; "
        f"expected at least {max(1, needed):,}{' of each type' if wish.each_type else ''}",
        "Annotate more held-out documents (half of them choose, half of them measure), or ask for "
        f"a lower recall.{can}",
    )


def _floored(share: float) -> str:
    """Return a share in percent, never more than it is."""
    return f"{math.floor(1000 * share) / 10:g}"


def _num_mentions(documents: Sequence[ScoredDocument]) -> int:
    return sum(len(document.mentions) for document in documents)


def remain_words(what: str, measured: RemovalScores, label: str | None = None) -> str:
    """Return how many mentions remain, as people say it.

    >>> from fedner.inference.removal_scores import scores_at
    >>> scores = [0.1 if number % 50 == 0 else 0.9 for number in range(500)]
    >>> documents = [ScoredDocument(str(n), (("NAME", s),), ()) for n, s in enumerate(scores)]
    >>> remain_words("names", scores_at(documents, 0.5))
    'of 1,000 names about 20 remain: 9 to 37'
    """
    share = (measured.overall if label is None else measured.by_type[label]).share
    low, high = math.floor(1000 * share.low), math.ceil(1000 * share.high)
    about = "none" if share.value == 0 else f"about {1000 * share.value:.0f}"
    if 0 < share.value < 0.0005:
        about = "fewer than 1"
    return f"of 1,000 {what} {about} remain: {low:,} to {high:,}"
