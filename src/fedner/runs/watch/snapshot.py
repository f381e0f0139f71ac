"""What is shown of a run at a moment: plain records, whatever they were read from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fedner.runs.records import Incident
from fedner.runs.watch.thinned import Point

View = Literal["local", "coordinator", "platform"]
Phase = Literal[
    "waiting", "preparing", "running", "finishing", "interrupted", "refused", "stopped", "failed",
    "done",
]  # fmt: skip
OVER: tuple[Phase, ...] = ("refused", "stopped", "failed", "done")


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a run is.

    Attributes:
        phase: One word of it.
        words: Why, or what is being done; may be empty.
        waiting_for: The platforms that it waits for, by name.
    """

    phase: Phase
    words: str = ""
    waiting_for: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nobody goes on with it by itself."""
        return self.phase in OVER


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of a chart.

    Attributes:
        name: A platform, or what the line is of all of them.
        points: By round; neighbours are taken together where there are too many to draw.
        is_total: Whether it only grows: of rounds taken together the last value is theirs.
    """

    name: str
    points: tuple[Point, ...]
    is_total: bool = False


@dataclass(frozen=True, slots=True)
class Marks:
    """The rounds in which something was wrong with a platform.

    Attributes:
        name: The platform.
        refused: Rounds whose update was refused, with how many where rounds are taken together.
        missing: Rounds in which it did not answer, likewise.
    """

    name: str
    refused: tuple[Point, ...]
    missing: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class PlatformView:
    """What is known of one platform.

    Attributes:
        name: Its name.
        is_missing: Whether it did not answer in the newest round, or is not connected.
        loss: Its newest training loss; None where none was sent.
        f1: Its newest strict F1, from 0 to 1; None before the first.
        f1_round: The round of that.
        final: Strict F1 at the end, by method.
        bytes_up: What it transmitted, in bytes of tensors.
        bytes_down: What it was sent.
        refused: How many of its updates were refused.
        missing: How often it did not answer.
        epsilon: What this run spent on it so far; None without, and where it is infinite.
        in_all: What all runs spent on it, where a ledger says so at the end.
        granted: What its owner granted; likewise.
    """

    name: str
    is_missing: bool = False
    loss: float | None = None
    f1: float | None = None
    f1_round: int | None = None
    final: Mapping[str, float] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0
    refused: int = 0
    missing: int = 0
    epsilon: float | None = None
    in_all: float | None = None
    granted: float | None = None


@dataclass(frozen=True, slots=True)
class PrivacyView:
    """The differential privacy of a run, as its study says.

    Attributes:
        mechanism: Its name.
        delta: The delta of epsilon.
        accountant: Whose epsilon is shown.
        unit: Whose presence is protected.
        target: The epsilon that the noise was calibrated for; None where the noise is named.
        is_simulation: Whether the noise has a seed: nobody is protected then.
    """

    mechanism: str
    delta: float
    accountant: str
    unit: str
    target: float | None
    is_simulation: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is shown of a run.

    Attributes:
        title: The title of the study, or the name of the run.
        run: The name of the run, or its folder.
        view: Whose eyes see it: a simulation's owner's, the coordinator's, or a platform's.
        standing: How far it is.
        round: The newest round.
        rounds: How many it shall have; None where that is not known.
        seconds: How long the rounds took so far.
        seconds_left: How long the others will take, going by the newest; None where nobody knows.
        platform: Whose view it is, of a platform's.
        loss: The training loss: the mean of the platforms, and that of each.
        f1: Strict F1 of each platform, from 0 to 1.
        traffic: The bytes of all platforms together: up and down.
        epsilon: What was spent on each platform.
        pace: The seconds of each round.
        references: Strict F1 of each platform's local-only baseline, where it is known.
        marks: The rounds in which platforms were refused or missing.
        platforms: What is known of each.
        incidents: The newest refusals and missing answers, newest first.
        num_incidents: How many there were.
        privacy: Its differential privacy; None without.
        is_noised: Whether the scores by round bear noise.
        verdict: What a finished run came to, in sentences.
        notes: Why a chart is empty, by its name, and what else a reader should know.
    """

    title: str
    run: str
    view: View
    standing: Standing
    round: int = 0
    rounds: int | None = None
    seconds: float = 0.0
    seconds_left: float | None = None
    platform: str = ""
    loss: tuple[Curve, ...] = ()
    f1: tuple[Curve, ...] = ()
    traffic: tuple[Curve, ...] = ()
    epsilon: tuple[Curve, ...] = ()
    pace: tuple[Curve, ...] = ()
    references: Mapping[str, float] = field(default_factory=dict)
    marks: tuple[Marks, ...] = ()
    platforms: tuple[PlatformView, ...] = ()
    incidents: tuple[Incident, ...] = ()
    num_incidents: int = 0
    privacy: PrivacyView | None = None
    is_noised: bool = False
    verdict: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
