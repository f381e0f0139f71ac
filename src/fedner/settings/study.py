"""Study: what everyone in a federation knows (study.toml); nothing of a platform's own is in it."""

import hashlib
import json
from typing import Annotated

from pydantic import Field, field_serializer, field_validator
from pydantic_core import PydanticCustomError

from fedner.errors import FednerError
from fedner.settings.problems import nearest
from fedner.settings.sections import (
    HASHED,
    NO_CONTEXT,
    AlgorithmSettings,
    Digest,
    LocalOptimizerSettings,
    Lowercase,
    ModelName,
    ModelSettings,
    ParticipationSettings,
    PartitionSettings,
    PlatformName,
    Positive,
    PrivacySettings,
    ReleaseSettings,
    Section,
    TagScheme,
    TrainingSettings,
    TransportSettings,
    Types,
    Unknown,
)

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class NamedVectors(Section):
    """Word vectors by name and digest; where a platform keeps them is its own business."""

    name: str
    digest: Digest
    dimension: Positive


class NamedEncoder(Section):
    """An encoder by name and digest; `layers` of it stand side by side in a word's numbers."""

    name: str
    digest: Digest
    dimension: Positive
    layers: Positive = 1


class StudyEmbeddings(Section):
    """What a word becomes before the encoder sees it, without a path.

    `words` is None where words are hashed ("hashed" in the file), `context` where there is no
    encoder ("none").
    """

    words: NamedVectors | None = None
    dimension: Positive = 100
    buckets: Positive = 50_000
    lowercase: Lowercase | None = None
    unknown: Unknown = "mean"
    trainable: bool = False
    context: NamedEncoder | None = None

    @field_validator("words", mode="before")
    @classmethod
    def _is_hashed_or_named(cls, value: object) -> object:
        return _named_or_none(value, HASHED)

    @field_validator("context", mode="before")
    @classmethod
    def _is_none_or_named(cls, value: object) -> object:
        return _named_or_none(value, NO_CONTEXT)

    @field_serializer("words")
    def _words_in_file(self, value: NamedVectors | None) -> NamedVectors | str:
        return HASHED if value is None else value

    @field_serializer("context")
    def _context_in_file(self, value: NamedEncoder | None) -> NamedEncoder | str:
        return NO_CONTEXT if value is None else value


def _named_or_none(value: object, absent: str) -> object:
    if value == absent:
        return None
    if isinstance(value, str):
        raise PydanticCustomError(
            "named",
            "'{absent}', or a table with name, digest and dimension (paths stand in platform.toml)",
            {"absent": absent},
        )
    return value


class NamedModel(Section):
    """The model that a federation begins with; only whoever coordinates opens it."""

    name: ModelName
    digest: Digest


class StudyModel(ModelSettings):
    """Which tagger, and what its shared weights begin with: None begins from scratch."""

    initial: NamedModel | None = None

    @field_validator("initial", mode="before")
    @classmethod
    def _is_named(cls, value: object) -> object:
        if isinstance(value, str):
            raise PydanticCustomError(
                "named",
                "a table with name and digest (whoever coordinates says where it lies: --initial)",
            )
        return value


class StudyPlatform(Section):
    """What everyone knows of a platform.

    `public_size` is the declared number of its training sentences, or of its protected units:
    weights and batch sizes come from it. `labels` are the types that it declares; without them
    nobody else learns their names. `tag_scheme` is the scheme of the tags that its tagger learns.
    """

    name: PlatformName
    public_size: Positive
    labels: tuple[str, ...] | None = None
    tag_scheme: TagScheme | None = None


class Study(Section):
    """Everything that the coordinator is built from; every platform checks it before it joins.

    `types` are public entity types with descriptions, for a described head.

    `fedner.study_for` makes one for corpora in memory; `fedner study write` makes study.toml.

    >>> import fedner
    >>> study = fedner.Study(
    ...     training={"rounds": 2},
    ...     platforms=[{"name": "clinic", "public_size": 400, "labels": ["ADE", "Drug"]}],
    ... )
    >>> study
    Study('study', platforms=1)
    >>> study.platform("clinic").labels
    ('ADE', 'Drug')
    """

    title: str = "study"
    seed: Seed = 1
    types: Types = Field(default_factory=dict)
    model: StudyModel = Field(default_factory=StudyModel)
    embeddings: StudyEmbeddings = Field(default_factory=StudyEmbeddings)
    partition: PartitionSettings = Field(default_factory=PartitionSettings)
    algorithm: AlgorithmSettings = Field(default_factory=AlgorithmSettings)
    local_optimizer: LocalOptimizerSettings = Field(default_factory=LocalOptimizerSettings)
    privacy: PrivacySettings = Field(default_factory=PrivacySettings)
    training: TrainingSettings
    participation: ParticipationSettings = Field(default_factory=ParticipationSettings)
    release: ReleaseSettings = Field(default_factory=ReleaseSettings)
    transport: TransportSettings = Field(default_factory=TransportSettings)
    platforms: tuple[StudyPlatform, ...]

    @field_validator("platforms")
    @classmethod
    def _has_a_platform(cls, value: tuple[StudyPlatform, ...]) -> tuple[StudyPlatform, ...]:
        if not value:
            raise PydanticCustomError("platforms", "at least one platform")
        return value

    def __repr__(self) -> str:
        return f"Study({self.title!r}, platforms={len(self.platforms)})"

    __str__ = __repr__

    @property
    def canonical(self) -> str:
        """The study as JSON in one fixed form: keys sorted, defaults written out."""
        return json.dumps(
            self.model_dump(mode="json"),
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
        )

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical JSON, which identifies exactly this study."""
        return hashlib.sha256(self.canonical.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def is_deployed(self) -> bool:
        """Whether the run protects real units: it has differential privacy and is no simulation."""
        return self.privacy.enabled and not self.privacy.simulation

    @property
    def names(self) -> list[str]:
        """The platforms, sorted."""
        return sorted(platform.name for platform in self.platforms)

    @property
    def public_sizes(self) -> dict[str, int]:
        """The declared size of each platform, by name, sorted."""
        sizes = {platform.name: platform.public_size for platform in self.platforms}
        return {name: sizes[name] for name in self.names}

    def platform(self, name: str) -> StudyPlatform:
        """Return what everyone knows of a platform.

        Raises:
            FednerError: There is none of that name.
        """
        for platform in self.platforms:
            if platform.name == name:
                return platform
        raise FednerError(f"the study has no platform {name!r}", nearest(name, self.names))

    def tag_scheme(self, name: str) -> TagScheme:
        """Return the tag scheme of a platform's tagger."""
        return self.platform(name).tag_scheme or self.model.tag_scheme
