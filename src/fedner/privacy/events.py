"""What was released about the protected data: the records that the accountant reads.

A platform's events compose in sequence, except on disjoint slices of its data: a unit lies in one
slice of a slicing, so over the slices of one slicing the worst counts, not the sum (parallel
composition, McSherry 2009). Events without a slice touch every unit and add to each of them.

That a unit lies in one slice must hold *in every neighbouring data set too*: the slice of a unit
may depend on the unit alone (`sampling.slice_of`), not on how many others there are. If removing a
unit moves others across a border, slices do not compose in parallel.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from fedner.errors import FednerError
from fedner.privacy.discrete_bound import MOST_SLACK, DiscreteNoise

Unit = Literal["sentence", "document", "patient", "platform"]
Adjacency = Literal["add_or_remove_one", "replace_one"]
Purpose = Literal["training", "tuning", "statistics"]


@dataclass(frozen=True, slots=True)
class Slice:
    """A disjoint part of a platform's units.

    Attributes:
        slicing: The name of the way of cutting; slices of one slicing are disjoint by unit.
        name: The name of the slice within it.
    """

    slicing: str
    name: str


@dataclass(frozen=True, slots=True)
class GaussianRelease:
    """Steps of the (Poisson-subsampled) Gaussian mechanism over one platform's units.

    Attributes:
        noise_multiplier: Standard deviation of the noise over the clipping bound.
        sampling_probability: How likely each unit took part in each step, independently of the
            others; 1 is the full batch.
        unit: Whose presence is protected.
        max_norm: The bound on a unit's contribution.
        public_units: The declared number of units n_i; a public fact, which may be rounded.
        steps: How many such steps were executed.
        adjacency: Which data sets count as neighbours. `replace_one` is for strict local
            differential privacy of a whole update: exchanging the platform's data moves the clipped
            update by up to twice the bound.
        purpose: What it was for; tuning on protected data is charged like training.
        slice: The disjoint part that it touched; None for all units.
        max_sentences: How many sentences of a unit take part in a step at most; None for all.
        is_simulation: Whether noise or sample came from a seed.
        discrete: Where the noise was discrete and made by several platforms together: its facts.
            The multiplier is then that of a Gaussian which costs no less (`discrete_bound`).
    """

    noise_multiplier: float
    sampling_probability: float
    unit: Unit
    max_norm: float
    public_units: int
    steps: int = 1
    adjacency: Adjacency = "add_or_remove_one"
    purpose: Purpose = "training"
    slice: Slice | None = None
    max_sentences: int | None = None
    is_simulation: bool = False
    discrete: DiscreteNoise | None = None

    def __post_init__(self) -> None:
        problems = [text for ok, text in self._rules() if not ok]
        if problems:
            raise FednerError(
                "A release cannot be recorded: " + "; ".join(problems) + ".",
                "Build the event from the settings that the step was run with.",
            )

    def _rules(self) -> list[tuple[bool, str]]:
        number, probability, bound = self.noise_multiplier, self.sampling_probability, self.max_norm
        whole = self.sampling_probability == 1
        most = self.max_sentences
        return [
            (math.isfinite(number) and number >= 0, f"noise multiplier {number}, expected >= 0"),
            (0 < probability <= 1, f"sampling probability {probability}, expected in (0, 1]"),
            (math.isfinite(bound) and bound > 0, f"max_norm {bound}, expected > 0"),
            (self.public_units >= 1, f"public size {self.public_units}, expected >= 1"),
            (self.steps >= 1, f"{self.steps} steps, expected >= 1"),
            (self.unit in get_args(Unit), f"unit {self.unit!r:.40}, expected {get_args(Unit)}"),
            (
                self.adjacency in get_args(Adjacency),
                f"adjacency {self.adjacency!r:.40}, expected {get_args(Adjacency)}",
            ),
            (
                self.purpose in get_args(Purpose),
                f"purpose {self.purpose!r:.40}, expected {get_args(Purpose)}",
            ),
            (most is None or most >= 1, f"at most {most} sentences of a unit, expected >= 1"),
            (
                self.adjacency == "add_or_remove_one" or whole,
                f"replace_one with sampling probability {probability}, expected 1",
            ),
            *self._discrete_rules(),
        ]

    def _discrete_rules(self) -> list[tuple[bool, str]]:
        made = self.discrete
        if made is None or not self.max_norm > 0:
            return []
        reached = made.multiplier(self.max_norm)
        return [
            (
                reached >= self.noise_multiplier,
                f"discrete noise of multiplier {reached:.6g}, expected {self.noise_multiplier}",
            ),
            (
                made.slack * self.steps <= MOST_SLACK,
                f"{self.steps} steps of discrete noise, too many for its bound",
            ),
        ]

    @property
    def effective_multiplier(self) -> float:
        """Standard deviation of the noise over the sensitivity under this adjacency."""
        return self.noise_multiplier * (0.5 if self.adjacency == "replace_one" else 1.0)


@dataclass(frozen=True, slots=True)
class DeclaredUse:
    """A use of protected data that is not charged, and is therefore declared in every report.

    Attributes:
        description: What was done, such as "learning rate chosen by scores on protected data".
        is_simulation: Whether the run was a simulation.
    """

    description: str
    is_simulation: bool = False


def is_alike(one: GaussianRelease, other: GaussianRelease) -> bool:
    """Whether two releases are of one kind: all that a study fixes is the same, noise apart.

    How much noise a target takes is computed, and another release of the accountant may round it
    otherwise.
    """
    bare = (replace(each, noise_multiplier=0.0, discrete=None) for each in (one, other))
    return next(bare) == next(bare) and (one.discrete is None) == (other.discrete is None)


_DISCRETE = "discrete"
Event = GaussianRelease | DeclaredUse
_KINDS: dict[str, type[GaussianRelease] | type[DeclaredUse]] = {
    "gaussian": GaussianRelease,
    "declared": DeclaredUse,
}


def to_json(event: Event) -> dict[str, Any]:
    """Return the event as plain JSON values; `from_json` reads it back."""
    kind = next(name for name, made in _KINDS.items() if isinstance(event, made))
    stated = asdict(event)
    if stated.get(_DISCRETE, ...) is None:
        del stated[_DISCRETE]  # of most events nothing is said
    return {"kind": kind, **stated}


def from_json(record: Mapping[str, Any]) -> Event:
    """Read an event back, refusing what this version does not know.

    Raises:
        FednerError: If the kind or a field is unknown, missing, or of the wrong type.
    """
    values = dict(record)
    kind = values.pop("kind", None)
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise FednerError(f"An event has the kind {kind!r:.40}; expected one of {sorted(_KINDS)}.")
    known = {field.name for field in fields(made)}
    if set(values) | ({_DISCRETE} & known) != known:
        raise FednerError(
            f"An event of kind {kind!r} has the fields {sorted(map(str, values))[:20]}; expected "
            f"{sorted(known)}.",
            "It was written by another version of fedner: read it with that one.",
        )
    _require_types(values)
    try:
        if values.get("slice") is not None:
            values["slice"] = Slice(**values["slice"])
        if values.get(_DISCRETE) is not None:
            values[_DISCRETE] = _discrete(values[_DISCRETE])
        return made(**values)
    except (TypeError, ValueError, OverflowError) as error:
        raise FednerError(f"An event of kind {kind!r} has a wrong value.") from error


def _discrete(record: Mapping[str, Any]) -> DiscreteNoise:
    """Read the facts of discrete noise back.

    Raises:
        FednerError: If a fact is unknown, missing or of the wrong type.
    """
    expected = {"step": float, "deviation": int, "shares": int, "coordinates": int}
    if {name: type(value) for name, value in record.items()} != expected:
        raise FednerError(f"An event has discrete noise without the facts {sorted(expected)}.")
    return DiscreteNoise(**record)


_TYPES: dict[str, tuple[type, ...]] = {
    "noise_multiplier": (float, int),
    "sampling_probability": (float, int),
    "max_norm": (float, int),
    "public_units": (int,),
    "steps": (int,),
    "unit": (str,),
    "adjacency": (str,),
    "purpose": (str,),
    "max_sentences": (int, type(None)),
    "slice": (dict, type(None)),
    "is_simulation": (bool,),
    _DISCRETE: (dict, type(None)),
    "description": (str,),
}
_LONGEST = 2_000


def _require_types(values: Mapping[str, Any]) -> None:
    """Refuse values that JSON allows and the event does not: `true` as a number, text as a flag."""
    names = values.get("slice")
    inner = list(names.values()) if isinstance(names, dict) else []
    texts = [each for each in (*values.values(), *inner) if type(each) is str]
    if any(type(each) is not str for each in inner) or any(len(each) > _LONGEST for each in texts):
        raise FednerError("An event has a slice whose names are not texts, or too long.")
    for name, value in values.items():
        if type(value) not in _TYPES[name]:
            raise FednerError(
                f"An event has {name} of type {type(value).__name__}; expected "
                f"{_TYPES[name][0].__name__}."
            )
