"""The sections of a configuration: shapes, types and ranges; nothing here knows other rooms."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from fedner.errors import FednerError
from fedner.settings.problems import nearest

HASHED = "hashed"
NO_CONTEXT = "none"
HUB = "hub:"
SYNTHETIC = "synthetic:"
RECIPES_OWN = "recipe"

Baseline = Literal["local-only", "centralized"]
Device = Literal["cpu", "cuda", "auto"]
Unannotated = Literal["outside", "marginal"]
TunedOn = Literal["nothing", "public", "charged", "protected"]

# A platform has a folder of its own, named after it.
PlatformName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_]([A-Za-z0-9_. -]{0,62}[A-Za-z0-9_-])?$")
]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Section(BaseModel):
    """What every part of the configuration has in common."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class AdapterSettings(Section):
    """Low-rank adapters: the encoder itself stays frozen at home, and only they travel."""

    rank: Positive = 8
    alpha: Rate = 16.0
    targets: tuple[str, ...] = ("query", "value")


class ModelSettings(Section):
    """Which tagger: a recipe of the zoo; what is left out is the recipe's own."""

    recipe: str = "CNN-CLSTM-CRF"
    decoder: Literal["crf", "softmax"] | None = None
    hidden: Positive | None = None
    filters: Positive | None = None
    character_filters: Positive | None = None
    character_dimension: Positive | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    adapter: AdapterSettings | None = None
    scheme: Literal["IO", "IOB1", "BIO", "BIOES", "BILOU"] = "BIO"


class EmbeddingSettings(Section):
    """What a word becomes before the encoder sees it.

    `words` is "hashed" or the path of word vectors, `context` is "none" or the path of an encoder:
    Flair weights, or the folder of an ELMo or a Hugging Face model ("hub:NAME" downloads one). It
    is frozen, unless the recipe trains it. `cache` holds context features, readable by the owner
    alone.
    """

    words: str = HASHED
    dimension: Positive = 100
    buckets: Positive = 50_000
    lowercase: Literal["never", "fallback", "always"] | None = None
    unknown: Literal["zero", "mean", "hash-bucket"] = "mean"
    trained: bool = False
    context: str = NO_CONTEXT
    cache: str | None = None


class PartitionSettings(Section):
    """What is shared: "recipe" for the recipe's own partition, a named one, or dotted prefixes.

    `unannotated` is read only where the tags themselves are shared: a type that a platform does not
    annotate counts as "O", or is marginalised out of the CRF.
    """

    shared: str | tuple[str, ...] = RECIPES_OWN
    unannotated: Unannotated = "outside"

    @field_validator("shared", mode="before")
    @classmethod
    def _is_preset_or_prefixes(cls, value: object) -> object:
        if isinstance(value, str):
            return value
        if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
            return tuple(value)
        raise PydanticCustomError("preset", "the name of a preset or a list of dotted module names")


class AlgorithmSettings(BaseModel):
    """An algorithm by name; every other key is one of its own parameters (`runs.checks`)."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str = "fedner"

    @property
    def parameters(self) -> dict[str, Any]:
        """What the file says beyond the name."""
        return dict(self.model_extra or {})


class LocalOptimizerSettings(Section):
    """How each platform steps its private weights.

    `max_grad_norm` bounds the norm of a step's whole gradient, shared and private together; 0 for
    no bound. Schedule "linear" is linear decay to 0 at the end of the run, after a warm-up over a
    share of it, `warmup_ratio`. `encoder_learning_rate` is that of a trained encoder wherever a
    platform steps it itself: in baselines, in local fine-tuning, or where it is private.
    """

    name: Literal["adam", "sgd"] = "adam"
    learning_rate: Rate = 1e-3
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: Annotated[float, Field(ge=0)] = 5.0
    schedule: Literal["constant", "linear"] = "constant"
    warmup_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.0
    encoder_learning_rate: Rate | None = None

    @model_validator(mode="after")
    def _warms_up_to_fall(self) -> "LocalOptimizerSettings":
        if self.warmup_ratio and self.schedule != "linear":
            raise PydanticCustomError("warmup", "a warm-up only with schedule = 'linear'")
        return self


class NoisedScoreSettings(Section):
    """Scores by round under differential privacy: after every so many rounds and after the last.

    `max_norm` bounds the norm of a unit's counts (right, wrong and missed entities). Each release
    is charged to the platform's budget.
    """

    every: Positive
    noise_multiplier: Rate = 20.0
    max_norm: Rate = 5.0


class PrivacySettings(Section):
    """Differential privacy of what each platform transmits.

    Either `noise_multiplier` (0 clips without noise, in a simulation), or `epsilon` as a target for
    which it is computed. `max_grad_norm` bounds each unit. Unit and `delta` must be those that the
    platforms' ledgers grant: a file asks, the owner of a ledger decides. `budget` is that of a
    simulation's own ledgers; a deployed run has none. `training.batch_size` counts units here, and
    so does `public_size`. A `simulation` draws sample and noise from a seed: for experiments, it
    protects nobody. `tuned_on` says by which data the settings of this file were chosen; a deployed
    run must say so. `uncharged` declares uses of protected data that epsilon does not cover, such
    as tuning on them. `scores` lets noised scores be disclosed.
    """

    enabled: bool = False
    where: Literal["local", "central"] = "local"
    unit: Literal["sentence", "document", "patient", "platform"] = "sentence"
    max_grad_norm: Rate = 1.0
    noise_multiplier: Annotated[float, Field(ge=0)] | None = None
    epsilon: Rate | None = None
    delta: Share = 1e-5
    accountant: Literal["pld", "rdp"] = "pld"
    budget: Rate | None = None
    private_part: Literal["joint", "frozen", "clear"] = "joint"
    private_epochs: Positive = 15
    loss: Literal["sum", "mean"] = "sum"
    max_sentences: Positive | None = None
    simulation: bool = False
    noise_seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    tuned_on: TunedOn | None = None
    uncharged: tuple[str, ...] = ()
    scores: NoisedScoreSettings | None = None

    @model_validator(mode="after")
    def _has_one_strength(self) -> "PrivacySettings":
        if self.enabled and (self.noise_multiplier is None) == (self.epsilon is None):
            raise PydanticCustomError("strength", "exactly one of noise_multiplier and epsilon")
        return self


class TrainingSettings(Section):
    """How long, in which batches, and what is noted on the way.

    `evaluate_every` and `checkpoint_every` count rounds; 0 is never, None once in an epoch.
    `slice` cuts every platform's data into disjoint slices of that share, entered one after the
    other every `rounds_per_slice` rounds (the incremental schedule of 2021). `finetune_epochs` lets
    each platform fine-tune its own tagger after the last round; nothing is transmitted then.
    `ema_decay` is the decay of an exponential moving average (EMA) of the weights, which is scored
    and kept in their place.
    """

    rounds: Positive | None = None
    epochs: Positive | None = None
    batch_size: Positive = 64
    evaluate_every: Annotated[int, Field(ge=0)] | None = None
    checkpoint_every: Annotated[int, Field(ge=0)] | None = None
    baselines: tuple[Baseline, ...] = ()
    baseline_epochs: Positive = 60
    patience: Positive = 5
    slice: Annotated[float, Field(gt=0, le=1)] | None = None
    rounds_per_slice: Positive = 1
    finetune_epochs: Annotated[int, Field(ge=0)] = 0
    ema_decay: Share | None = None

    @model_validator(mode="after")
    def _has_one_length(self) -> "TrainingSettings":
        if (self.rounds is None) == (self.epochs is None):
            raise PydanticCustomError("length", "exactly one of rounds and epochs")
        return self


class ParticipationSettings(Section):
    """Who is asked in a round, how many must answer, and which updates are refused."""

    sample: Positive | None = None
    quorum: Positive | None = None
    aggregation: Literal["mean", "median", "median-norm"] = "mean"
    norm_factor: Annotated[float, Field(gt=1)] | None = 100.0
    norm_bound: Rate | None = None
    on_refusal: Literal["continue", "stop"] = "continue"


class EngineSettings(Section):
    """Where platforms compute; 0 workers is this very process.

    On a GPU workers train the baselines side by side; rounds are taken in this process.
    """

    workers: Annotated[int, Field(ge=0, le=1024)] = 0
    device: Device = "cpu"
    spill: bool = False


class SplitSettings(Section):
    """Which part is tested on: a share drawn with a seed, or a file of its own.

    `keep` trains on a part of the training data only: for studies of how much data it takes. In a
    deployed run under differential privacy the key of the platform's ledger draws both.
    """

    by: Literal["sentence", "document", "patient"] = "sentence"
    test: Share | None = None
    test_data: str | None = None
    seed: int | None = None
    keep: Annotated[float, Field(gt=0, le=1)] = 1.0

    @model_validator(mode="after")
    def _has_one_test_part(self) -> "SplitSettings":
        if self.test is not None and self.test_data is not None:
            raise PydanticCustomError("test", "at most one of test and test_data")
        return self


class PatientSettings(Section):
    """Where the patients of documents come from: a table, a column, or the names of the files.

    `file` is a table (.csv, .tsv) with the columns document and patient; `column` is a column, key
    or infon of the data; `pattern` is a regular expression for the name of the file with a group
    (?P<patient>...).
    """

    file: str | None = None
    column: str | int | None = None
    pattern: str | None = None

    @model_validator(mode="after")
    def _has_one_source(self) -> "PatientSettings":
        if sum(each is not None for each in (self.file, self.column, self.pattern)) != 1:
            raise PydanticCustomError("patients", "exactly one of file, column and pattern")
        return self


class PlatformSettings(Section):
    """One platform: where its data are and how they are read.

    `data` is a path, or "synthetic:NAME" for a built-in platform of `num_sentences`. `labels` are
    the types that it annotates, after `label_map`, which renames types or, with an empty string,
    leaves them out. `shard = "2/5"` takes the second of five equal shards of the data, drawn by the
    seed: one corpus among platforms that do not exist, for simulations; an own test file stays
    whole. `options` are those of the format itself, which its reader declares (`fedner data
    formats`). `encoding` is that of text files, UTF-8 by default; `patients` says whose text each
    document is where the format does not. `public_size` is what weights and batch sizes come from.
    `ledger` is the folder of the platform's privacy ledger, one for all runs, which its owner
    opened (`fedner privacy open`); a simulation makes its own in the run folder.
    """

    name: PlatformName
    data: str
    num_sentences: Positive = 500
    shard: (
        Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,3}/[1-9][0-9]{0,3}$")] | None
    ) = None
    format: str = "auto"
    lenient: bool = False
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)
    encoding: str | None = None
    patients: PatientSettings | None = None
    labels: tuple[str, ...] | None = None
    label_map: dict[str, str] = Field(default_factory=dict)
    sentences: Literal["given", "line", "rule"] | None = None
    flatten: Literal["longest", "first-fragment", "contiguous"] = "longest"
    max_tokens: Positive | None = None
    split: SplitSettings = Field(default_factory=SplitSettings)
    public_size: Positive | None = None
    ledger: str | None = None

    @field_validator("shard")
    @classmethod
    def _is_a_shard_of_the_whole(cls, value: str | None) -> str | None:
        if value is not None and int(value.partition("/")[0]) > int(value.partition("/")[2]):
            raise PydanticCustomError("shard", "a shard of at most the whole, such as 2/5")
        return value

    @property
    def declares_types(self) -> bool:
        """Whether the names of its entity types are public: in this file, or built in."""
        return self.labels is not None or self.synthetic is not None

    @property
    def synthetic(self) -> str | None:
        """The built-in platform that is meant, or None."""
        return self.data.removeprefix(SYNTHETIC) if self.data.startswith(SYNTHETIC) else None


class Settings(Section):
    """Everything that `fedner train` needs to know."""

    title: str = "federation"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    model: ModelSettings = Field(default_factory=ModelSettings)
    embeddings: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    partition: PartitionSettings = Field(default_factory=PartitionSettings)
    algorithm: AlgorithmSettings = Field(default_factory=AlgorithmSettings)
    local_optimizer: LocalOptimizerSettings = Field(default_factory=LocalOptimizerSettings)
    privacy: PrivacySettings = Field(default_factory=PrivacySettings)
    training: TrainingSettings
    participation: ParticipationSettings = Field(default_factory=ParticipationSettings)
    engine: EngineSettings = Field(default_factory=EngineSettings)
    platforms: tuple[PlatformSettings, ...]

    @field_validator("platforms")
    @classmethod
    def _has_a_platform(cls, value: tuple[PlatformSettings, ...]) -> tuple[PlatformSettings, ...]:
        if not value:
            raise PydanticCustomError("platforms", "at least one platform")
        return value

    @property
    def is_deployed(self) -> bool:
        """Whether the run protects real units: differential privacy that is no simulation."""
        return self.privacy.enabled and not self.privacy.simulation

    @property
    def is_synthetic(self) -> bool:
        """Whether every platform is a built-in one."""
        return all(platform.synthetic is not None for platform in self.platforms)

    def platform(self, name: str) -> PlatformSettings:
        """Return the settings of a platform.

        Raises:
            FednerError: There is none of that name.
        """
        for platform in self.platforms:
            if platform.name == name:
                return platform
        names = [platform.name for platform in self.platforms]
        raise FednerError(f"no platform {name!r}", nearest(name, names))
