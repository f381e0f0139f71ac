"""scores.json: every method on every platform, with intervals, gains and means."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fedner.corpus.groups import Unit
from fedner.runs.records.border import JsonScores, as_json
from fedner.scoring import Interval, PairedTest, Scores

Verdict = Literal["yes", "no", "not clear"]
FEDERATED = "federated"


@dataclass(frozen=True, slots=True)
class BothIntervals:
    """Strict and relaxed F1 with their intervals."""

    strict: Interval
    relaxed: Interval


@dataclass(frozen=True, slots=True)
class Gain:
    """What joining brought a platform: federated against a baseline, pair by pair.

    Attributes:
        over: The baseline.
        verdict: Whether the federated tagger is better by strict F1.
        strict: The paired test of strict F1.
        relaxed: The paired test of relaxed F1.
    """

    over: str
    verdict: Verdict
    strict: PairedTest
    relaxed: PairedTest


@dataclass(frozen=True, slots=True)
class MeanF1:
    """Strict and relaxed F1 of a method, each platform counting alike."""

    strict: float
    relaxed: float


@dataclass(frozen=True, slots=True)
class PlatformScores:
    """One platform's scores on its own test part.

    Attributes:
        unit: What is drawn again in the bootstrap.
        num_units: How many of them the test part has.
        methods: The scores by method.
        intervals: The bootstrap intervals by method.
        gain: Federated against local-only; None where one of them is missing.
        mistakes: How many mistakes of each kind (missed, border, type, spurious) there are, by
            method and type; counts alone.
    """

    unit: Unit
    num_units: int
    methods: Mapping[str, JsonScores]
    intervals: Mapping[str, BothIntervals]
    gain: Gain | None
    mistakes: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)


@dataclass(frozen=True, slots=True)
class RunScores:
    """What a run came to.

    Attributes:
        title: The title of the run.
        seed: The seed of the run.
        synthetic: Whether every platform is a built-in one.
        platforms: The scores of each platform.
    """

    title: str
    seed: int
    synthetic: bool
    platforms: Mapping[str, PlatformScores]

    @property
    def methods(self) -> list[str]:
        """The methods that platforms were scored for, in the order of the first platform."""
        return list(
            dict.fromkeys(name for each in self.platforms.values() for name in each.methods)
        )

    @property
    def by_platform(self) -> dict[str, Mapping[str, Scores]]:
        """The scores by platform and method."""
        return {name: each.methods for name, each in self.platforms.items()}

    @property
    def main_method(self) -> str | None:
        """The method that a run is about: federated where it has one; None without any."""
        methods = self.methods
        return FEDERATED if FEDERATED in methods else next(iter(methods), None)

    @property
    def mean(self) -> dict[str, MeanF1]:
        """The mean over the platforms that have a method, by method."""
        return {method: self._mean(method) for method in self.methods}

    def _mean(self, method: str) -> MeanF1:
        held = [each.methods[method] for each in self.platforms.values() if method in each.methods]
        return MeanF1(
            sum(each.strict_micro.f1 for each in held) / len(held),
            sum(each.relaxed_micro.f1 for each in held) / len(held),
        )

    @property
    def gains(self) -> dict[str, Gain]:
        """The gains of the platforms that have one."""
        return {name: each.gain for name, each in self.platforms.items() if each.gain is not None}

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it, with the means."""
        return {**as_json(self), "mean": {name: as_json(each) for name, each in self.mean.items()}}


def verdict(test: PairedTest) -> Verdict:
    """Return in words whether the second tagger is better: "yes", "no" or "not clear"."""
    if test.difference.low > 0:
        return "yes"
    return "no" if test.difference.high < 0 else "not clear"
