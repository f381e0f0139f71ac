"""What joining is worth in sentences of one's own: two learning curves on the test part.

Local-only and joined, each with its chosen setting, are trained on nested parts of the newcomer's
training sentences. At each size the question is how many sentences local-only needs to reach what
joined has there: its curve is followed in straight lines over the logarithm of the size. Where it
does not reach that score with all sentences that there are, the answer is "more than you have".
The interval is a bootstrap over the units of the test part: all scores are drawn anew together.

Shapes: S sizes, R resamples, U units of the test part.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedner.corpus.groups import Grouping
from fedner.corpus.splits import subsample
from fedner.runs.joining.candidates import Arm, Setting
from fedner.runs.joining.jobs import Job
from fedner.runs.joining.newcomer import Newcomer
from fedner.scoring import Counts
from fedner.scoring.intervals import CONFIDENCE, NUM_RESAMPLES
from fedner.seeds import derive, seeded

FRACTIONS = (0.25, 0.5, 1.0)
Floats = NDArray[np.float64]
_BLOCK = 4_000_000  # numbers that a block of resamples may hold


@dataclass(frozen=True, slots=True)
class Worth:
    """What joining is worth with so many sentences of one's own.

    Infinity stands for "more than you have".

    Attributes:
        sentences: How many own sentences both were trained on.
        local_f1: Strict F1 of local-only on the test part.
        joined_f1: Strict F1 of joined there.
        worth: With how many sentences local-only reaches that; the smallest size tried where it
            has it there already.
        low: The lower end of its interval.
        high: The upper end.
        most: How many sentences there are.
        least: The smallest size tried.
    """

    sentences: int
    local_f1: float
    joined_f1: float
    worth: float
    low: float
    high: float
    most: int
    least: int

    def words(self) -> str:
        """Return the answer as people say it, with its interval."""
        is_beyond = math.isinf(self.worth)
        value = f"more than you have ({self.most:,})" if is_beyond else self._said(self.worth)
        return f"{value}, interval {self._said(self.low)} to {self._said(self.high)}"

    def _said(self, number: float) -> str:
        if math.isinf(number):
            return f"above {self.most:,}"
        return f"at most {self.least:,}" if number <= self.least else f"{round(number):,}"

    def as_dict(self) -> dict[str, object]:
        """Return the record as JSON can carry it; null is "more than you have"."""
        ends = {"worth": self.worth, "worth_low": self.low, "worth_high": self.high}
        return {
            "sentences": self.sentences,
            "local_only_f1": self.local_f1,
            "joined_f1": self.joined_f1,
            **{name: None if math.isinf(end) else end for name, end in ends.items()},
            "most": self.most,
            "least": self.least,
            "words": self.words(),
        }


def nested_parts(newcomer: Newcomer) -> list[tuple[int, ...]]:
    """Return growing parts of the training sentences, each within the next, the last one all."""
    data = newcomer.data
    grouping = Grouping.of(data.train_sentences, newcomer.unit)
    seed = derive(newcomer.seed, "join", "curve")
    chosen = [
        tuple(data.train[at] for at in subsample(grouping, fraction, seed))
        for fraction in FRACTIONS[:-1]
    ]
    sizes = {len(each): each for each in (*chosen, data.train)}
    return [sizes[size] for size in sorted(sizes)]


def curve_jobs(newcomer: Newcomer, arm: Arm, setting: Setting) -> list[Job]:
    """Return the trainings of a candidate on growing parts, asked about the test part.

    Each is trained as long as is usual for its size. The last one trains on everything and keeps
    its weights.
    """
    *parts, whole = nested_parts(newcomer)
    held = newcomer.data.test
    return [
        *(Job(arm, setting.for_part(len(part)), f"test-{len(part)}", part, held) for part in parts),
        Job(arm, setting, "test-all", whole, held, keeps_weights=True),
    ]


def worth_of(
    sizes: Sequence[int],
    local: Sequence[Sequence[Counts]],
    joined: Sequence[Sequence[Counts]],
    seed: int,
) -> tuple[Worth, ...]:
    """Return what joining is worth at every size.

    Args:
        sizes: The numbers of own sentences, growing.
        local: For each size the strict counts of every unit of the test part under local-only.
        joined: The same under joined.
        seed: Of the resampling.
    """
    rows_SU3 = [np.array([(c.tp, c.fp, c.fn) for c in each]) for each in (*local, *joined)]
    exact_S = np.array([_f1(rows.sum(0)) for rows in rows_SU3])
    drawn_RS = _resampled_f1(rows_SU3, seed)
    number, tail = len(sizes), (1 - CONFIDENCE) / 2
    found = []
    for at, size in enumerate(sizes):
        drawn = [reached(sizes, row[:number], row[number + at]) for row in drawn_RS]
        # Of values that may be infinite no mean is taken: an end is a value that was drawn.
        low, high = np.quantile(drawn, (tail, 1 - tail), method="closest_observation").tolist()
        exact = reached(sizes, exact_S[:number], exact_S[number + at])
        scores = float(exact_S[at]), float(exact_S[number + at])
        found.append(Worth(size, *scores, exact, low, high, sizes[-1], sizes[0]))
    return tuple(found)


def reached(sizes: Sequence[int], scores: Sequence[float] | Floats, target: float) -> float:
    """Return the size at which a learning curve first reaches a score; infinity where it does not.

    >>> round(reached([25, 100], [0.5, 0.7], 0.6))
    50
    >>> reached([25, 100], [0.5, 0.7], 0.8), reached([25, 100], [0.5, 0.7], 0.4)
    (inf, 25.0)
    """
    if scores[0] >= target:
        return float(sizes[0])
    for at in range(1, len(sizes)):
        before, after = float(scores[at - 1]), float(scores[at])
        if before < target <= after:
            share = (target - before) / (after - before)
            return float(sizes[at - 1] * (sizes[at] / sizes[at - 1]) ** share)
    return math.inf


def _resampled_f1(rows_SU3: Sequence[NDArray[np.int64]], seed: int) -> Floats:
    """Return the F1 of every curve point in each resample of the units (R, S)."""
    num_units = len(rows_SU3[0])
    rng = seeded(seed, "join", "worth")
    shares = np.full(num_units, 1 / num_units)
    size = max(1, _BLOCK // num_units)
    blocks = []
    for start in range(0, NUM_RESAMPLES, size):
        times = rng.multinomial(num_units, shares, size=min(size, NUM_RESAMPLES - start))
        blocks.append(np.stack([_f1(times @ rows) for rows in rows_SU3], axis=-1))
    return np.concatenate(blocks)


def _f1(counts: NDArray[np.int64]) -> Floats:
    """Return F1 of right, wrong and missed in the last axis; 0 where nothing is right."""
    right, wrong, missed = np.moveaxis(counts.astype(np.float64), -1, 0)
    total = 2 * right + wrong + missed
    result: Floats = 2 * right / np.where(total > 0, total, 1.0)
    return result
