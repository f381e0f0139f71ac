r"""Scores that a platform may disclose: counts of bounded contributions, noised, and charged.

Each unit u of the platform's test part gives c_u = (right, wrongly predicted, missed) entities over
all its sentences, scaled down to norm C. Released is

    sum over u of c_u + N(0, (multiplier * C)^2) on each of the three,

from which precision, recall and F1 follow as post-processing. It is the Gaussian mechanism with
every unit taking part (no sampling, so no amplification): one event with purpose "statistics".

What it is a release of. The test part, as the split gives it: with or without one unit the sum
moves by at most C. The tagger that makes the predictions was trained on the training part, but only
noised values of that are in it, so that training and scores compose as adaptive releases; a patient
with sentences in both parts is covered by the two together. Hence what is scored must hold nothing
that was trained in the clear: a private part trained without noise (unit "platform") cannot be.

Clipping bends what is measured: a unit of many entities counts for less. Take C near the number of
entities of a usual unit, and compare noised scores with noised scores of the same C alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fedner.errors import FednerError
from fedner.privacy.entropy import Source
from fedner.privacy.events import GaussianRelease, from_json, to_json
from fedner.privacy.noise import clip, gaussian, sum_of_disjoint
from fedner.privacy.sampling import Units
from fedner.scoring.counts import Counts, ratio

NOISED = "noised"
_COUNTS = ("tp", "fp", "fn")
_MOST_COUNT = 1e15


@dataclass(frozen=True, slots=True)
class NoisedScores:
    """What a platform tells of its scores.

    Attributes:
        tp: Entities that were found, of clipped units, with noise: may be below 0.
        fp: Entities that were predicted and are none.
        fn: Entities that were missed.
        standard_deviation: The noise on each of the three.
        event: What it cost.
    """

    tp: float
    fp: float
    fn: float
    standard_deviation: float
    event: GaussianRelease

    @property
    def precision(self) -> float:
        """Right ones among the predicted."""
        found = max(self.tp, 0.0)
        return ratio(found, found + max(self.fp, 0.0))

    @property
    def recall(self) -> float:
        """Right ones among the gold entities."""
        found = max(self.tp, 0.0)
        return ratio(found, found + max(self.fn, 0.0))

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        found = max(self.tp, 0.0)
        return ratio(2 * found, 2 * found + max(self.fp, 0.0) + max(self.fn, 0.0))

    def as_dict(self) -> dict[str, Any]:
        """Return them where `Scores.as_dict` has its strict counts; `from_dict` reads it back."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        measures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {
            "strict": {"micro": {**measures, **counts}},
            NOISED: {"standard_deviation": self.standard_deviation, "event": to_json(self.event)},
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "NoisedScores":
        """Return the scores of which `as_dict` made `record`.

        Raises:
            FednerError: If it is of another form.
        """
        try:
            counts = [record["strict"]["micro"][name] for name in _COUNTS]
            deviation = record[NOISED]["standard_deviation"]
            event = from_json(record[NOISED]["event"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FednerError(
                f"not a record of noised scores: {type(error).__name__}",
                "Pass what NoisedScores.as_dict() returned, unchanged.",
            ) from error
        numbers = [*counts, deviation]
        are_sound = all(type(each) in (int, float) and abs(each) <= _MOST_COUNT for each in numbers)
        if not isinstance(event, GaussianRelease) or not are_sound or deviation < 0:
            raise FednerError("not a record of noised scores: a count or the event is not valid")
        tp, fp, fn = (float(each) for each in counts)
        return cls(tp, fp, fn, float(deviation), event)


def noised_scores(
    counts: Sequence[Counts], units: Units, event: GaussianRelease, source: Source
) -> NoisedScores:
    """Return the noised sum of clipped counts.

    Guarantee:
        One release of the Gaussian mechanism with the event's multiplier under adding or removing
        one unit of the test part, all of its sentences together.

    Edge cases:
        No unit: noise alone, like any other release.

    Args:
        counts: The strict counts of every sentence.
        units: Which sentences are whose; every sentence belongs to one unit.
        event: What the release is recorded as: its clip and its noise are those that are used.
        source: Where the noise comes from; name the release (`source.at("round", 3, "scores")`).

    Raises:
        FednerError: If units and sentences differ, or the event is another one.
    """
    if sorted(at for members in units.members for at in members) != list(range(len(counts))):
        raise FednerError(
            f"the units of noised scores do not have each of the {len(counts):,} sentences once",
            "Make them of the test sentences (sampling.units_of).",
        )
    if event.purpose != "statistics" or event.sampling_probability != 1 or event.steps != 1:
        raise FednerError(
            "noised scores are one release over all units for statistics; found an event of "
            f"{event.steps} steps for {event.purpose} with probability "
            f"{event.sampling_probability}",
        )
    of_units = [sum((counts[at] for at in members), Counts()) for members in units.members]
    # The counts of nobody are there too: a sum needs a part, and 0 tells nothing.
    parts = [clip(_state(each), event.max_norm) for each in (Counts(), *of_units)]
    noised = gaussian(sum_of_disjoint(parts), event.noise_multiplier, source)
    tp, fp, fn = noised.value["counts"].tolist()
    return NoisedScores(tp, fp, fn, noised.standard_deviation, event)


def _state(counts: Counts) -> dict[str, torch.Tensor]:
    numbers = [float(getattr(counts, name)) for name in _COUNTS]
    return {"counts": torch.tensor(numbers, dtype=torch.float64)}
