"""The sections of a configuration: shapes, types and ranges; nothing here knows other rooms."""

from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

HASHED = "hashed"
NO_CONTEXT = "none"
HUB = "hub:"
SYNTHETIC = "synthetic:"
RECIPES_OWN = "recipe"

Lowercase = Literal["never", "fallback", "always"]
Unknown = Literal["zero", "mean", "hash-bucket"]
Baseline = Literal["local-only", "centralized"]
Device = Literal["cpu", "cuda", "auto"]
RecordedGraphs = Literal["auto", "off"]
Unannotated = Literal["outside", "marginal"]
TagScheme = Literal["IO", "IOB1", "BIO", "BIOES", "BILOU"]
HeadName = Literal["free", "described"]
MechanismName = Literal[
    "none", "unit-local", "unit-central", "distributed", "platform", "platform-central"
]
Encoding = Literal["float32", "bfloat16", "int8"]
Audience = Literal["participants", "public"]
TunedOn = Literal["nothing", "public", "charged", "protected"]

# A platform has a folder of its own, named after it.
PLATFORM_NAME = r"^[A-Za-z0-9_]([A-Za-z0-9_. -]{0,62}[A-Za-z0-9_-])?$"
PlatformName = Annotated[str, StringConstraints(pattern=PLATFORM_NAME)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]

MAX_TYPE_NAME = 100
MAX_DESCRIPTION = 300
MAX_MODEL_NAME = 200


def _require_described(types: dict[str, str]) -> dict[str, str]:
    """Return types by name with their descriptions: one line each, all problems together."""
    wrong = [f"the name {name!r:.50}" for name in types if not _is_line(name, MAX_TYPE_NAME)]
    wrong += [
        f"the description of {name!r:.50}"
        for name, description in types.items()
        if not _is_line(description, MAX_DESCRIPTION)
    ]
    if wrong:
        raise PydanticCustomError(
            "types",
            "names of 1 to {name} characters, and descriptions of 1 to {description} in one line "
            "that begins and ends without a blank and has no control character; wrong: {wrong}",
            {"name": MAX_TYPE_NAME, "description": MAX_DESCRIPTION, "wrong": ", ".join(wrong)},
        )
    return types


def _is_line(text: str, most: int) -> bool:
    return 0 < len(text) <= most and text.isprintable() and text.strip() == text


def _require_line(name: str) -> str:
    if not _is_line(name, MAX_MODEL_NAME):
        raise PydanticCustomError(
            "line",
            "1 to {most} printable characters in one line, without a blank at either end",
            {"most": MAX_MODEL_NAME},
        )
    return name


# What people call a model.
ModelName = Annotated[str, AfterValidator(_require_line)]
# Entity types by name, each with a description of one line.
Types = Annotated[dict[str, str], AfterValidator(_require_described)]


class Section(BaseModel):
    """What every part of the configuration has in common."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class OwnSection(Section):
    """A part that is a platform's own, as where its files lie: nothing of it is printed."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    __str__ = __repr__


class AdapterSettings(Section):
    """Low-rank adapters: the encoder itself stays frozen at home, and only they travel."""

    rank: Positive = 8
    alpha: Rate = 16.0
    targets: tuple[str, ...] = ("query", "value")


class ModelSettings(Section):
    """Which tagger: a recipe of the zoo; what is left out is the recipe's own.

    `head` "described" scores entity types by their descriptions ([types]), so that platforms with
    different types can share it; "free" has weights for each tag. `rank` is the size of the space
    where words and descriptions meet; with `residual` each platform adds a private free head.
    """

    recipe: str = "CNN-CLSTM-CRF"
    decoder: Literal["crf", "softmax"] | None = None
    hidden: Positive | None = None
    filters: Positive | None = None
    character_filters: Positive | None = None
    character_dimension: Positive | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    adapter: AdapterSettings | None = None
    head: HeadName | None = None
    rank: Positive | None = None
    residual: bool | None = None
    tag_scheme: TagScheme = "BIO"


class EmbeddingSettings(OwnSection):
    """What a word becomes before the encoder sees it.

    `words` is "hashed" or the path of word vectors, `context` is "none" or the path of an encoder:
    Flair weights, or the folder of an ELMo or a Hugging Face model ("hub:NAME" downloads one). It
    is frozen, unless the recipe trains it. `cache` holds context features, readable by the owner
    alone.
    """

    words: str = HASHED
    dimension: Positive = 100
    buckets: Positive = 50_000
    lowercase: Lowercase | None = None
    unknown: Unknown = "mean"
    trainable: bool = False
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

    `mechanism` says what is clipped and noised, and by whom (`privacy.mechanisms`): "unit-local"
    (units, noise of each platform), "unit-central" (units, noise of a trusted server),
    "distributed" (units, noise that all platforms add together under a secure sum), "platform" (the
    whole update, noise of each platform), "platform-central" (the whole update, noise of a trusted
    server). "none", for comparisons, is what a file without this table means. `unit` is
    what is protected where units are.

    Either `noise_multiplier` (0 clips without noise, in a simulation), or `epsilon` as a target for
    which it is computed. `max_grad_norm` bounds each unit. Unit and `delta` must be those that the
    platforms' ledgers grant: a file asks, the owner of a ledger decides. `budget` is that of a
    simulation's own ledgers; a deployed run has none. `training.batch_size` counts units here, and
    so does `public_size`. A `simulation` draws sample and noise from a seed: for experiments, it
    protects nobody. `tuned_on` says by which data the settings of this file were chosen; a deployed
    run must say so. `uncharged` declares uses of protected data that epsilon does not cover, such
    as tuning on them. `scores` lets noised scores be disclosed.
    """

    mechanism: MechanismName = "none"
    unit: Literal["sentence", "document", "patient"] = "sentence"
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

    @property
    def enabled(self) -> bool:
        """Whether there is differential privacy at all."""
        return self.mechanism != "none"

    @model_validator(mode="after")
    def _names_its_mechanism(self) -> "PrivacySettings":
        if self.model_fields_set and "mechanism" not in self.model_fields_set:
            known = ", ".join(get_args(MechanismName))
            raise PydanticCustomError(
                "mechanism", "a key mechanism, one of {known}", {"known": known}
            )
        return self

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
    """Who is asked in a round, how many must answer in what time, and which updates are refused.

    `timeout` is how many seconds all replies to an order may take: who has not answered then is
    missing, and the quorum decides. What platforms do by themselves after the last round takes as
    long as it takes. Where `norm_factor` is left out it is 100, or nothing where the server sees no
    single update that has its noise (`runs.study_defaults`).
    """

    sample: Positive | None = None
    quorum: Positive | None = None
    timeout: Rate | None = None
    aggregation: Literal["mean", "median", "median-norm"] = "mean"
    norm_factor: Annotated[float, Field(gt=1)] | None = None
    norm_bound: Rate | None = None
    on_refusal: Literal["continue", "stop"] = "continue"


class ReleaseSettings(Section):
    """Who gets the trained model: those who took part, or anybody (`to = "public"`).

    `newcomers` are platforms that get it although they took no part. Every platform's policy must
    allow it.
    """

    to: Audience = "participants"
    newcomers: tuple[PlatformName, ...] = ()


class TransportSettings(Section):
    """How numbers cross between platforms and server.

    `encoding` makes them smaller for slow links: updates in "bfloat16" or "int8", what rounding
    left over is added to the next update of the platform, and the weights of a round come in
    bfloat16. The server's own weights stay float32.

    With `secure_sum` updates are masked: the server opens the sum of all, and sees no single one.
    `colluding` platforms, 1 where it is left out, may then work together with the server without
    learning more.

    With `encryption = "ckks"` updates are encrypted with a key that the platforms alone have: the
    server adds them up and sees neither updates nor sums nor weights. A platform that works
    together with it reads all of them.
    """

    encoding: Encoding = "float32"
    secure_sum: bool = False
    encryption: Literal["ckks"] | None = None
    colluding: Annotated[int, Field(ge=0, le=1000)] | None = None


class EngineSettings(Section):
    """Where platforms compute; with 0 workers all compute in this process.

    On a GPU workers train the baselines in parallel; rounds are run in this process. `spill`
    holds one platform of each process in memory and the others on disk. `as_bytes` sends orders and
    replies through their byte form even within one process, as on a network.
    On a GPU the steps of rounds are recorded and replayed (`recorded_graphs`) if the tagger
    allows it.

    >>> import fedner
    >>> fedner.EngineSettings(workers=2).device
    'cpu'
    """

    workers: Annotated[int, Field(ge=0, le=1024)] = 0
    device: Device = "cpu"
    spill: bool = False
    as_bytes: bool = False
    recorded_graphs: RecordedGraphs = "auto"
