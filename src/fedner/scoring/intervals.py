"""How sure a score is: bootstrap intervals over sentences or documents, and a paired test.

The unit that is drawn again is a sentence, or better a document (its sentences resemble each
other): hand in one count per unit. A micro F1 depends on sums of counts alone, so units with equal
counts are interchangeable. Drawing how often each *kind* of unit occurs is therefore the very same
resampling as drawing units one by one, at a fraction of the cost, and the order of the units does
not matter.

Efron (1979): percentile interval. Noreen (1989): approximate randomisation; Yeh (2000) for F1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedner.errors import FednerError
from fedner.scoring.counts import Counts, RelaxedCounts
from fedner.seeds import seeded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

UnitCounts = Sequence[Counts] | Sequence[RelaxedCounts]

NUM_RESAMPLES = 2_000
CONFIDENCE = 0.95

# How many numbers one block of resamples may hold: bounds the memory, whatever the input.
_BLOCK = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the interval around it.

    Attributes:
        value: The value itself, from all the data.
        low: The lower end of the interval.
        high: The upper end.
        confidence: How often such intervals hold the truth, as a share.
    """

    value: float
    low: float
    high: float
    confidence: float

    @property
    def points(self) -> tuple[float, float, float]:
        """Value and both ends in percent."""
        return 100 * self.value, 100 * self.low, 100 * self.high


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Two taggers on the same units.

    Attributes:
        first: The micro F1 of the first.
        second: The micro F1 of the second.
        difference: The second minus the first, with its paired bootstrap interval.
        p_value: How often a difference at least as large comes about, either way, if it is left to
            chance which tagger gave which answer (two-sided approximate randomisation).
    """

    first: float
    second: float
    difference: Interval
    p_value: float


def bootstrap_interval(
    units: UnitCounts,
    *,
    seed: int,
    num_resamples: int = NUM_RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Return the micro F1 of all units with its percentile bootstrap interval.

    Args:
        units: The counts of each sentence or document (of one label, or of all together).
        seed: The seed of the resampling.
        num_resamples: How often the units are drawn again.
        confidence: The share of resamples within the interval.
    """
    import numpy as np

    check_confidence(confidence)
    _check(len(units), num_resamples)
    kinds, times = np.unique(_rows(units), axis=0, return_counts=True)
    rng = seeded(seed, "scoring", "bootstrap")
    drawn = _f1(_resampled(kinds, times, rng, num_resamples))
    low, high = np.quantile(drawn, _tails(confidence)).tolist()
    return Interval(float(_f1(times @ kinds)), low, high, confidence)


def paired_test(
    first: UnitCounts,
    second: UnitCounts,
    *,
    seed: int,
    num_resamples: int = NUM_RESAMPLES,
    confidence: float = CONFIDENCE,
) -> PairedTest:
    """Compare the micro F1 of two taggers on the same units.

    Exchanging the taggers changes the sign of the difference and nothing else.

    Args:
        first: The counts of each unit under the first tagger.
        second: The counts of the same units, in the same order, under the second.
        seed: The seed of resampling and randomisation.
        num_resamples: How often units are drawn again, and how often answers are exchanged.
        confidence: The share of resamples within the interval.
    """
    import numpy as np

    check_confidence(confidence)
    _check(len(first), num_resamples)
    if len(first) != len(second):
        raise FednerError(
            f"paired test: {len(first):,} units of the first tagger, {len(second):,} of the second",
            "Score both taggers on the same sentences or documents, in the same order.",
        )
    one, other = _rows(first), _rows(second)
    kinds, times, signs = _paired_kinds(one, other)
    width = one.shape[1]
    rng = seeded(seed, "scoring", "paired", "bootstrap")
    sums = _resampled(kinds, times, rng, num_resamples)
    drawn = np.outer(signs, _f1(sums[:, width:]) - _f1(sums[:, :width]))
    low, high = np.quantile(drawn, _tails(confidence)).tolist()
    first_f1, second_f1 = float(_f1(one.sum(axis=0))), float(_f1(other.sum(axis=0)))
    p_value = _randomisation(kinds, times, seed, num_resamples)
    difference = Interval(second_f1 - first_f1, low, high, confidence)
    return PairedTest(first_f1, second_f1, difference, p_value)


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is no share."""
    if not 0 < confidence < 1:
        raise FednerError(
            f"confidence is {confidence}; expected a share between 0 and 1",
            "For a 95 % interval pass 0.95.",
        )


def _check(num_units: int, num_resamples: int) -> None:
    if num_units == 0:
        raise FednerError(
            "no units to draw from; expected counts of at least one sentence or document",
            "Score at least one sentence.",
        )
    if num_resamples < 1:
        raise FednerError(
            f"num_resamples is {num_resamples}; expected at least 1",
            "Leave it out for the default.",
        )


def _tails(confidence: float) -> tuple[float, float]:
    return (1 - confidence) / 2, (1 + confidence) / 2


def _rows(units: UnitCounts) -> "Ints":
    """Return predicted, predicted and right, gold, gold and found: F1 follows for both measures."""
    import numpy as np

    rows = [
        (each.predicted, each.tp, each.gold, each.tp)
        if isinstance(each, Counts)
        else (each.predicted, each.predicted_touching, each.gold, each.gold_touched)
        for each in units
    ]
    return np.array(rows, np.int64)


def _f1(sums: "Ints") -> "Floats":
    """Return F1 of the sums in the last axis; 0 where nothing is right."""
    import numpy as np

    predicted, right, gold, found = np.moveaxis(sums.astype(np.float64), -1, 0)
    # 2PR / (P + R) with both denominators multiplied out; no 0 / 0 on the way.
    numerator = 2 * right * found
    denominator = right * gold + found * predicted
    result: Floats = numerator / np.where(denominator > 0, denominator, 1.0)
    return result


def _blocks(num_resamples: int, num_kinds: int) -> list[int]:
    size = max(1, _BLOCK // num_kinds)
    full, rest = divmod(num_resamples, size)
    return [size] * full + [rest] * (rest > 0)


def _resampled(
    kinds: "Ints", times: "Ints", rng: "np.random.Generator", num_resamples: int
) -> "Ints":
    """Return the sums of each resample: as many units as there are, drawn with replacement."""
    import numpy as np

    total = int(times.sum())
    shares = times / total
    return np.concatenate(
        [
            rng.multinomial(total, shares, size=size) @ kinds
            for size in _blocks(num_resamples, len(kinds))
        ]
    )


def _paired_kinds(one: "Ints", other: "Ints") -> "tuple[Ints, Ints, tuple[int, ...]]":
    """Return the kinds of pairs in an order that does not depend on which tagger comes first.

    With them come the signs of the difference: -1 where the taggers stand exchanged, and both where
    exchanging them gives the very same pairs, so that a difference is as likely as its opposite.
    """
    import numpy as np

    ways = [
        np.unique(np.hstack(pair), axis=0, return_counts=True)
        for pair in ((one, other), (other, one))
    ]
    keys = [np.column_stack(way).tolist() for way in ways]
    if keys[0] == keys[1]:
        return *ways[0], (1, -1)
    return (*ways[0], (1,)) if keys[0] < keys[1] else (*ways[1], (-1,))


def _randomisation(kinds: "Ints", times: "Ints", seed: int, num_resamples: int) -> float:
    """Return the share of random exchanges that part the taggers at least as far as they are."""
    import numpy as np

    rng = seeded(seed, "scoring", "paired", "randomisation")
    one, other = np.split(kinds, 2, axis=1)
    one_total, other_total = times @ one, times @ other
    observed = abs(float(_f1(other_total) - _f1(one_total)))
    at_least = 0
    for size in _blocks(num_resamples, len(kinds)):
        # Of the units of one kind, a binomial number is exchanged.
        moved = rng.binomial(times, 0.5, size=(size, len(kinds))) @ (other - one)
        parted = np.abs(_f1(other_total - moved) - _f1(one_total + moved))
        # Equal differences may come out unequal in the last bits.
        at_least += int(np.count_nonzero(parted >= observed - 1e-12))
    # The exchange that changes nothing is one of those possible: p is never 0.
    return (at_least + 1) / (num_resamples + 1)
