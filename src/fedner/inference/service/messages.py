"""What the tagger's service takes and answers: every field of every message, once.

The OpenAPI page is made from these records. All places are half-open offsets in characters of the
whole text: Unicode code points, as Python counts them, not the UTF-16 units of JavaScript.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from fedner.inference.redact import How

_OFFSET = "in characters of the whole text: Unicode code points, not UTF-16 units"
TypeName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60)]
Description = Annotated[str, StringConstraints(strip_whitespace=True, max_length=300)]
Text = Annotated[
    str, Field(min_length=1, description="The note; offsets of the answer count its characters.")
]
ModelName = Annotated[
    str | None, Field(description="A name that GET /models lists; by default the first.")
]
NewTypes = Annotated[
    dict[TypeName, Description],
    Field(
        max_length=10,
        description="Further types by name and one-line description, for models that can find "
        "types they were not trained for (can_add_types). A first guess, not a result.",
    ),
]


class Record(BaseModel):
    """A frozen record without further keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PredictRequest(Record):
    """A note to read."""

    text: Text
    model: ModelName = None
    types: NewTypes = Field(default_factory=dict)


class FoundMention(Record):
    """A mention that the tagger found."""

    start: int = Field(description=f"Where it begins, {_OFFSET}.")
    end: int = Field(description=f"Where it ends, half-open, {_OFFSET}.")
    type: str = Field(description="Its entity type.")
    text: str = Field(description="Its words.")
    confidence: float = Field(description="The probability of exactly this mention, 0 to 1.")


class PredictAnswer(Record):
    """What a model found in a note, in the order of the text."""

    model: str = Field(description="Which model read the note.")
    mentions: list[FoundMention]


class RedactRequest(Record):
    """A note to redact."""

    text: Text
    model: ModelName = None
    types: NewTypes = Field(default_factory=dict)
    remove: list[TypeName] = Field(default_factory=list, description="The only types to remove.")
    keep: list[TypeName] = Field(
        default_factory=list, description="Remove all types but these. Not together with remove."
    )
    how: How = Field(
        default="type",
        description="type: [Drug]. pseudonym: [Drug-1], the same for the same words of this note. "
        "mask: asterisks of the same length.",
    )
    threshold: float | Literal["own", "none"] = Field(
        default="own",
        description="own: the model's calibrated threshold, if it has one. none: only what "
        "/predict finds is removed. A number: words of at least this probability are removed.",
    )


class Replacement(Record):
    """A mention that was replaced."""

    start: int = Field(description=f"Where it began, {_OFFSET}.")
    end: int = Field(description=f"Where it ended, {_OFFSET}.")
    type: str = Field(description="Its entity type.")
    new_start: int = Field(description="Where its replacement begins in the redacted text.")
    new_end: int = Field(description="Where its replacement ends there.")


class RedactAnswer(Record):
    """A redacted note."""

    model: str = Field(description="Which model read the note.")
    text: str = Field(description="The note without what was found.")
    replacements: list[Replacement]
    removed: list[str] = Field(description="The types that were removed.")
    threshold: float | None = Field(description="The probability from which words were removed.")
    remains: str = Field(description="What may still be in the text: no tagger finds everything.")


class OfferedType(Record):
    """An entity type of a model."""

    name: str
    description: str | None = Field(description="What it means, if the model has a description.")


class OwnThreshold(Record):
    """The threshold that a model was calibrated to."""

    threshold: float
    types: list[str] = Field(description="The types that it removes.")
    remains: str = Field(
        description=("What remained in documents that played no part in choosing it.")
    )


class OfferedModel(Record):
    """A model that is served."""

    name: str = Field(description="What requests call it.")
    source: str = Field(description="The name of its folder, or what the command calls it.")
    platform: str | None = Field(description="The platform of a run that it belongs to.")
    method: str | None = Field(description="How it was trained: federated, local-only, ...")
    types: list[OfferedType]
    can_add_types: bool = Field(description="Whether it takes further types by description.")
    why_not: str | None = Field(description="Why it does not.")
    takes_threshold: bool = Field(description="Whether redaction takes a threshold.")
    redaction: OwnThreshold | None = Field(description="Its calibrated threshold, if it has one.")


class ModelsAnswer(Record):
    """The models that are served, and how much a request may hold."""

    models: list[OfferedModel]
    most_bytes: int = Field(description="The largest body of a request.")


class Sample(Record):
    """A synthetic text to try."""

    platform: str
    description: str
    text: str


class SamplesAnswer(Record):
    """Texts of the built-in synthetic platforms: no real data."""

    samples: list[Sample]


class HealthAnswer(Record):
    """That the service is up."""

    status: Literal["ok"] = "ok"
