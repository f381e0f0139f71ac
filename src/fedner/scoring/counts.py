"""Mergeable counts: what is added up across platforms, and the measures that follow from the sums.

Wherever a ratio has an empty denominator (nothing predicted, nothing to find) it is 0.0, as in
seqeval and scikit-learn: a tagger that predicts nothing has precision 0, not 1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

OUTSIDE = "O"


class Measures(NamedTuple):
    """Precision, recall and F1 as shares between 0 and 1."""

    precision: float
    recall: float
    f1: float


def ratio(numerator: float, denominator: float) -> float:
    """Return the share, 0.0 where there is nothing to share."""
    return numerator / denominator if denominator else 0.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Strict counts: a mention is right if span and type are. They add up with `+`.

    `sum(parts, Counts())` merges any number of parts.

    Attributes:
        tp: Predictions that are a gold mention.
        fp: Predictions that are not.
        fn: Gold mentions that were not predicted.
    """

    tp: int = 0
    fp: int = 0
    fn: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn)

    @property
    def gold(self) -> int:
        """How many mentions there are to find."""
        return self.tp + self.fn

    @property
    def predicted(self) -> int:
        """How many mentions were predicted."""
        return self.tp + self.fp

    @property
    def precision(self) -> float:
        """The share of predictions that are right; 0.0 without predictions."""
        return ratio(self.tp, self.predicted)

    @property
    def recall(self) -> float:
        """The share of gold mentions that were found; 0.0 without gold mentions."""
        return ratio(self.tp, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0.0 where nothing is right."""
        return ratio(2 * self.tp, self.predicted + self.gold)

    @property
    def measures(self) -> Measures:
        """Precision, recall and F1 together."""
        return Measures(self.precision, self.recall, self.f1)


@dataclass(frozen=True, slots=True)
class RelaxedCounts:
    """Relaxed counts: a mention is right if it touches one of the other side. They add up with `+`.

    One long prediction may touch three gold mentions, so that precision and recall have numerators
    of their own.

    Attributes:
        predicted: All predictions.
        predicted_touching: Those that share a token (or character) with a gold mention.
        gold: All gold mentions.
        gold_touched: Those that share a token (or character) with a prediction.
    """

    predicted: int = 0
    predicted_touching: int = 0
    gold: int = 0
    gold_touched: int = 0

    def __add__(self, other: "RelaxedCounts") -> "RelaxedCounts":
        return RelaxedCounts(
            self.predicted + other.predicted,
            self.predicted_touching + other.predicted_touching,
            self.gold + other.gold,
            self.gold_touched + other.gold_touched,
        )

    @property
    def precision(self) -> float:
        """The share of predictions that touch a gold mention; 0.0 without predictions."""
        return ratio(self.predicted_touching, self.predicted)

    @property
    def recall(self) -> float:
        """The share of gold mentions touched by a prediction; 0.0 without gold mentions."""
        return ratio(self.gold_touched, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0.0 where nothing touches."""
        precision, recall = self.precision, self.recall
        return ratio(2 * precision * recall, precision + recall)

    @property
    def measures(self) -> Measures:
        """Precision, recall and F1 together."""
        return Measures(self.precision, self.recall, self.f1)


def micro(counts: Mapping[str, Counts]) -> Counts:
    """Return the counts of all labels together."""
    return sum(counts.values(), Counts())


def micro_relaxed(counts: Mapping[str, RelaxedCounts]) -> RelaxedCounts:
    """Return the relaxed counts of all labels together."""
    return sum(counts.values(), RelaxedCounts())


def macro(counts: Iterable[Counts | RelaxedCounts]) -> Measures:
    """Return the unweighted mean of the measures of all labels.

    A label with neither gold mentions nor predictions is left out, as in seqeval: there was nothing
    to get right or wrong. A label with only gold mentions, or only predictions, counts with its
    zeros. Macro F1 is the mean of the F1 values, not the F1 of the means.
    """
    present = [each.measures for each in counts if each.gold or each.predicted]
    columns = zip(*present, strict=True) if present else ((), (), ())
    return Measures(*(ratio(sum(column), len(present)) for column in columns))


def merge_totals(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Return the totals of both by name, names sorted."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token-level totals by tag, "O" included. They add up with `+`.

    The tags are compared as they stand (`B-Drug` is not `I-Drug`), which is what the weighted
    average of scikit-learn's classification report does. "O" dominates this measure: read it beside
    `always_o` only.

    Attributes:
        gold: How many tokens have the tag in the gold annotation.
        predicted: How many tokens were given the tag.
        both: How many tokens have it on both sides.
    """

    gold: Mapping[str, int] = field(default_factory=dict)
    predicted: Mapping[str, int] = field(default_factory=dict)
    both: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(
            merge_totals(self.gold, other.gold),
            merge_totals(self.predicted, other.predicted),
            merge_totals(self.both, other.both),
        )

    @property
    def num_tokens(self) -> int:
        """How many tokens were scored."""
        return sum(self.gold.values())

    @property
    def weighted(self) -> Measures:
        """The measures of every tag, averaged with its number of gold tokens as weight."""
        precision, f1 = 0.0, 0.0
        for tag, gold in self.gold.items():
            both, predicted = self.both.get(tag, 0), self.predicted.get(tag, 0)
            precision += gold * ratio(both, predicted)
            f1 += gold * ratio(2 * both, gold + predicted)
        total = self.num_tokens
        recall = ratio(sum(self.both.values()), total)
        return Measures(ratio(precision, total), recall, ratio(f1, total))

    @property
    def always_o(self) -> Measures:
        """What `weighted` would be for a tagger that says "O" to every token of these."""
        share = ratio(self.gold.get(OUTSIDE, 0), self.num_tokens)
        return Measures(share * share, share, share * ratio(2 * share, 1 + share))
