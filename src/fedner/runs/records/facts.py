"""facts.json: what is known of a federation and of its platforms' data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedner.runs.annotated_types import TypeRow
from fedner.runs.records.border import as_json


@dataclass(frozen=True, slots=True)
class PlatformFacts:
    """What a run folder keeps of a platform's data.

    Attributes:
        labels: The types of its tagger.
        train: How many sentences train.
        test: How many sentences test.
        mentions: The mentions of each type, both parts together.
        test_digest: Names the test part: texts and gold mentions.
        synthetic: Whether it is a built-in platform.
        changes: What preparing the texts changed, with counts.
        remarks: What reading remarked, with counts.
        types: What became of the mentions of each type.
        warnings: What its owner should know.
    """

    labels: tuple[str, ...]
    train: int
    test: int
    mentions: Mapping[str, int]
    test_digest: str
    synthetic: bool
    changes: Mapping[str, int]
    remarks: Mapping[str, int]
    types: tuple[TypeRow, ...]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)


@dataclass(frozen=True, slots=True)
class InitialFacts:
    """What a run began with, in place of weights that the seed drew.

    Attributes:
        name: What people call the model.
        digest: Names this very model.
        facts: What it says of itself: its run, its privacy, what it began with; None at a
            platform, which gets the weights alone.
        warnings: What the platforms of a run under differential privacy should know of it.
    """

    name: str
    digest: str
    facts: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    def carried(self) -> dict[str, Any]:
        """Return what is handed on with a model that began with this one: no platform's name."""
        return {"name": self.name, "digest": self.digest, "facts": self.facts}

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """What a platform's folder keeps of a run beside its results.

    Attributes:
        title: The title of the run.
        rounds: How many rounds it has.
        public_size: The size that everybody knows.
        shared: The names of the shared weights.
        private: The names of the private weights.
        data: Of its data.
        versions: What it was made with.
        initial: What the run began with; None for a run from scratch.
    """

    title: str
    rounds: int
    public_size: int
    shared: tuple[str, ...]
    private: tuple[str, ...]
    data: PlatformFacts
    versions: Mapping[str, str]
    initial: InitialFacts | None

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of all platforms of a simulation, or of one, side by side.

    Attributes:
        title: The title of the run.
        rounds: How many rounds it has.
        shared: The names of the shared weights.
        private: The names of the private weights.
        versions: What it was made with.
        synthetic: Whether every platform is a built-in one.
        public_sizes: The size that everybody knows, by platform.
        platforms: Of the data of each platform.
        initial: What the run began with; None for a run from scratch.
    """

    title: str
    rounds: int
    shared: tuple[str, ...]
    private: tuple[str, ...]
    versions: Mapping[str, str]
    synthetic: bool
    public_sizes: Mapping[str, int]
    platforms: Mapping[str, PlatformFacts]
    initial: InitialFacts | None

    @classmethod
    def of(cls, sites: Mapping[str, SiteFacts], initial: InitialFacts | None = None) -> "RunFacts":
        """Return the facts of the sites as one record; what all have in common stands once.

        Args:
            sites: The facts of each.
            initial: What the run began with, where more is known of it than sites know.
        """
        first = next(iter(sites.values()))
        return cls(
            title=first.title,
            rounds=first.rounds,
            shared=first.shared,
            private=first.private,
            versions=first.versions,
            synthetic=all(each.data.synthetic for each in sites.values()),
            public_sizes={name: each.public_size for name, each in sites.items()},
            platforms={name: each.data for name, each in sites.items()},
            initial=first.initial if initial is None else initial,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)
