"""score_reports.json: what the coordinator knows of a run, from messages alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fedner.runs.records.border import JsonNoised, JsonScores, as_json
from fedner.runs.records.facts import InitialFacts

State = Literal["reported", "not reported", "missing"]


@dataclass(frozen=True, slots=True)
class ReportedPlatform:
    """What one platform reported.

    Attributes:
        state: Whether scores of it are known; "not reported" where it finished and kept them,
            "missing" where it did not answer at the end.
        scores: Scores of its finished taggers, by method.
        noised: The newest noised scores that it released; None without.
        noised_in: The round of these; None without.
        rounds: In how many rounds it transmitted an update.
        bytes_up: The bytes of tensors that it transmitted.
        bytes_down: The bytes of tensors that it was sent.
    """

    state: State
    scores: Mapping[str, JsonScores]
    noised: JsonNoised | None
    noised_in: int | None
    rounds: int
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that a platform did not do, or an update that was not taken.

    Attributes:
        round: The round; 0 before the first one, and None after the last.
        platform: Whose it is.
        asked: What the platform was asked for.
        kind: Whether its update was refused, or there was no answer.
        why: In fixed words.
    """

    round: int | None
    platform: str
    asked: str
    kind: Literal["refused", "no answer"]
    why: str


@dataclass(frozen=True, slots=True)
class ScoreReports:
    """What the coordinator knows when all platforms have finished.

    Attributes:
        title: The title of the study.
        study: The digest of the study.
        rounds: How many rounds were taken.
        resumed_from: The round that the run went on from; 0 where it was never stopped.
        seconds: How long all rounds took.
        platforms: What each platform of the study reported.
        incidents: Refused updates and missing answers.
        initial: What the run began with; None for a run from scratch.
    """

    title: str
    study: str
    rounds: int
    resumed_from: int
    seconds: float
    platforms: Mapping[str, ReportedPlatform]
    incidents: tuple[Incident, ...]
    initial: InitialFacts | None

    @property
    def methods(self) -> list[str]:
        """The methods that somebody reported."""
        held = self.platforms.values()
        return list(dict.fromkeys(method for each in held for method in each.scores))

    @property
    def missing(self) -> list[str]:
        """The platforms that did not answer at the end."""
        return [name for name, each in self.platforms.items() if each.state == "missing"]

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)
