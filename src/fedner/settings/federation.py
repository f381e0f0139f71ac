"""federation.toml: a study and the settings of all its platforms in one file, for simulations."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from fedner.errors import FednerError
from fedner.settings.platform import OwnEmbeddings, PlatformSettings
from fedner.settings.problems import nearest
from fedner.settings.sections import (
    HASHED,
    NO_CONTEXT,
    AlgorithmSettings,
    EmbeddingSettings,
    EngineSettings,
    LocalOptimizerSettings,
    ModelSettings,
    ParticipationSettings,
    PartitionSettings,
    Positive,
    PrivacySettings,
    ReleaseSettings,
    Section,
    TagScheme,
    TrainingSettings,
    TransportSettings,
    Types,
)
from fedner.settings.study import (
    NamedEncoder,
    NamedModel,
    NamedVectors,
    Seed,
    Study,
    StudyEmbeddings,
    StudyModel,
    StudyPlatform,
)

# The sections that a federation file and a study have in common.
SHARED_SECTIONS = (
    "title",
    "seed",
    "types",
    "partition",
    "algorithm",
    "local_optimizer",
    "privacy",
    "training",
    "participation",
    "release",
    "transport",
)
# What everybody knows of an embedding; `embeddings` without its paths.
EMBEDDING_FACTS = ("dimension", "buckets", "lowercase", "unknown", "trainable")


class FederationModel(ModelSettings):
    """Which tagger, and what its shared weights begin with.

    `initial` is the folder of a released model, or of a finished run; None begins from scratch.
    """

    initial: str | None = None

    def __repr__(self) -> str:
        return f"FederationModel({self.recipe!r})"

    __str__ = __repr__


class PlatformEntry(PlatformSettings):
    """One platform of a federation file: both its halves, its own settings and what all may know.

    `labels` are the types that it annotates, after `label_map`; named here, everybody may know
    them. `tag_scheme` is the scheme of the tags that its tagger learns, by default that of the
    model. `public_size` is what weights and batch sizes come from. `embeddings` and `device` are
    by default those of the file.
    """

    labels: tuple[str, ...] | None = None
    tag_scheme: TagScheme | None = None
    public_size: Positive | None = None

    @property
    def declares_types(self) -> bool:
        """Whether the names of its entity types are public: in this file, or built in."""
        return self.labels is not None or self.synthetic is not None


class Settings(Section):
    """Everything that `fedner train` needs to know to simulate a federation on one machine."""

    title: str = "federation"
    seed: Seed = 1
    types: Types = Field(default_factory=dict)
    model: FederationModel = Field(default_factory=FederationModel)
    embeddings: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    partition: PartitionSettings = Field(default_factory=PartitionSettings)
    algorithm: AlgorithmSettings = Field(default_factory=AlgorithmSettings)
    local_optimizer: LocalOptimizerSettings = Field(default_factory=LocalOptimizerSettings)
    privacy: PrivacySettings = Field(default_factory=PrivacySettings)
    training: TrainingSettings
    participation: ParticipationSettings = Field(default_factory=ParticipationSettings)
    release: ReleaseSettings = Field(default_factory=ReleaseSettings)
    transport: TransportSettings = Field(default_factory=TransportSettings)
    engine: EngineSettings = Field(default_factory=EngineSettings)
    platforms: tuple[PlatformEntry, ...]

    @field_validator("platforms")
    @classmethod
    def _has_a_platform(cls, value: tuple[PlatformEntry, ...]) -> tuple[PlatformEntry, ...]:
        if not value:
            raise PydanticCustomError("platforms", "at least one platform")
        return value

    def __repr__(self) -> str:
        return f"Settings({self.title!r}, platforms={len(self.platforms)})"

    __str__ = __repr__

    @property
    def is_deployed(self) -> bool:
        """Whether the run protects real units: differential privacy that is no simulation."""
        return self.privacy.enabled and not self.privacy.simulation

    @property
    def is_synthetic(self) -> bool:
        """Whether every platform is a built-in one."""
        return all(platform.synthetic is not None for platform in self.platforms)

    def platform(self, name: str) -> PlatformEntry:
        """Return the settings of a platform.

        Raises:
            FednerError: There is none of that name.
        """
        for platform in self.platforms:
            if platform.name == name:
                return platform
        names = [platform.name for platform in self.platforms]
        raise FednerError(f"no platform {name!r}", nearest(name, names))


class Origin(Protocol):
    """What an embedding says of itself (`models.embeddings.origin.EmbeddingOrigin`)."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def sha256(self) -> str:
        """The digest of its source."""

    @property
    def dimension(self) -> int:
        """How many numbers a word gets."""

    @property
    def layers(self) -> int:
        """How many layers stand side by side in them."""


def study_of(
    federation: Settings,
    public_sizes: Mapping[str, int],
    words: Origin | None = None,
    context: Origin | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    initial: NamedModel | None = None,
) -> Study:
    """Return the public half of a federation file.

    Args:
        federation: The whole file.
        public_sizes: The size of every platform; a declared one goes before it.
        words: The word vectors that the file names by their path; ignored where words are hashed.
        context: The encoder that it names by its path; ignored where there is none.
        labels: Types that are public although the file does not declare them: those of built-in
            platforms.
        initial: The model that the file begins with, by name and digest; ignored where it begins
            from scratch.

    Raises:
        FednerError: An embedding, the initial model or a size is missing.
    """
    built_in = labels or {}
    return Study(
        **_training_without_pooling({key: getattr(federation, key) for key in SHARED_SECTIONS}),
        model=_study_model(federation.model, initial),
        embeddings=_study_embeddings(federation.embeddings, words, context),
        platforms=tuple(
            _study_platform(each, public_sizes, built_in.get(each.name))
            for each in federation.platforms
        ),
    )


def _training_without_pooling(sections: dict[str, Any]) -> dict[str, Any]:
    """Return the sections without the centralized baseline, which only a simulation can train."""
    training: TrainingSettings = sections["training"]
    kept = tuple(each for each in training.baselines if each != "centralized")
    return {**sections, "training": training.model_copy(update={"baselines": kept})}


def _study_model(held: FederationModel, initial: NamedModel | None) -> StudyModel:
    if held.initial is not None and initial is None:
        raise FednerError(
            "model.initial names a folder, and a study needs its digest", "Open it first."
        )
    return StudyModel(**_sizes(held), initial=None if held.initial is None else initial)


def _sizes(model: ModelSettings) -> dict[str, Any]:
    """Return what a model is composed of, without what it begins with."""
    return {key: getattr(model, key) for key in ModelSettings.model_fields}


def _study_embeddings(
    held: EmbeddingSettings, words: Origin | None, context: Origin | None
) -> StudyEmbeddings:
    vectors = encoder = None
    if held.words != HASHED:
        found = _known(words, "embeddings.words")
        vectors = NamedVectors(name=found.name, digest=found.sha256, dimension=found.dimension)
    if held.context != NO_CONTEXT:
        found = _known(context, "embeddings.context")
        encoder = NamedEncoder(
            name=found.name, digest=found.sha256, dimension=found.dimension, layers=found.layers
        )
    facts = {key: getattr(held, key) for key in EMBEDDING_FACTS}
    return StudyEmbeddings(words=vectors, context=encoder, **facts)


def _known(origin: Origin | None, key: str) -> Origin:
    if origin is None:
        raise FednerError(f"{key} names a file, and a study needs its digest", "Open it first.")
    return origin


def _study_platform(
    entry: PlatformEntry, sizes: Mapping[str, int], labels: Sequence[str] | None
) -> StudyPlatform:
    size = entry.public_size or sizes.get(entry.name)
    if size is None:
        raise FednerError(
            f"platform {entry.name} has no public size, and a study needs one",
            "Declare public_size: a rounded number of its training sentences or units.",
        )
    declared = None if labels is None else tuple(sorted(labels))
    return StudyPlatform(
        name=entry.name,
        public_size=size,
        labels=declared if entry.labels is None else entry.labels,
        tag_scheme=entry.tag_scheme,
    )


def platform_settings_of(federation: Settings, name: str) -> PlatformSettings:
    """Return the private half of a platform: its own settings, with the file's paths and device.

    Raises:
        FednerError: There is no such platform.
    """
    entry, held = federation.platform(name), federation.embeddings
    own = entry.embeddings
    embeddings = OwnEmbeddings(
        words=own.words or (None if held.words == HASHED else held.words),
        context=own.context or (None if held.context == NO_CONTEXT else held.context),
        cache=own.cache or held.cache,
    )
    kept = {key: getattr(entry, key) for key in PlatformSettings.model_fields}
    engine = federation.engine
    changed = {
        "embeddings": embeddings,
        "device": entry.device or engine.device,
        "recorded_graphs": entry.recorded_graphs or engine.recorded_graphs,
    }
    return PlatformSettings(**{**kept, **changed})


def federation_of(
    study: Study,
    platforms: Sequence[PlatformSettings],
    engine: EngineSettings | None = None,
    initial: str | None = None,
) -> Settings:
    """Return one federation of a study and the settings of all its platforms, for a simulation.

    Args:
        study: The public half.
        platforms: The private half of each of its platforms, in any order.
        engine: Where they compute; by default on the device that all of them name, or the CPU.
        initial: Where the model lies that the study begins with; by default its name stands in.

    Raises:
        FednerError: A platform of the study is missing, or one is not in it or there twice.
    """
    own = _own_by_name(study, platforms)
    entries = tuple(platform_entry(each, own[each.name]) for each in study.platforms)
    devices = {platform.device or "cpu" for platform in platforms}
    chosen = engine or EngineSettings(device=devices.pop() if len(devices) == 1 else "cpu")
    return joined(study, entries, own[study.platforms[0].name].embeddings, chosen, initial)


def joined(
    study: Study,
    entries: tuple[PlatformEntry, ...],
    paths: OwnEmbeddings,
    engine: EngineSettings | None = None,
    initial: str | None = None,
) -> Settings:
    """Return the federation of a study whose platforms have both their halves.

    Args:
        study: The public half.
        entries: Its platforms, with both halves (`platform_entry`).
        paths: Where the embeddings lie.
        engine: Where platforms compute.
        initial: Where the model lies that the study begins with; by default its name stands in.

    Raises:
        FednerError: The study names an embedding, and there is no path of it.
    """
    named, first = study.embeddings, study.model.initial
    path = None if first is None else initial or first.name
    return Settings(
        **{key: getattr(study, key) for key in SHARED_SECTIONS},
        model=FederationModel(**_sizes(study.model), initial=path),
        embeddings=EmbeddingSettings(
            words=HASHED if named.words is None else _path(paths.words, "words"),
            context=NO_CONTEXT if named.context is None else _path(paths.context, "context"),
            cache=paths.cache,
            **{key: getattr(named, key) for key in EMBEDDING_FACTS},
        ),
        engine=engine or EngineSettings(),
        platforms=entries,
    )


def _own_by_name(
    study: Study, platforms: Sequence[PlatformSettings]
) -> dict[str, PlatformSettings]:
    names = sorted(platform.name for platform in platforms)
    if names != study.names:
        raise FednerError(
            f"found settings of {', '.join(names) or 'no platform'}; expected one each of "
            f"{', '.join(study.names)}, as the study names them",
            "Give one --platform FILE for every platform of the study.",
        )
    return {platform.name: platform for platform in platforms}


def _path(path: str | None, key: str) -> str:
    if path is None:
        raise FednerError(
            f"the study names {key} by digest, and no platform says where they are",
            f'Add to each platform.toml: [embeddings] {key} = "PATH".',
        )
    return path


def platform_entry(public: StudyPlatform, own: PlatformSettings) -> PlatformEntry:
    """Return both halves of a platform as one entry of a federation file."""
    held = {key: getattr(own, key) for key in PlatformSettings.model_fields}
    return PlatformEntry(**held | {key: getattr(public, key) for key in StudyPlatform.model_fields})
