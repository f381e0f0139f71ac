"""privacy.json and what a ledger says: epsilon spent, on whom, by what, over how many steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fedner.privacy.budget import Budget
from fedner.privacy.events import Adjacency, Unit
from fedner.runs.records.border import as_json

NoiseBy = Literal["server", "platform", "platforms"]


@dataclass(frozen=True, slots=True)
class StatedSpend:
    """What was spent, as JSON can carry it.

    Attributes:
        rdp: Epsilon by Rényi accounting; None is infinite, that of a release without noise.
        pld: Epsilon by privacy-loss distributions; likewise.
        delta: The delta of both.
        unit: Whose presence is protected; None if nothing was released.
        adjacency: Which data sets count as neighbours; None likewise.
        public_units: The declared sizes that occur, sorted.
        steps: How many noised steps were executed in all.
        simulation: Whether any noise or sample came from a seed.
    """

    rdp: float | None
    pld: float | None
    delta: float
    unit: Unit | None
    adjacency: Adjacency | None
    public_units: tuple[int, ...]
    steps: int
    simulation: bool


@dataclass(frozen=True, slots=True)
class PlatformSpent:
    """What a run spent on one platform.

    Its first fields are those of `StatedSpend`; only `steps` leaves out releases of scores.

    Attributes:
        score_releases: How many noised scores were released.
        score_noise_multiplier: The noise multipliers of these.
        score_max_norm: What a unit's counts were clipped at in these.
        in_all: Epsilon over all runs by the ledger; None without one.
        granted: The epsilon that the owner granted; None without a ledger.
        ledger: The ledger's folder; None without one.
        noise_multiplier: The noise multipliers of the steps.
        max_grad_norm: The clipping norms of the steps.
        sampling_probability: The sampling probabilities of the steps.
        slices: How many slices of the data were released from.
    """

    rdp: float | None
    pld: float | None
    delta: float
    unit: Unit | None
    adjacency: Adjacency | None
    public_units: tuple[int, ...]
    steps: int
    simulation: bool
    score_releases: int
    score_noise_multiplier: tuple[float, ...]
    score_max_norm: tuple[float, ...]
    in_all: float | None
    granted: float | None
    ledger: str | None
    noise_multiplier: tuple[float, ...]
    max_grad_norm: tuple[float, ...]
    sampling_probability: tuple[float, ...]
    slices: int


@dataclass(frozen=True, slots=True)
class PrivacySpent:
    """What a run spent on every platform, and by what.

    Attributes:
        mechanism: The mechanism.
        noise_by: Who adds the noise; "platforms" together a share each.
        unit: Whose presence is protected.
        simulation: Whether the noise had a seed: then nobody is protected.
        delta: The delta of every epsilon.
        target_epsilon: What the noise was calibrated for; None where the settings name it.
        budget: What a simulation may spend at most; None without.
        private_part: How the private part was trained.
        tuned_on: By which data the settings were chosen; None where nobody said.
        uncharged: Declared uses of protected data that epsilon does not cover.
        notes: What a reader should know.
        platforms: What was spent on each platform.
    """

    mechanism: str
    noise_by: NoiseBy
    unit: str
    simulation: bool
    delta: float
    target_epsilon: float | None
    budget: float | None
    private_part: str
    tuned_on: str | None
    uncharged: tuple[str, ...]
    notes: tuple[str, ...]
    platforms: Mapping[str, PlatformSpent]

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a ledger's owner granted, when and as whom."""

    time: str
    who: str | None
    epsilon: float
    delta: float
    public_size: int | None


@dataclass(frozen=True, slots=True)
class LedgerSpent:
    """What a platform's ledger says, over all runs and for each.

    Attributes:
        ledger: Its folder.
        simulation: Whether it is one of simulations.
        budget: What it grants now.
        public_size: The public size of the platform.
        grants: Everything that was ever granted.
        releases: How many releases it holds.
        all: What all runs spent together.
        runs: What each run spent.
    """

    ledger: str
    simulation: bool
    budget: Budget
    public_size: int | None
    grants: tuple[Grant, ...]
    releases: int
    all: StatedSpend
    runs: Mapping[str, StatedSpend]

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)
