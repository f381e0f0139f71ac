"""PlatformSettings: what one platform alone holds, and never tells (platform.toml)."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError

from fedner.settings.policy import PolicySettings
from fedner.settings.sections import (
    SYNTHETIC,
    Device,
    OwnSection,
    PlatformName,
    Positive,
    RecordedGraphs,
    Share,
    Types,
)


class SplitSettings(OwnSection):
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


class PatientSettings(OwnSection):
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


class OwnEmbeddings(OwnSection):
    """Where this platform keeps the study's word vectors and encoder, and its context features.

    `words` and `context` are paths ("hub:NAME" downloads an encoder); what lies there must have the
    digests that the study names. `cache` is a folder that only its owner can read.
    """

    words: str | None = None
    context: str | None = None
    cache: str | None = None


class PlatformSettings(OwnSection):
    """What only one platform holds (platform.toml): its data, how they are read, its own rules.

    `data` is a path, or "synthetic:NAME" for a built-in platform of `num_sentences`. `options`
    are those of the format itself, which its reader declares (`fedner data formats`).
    `label_map` renames types or, with an empty string, leaves them out. `types` describes types
    that the platform keeps to itself; the study's [types] need not be repeated here.
    `shard = "2/5"` takes the second of five equal shards of the data, drawn by the seed: it
    simulates several platforms with one corpus; a separate test file stays whole.
    `encoding` is that of text files, UTF-8 by default; `patients` says whose text each document
    is if the format does not. `ledger` is the folder of the platform's privacy ledger, one
    for all runs, which its owner opened (`fedner privacy open`); a simulation makes its own in
    the run folder. `policy` is what the platform decides by itself (docs/policy.md).
    `device` is where this platform computes; on a GPU its steps are recorded and replayed
    unless `recorded_graphs` is "off".

    >>> import fedner
    >>> own = fedner.PlatformSettings(name="clinic", data="notes/", split={"by": "document"})
    >>> own  # what is the platform's own is not printed
    PlatformSettings('clinic')
    >>> own.split.by
    'document'
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
    label_map: dict[str, str] = Field(default_factory=dict)
    types: Types = Field(default_factory=dict)
    sentences: Literal["given", "line", "rule"] | None = None
    flatten: Literal["longest", "first-fragment", "contiguous"] = "longest"
    max_tokens: Positive | None = None
    split: SplitSettings = Field(default_factory=SplitSettings)
    ledger: str | None = None
    device: Device | None = None
    recorded_graphs: RecordedGraphs | None = None
    embeddings: OwnEmbeddings = Field(default_factory=OwnEmbeddings)
    policy: PolicySettings = Field(default_factory=PolicySettings)

    @field_validator("shard")
    @classmethod
    def _is_a_shard_of_the_whole(cls, value: str | None) -> str | None:
        if value is not None and int(value.partition("/")[0]) > int(value.partition("/")[2]):
            raise PydanticCustomError("shard", "a shard of at most the whole, such as 2/5")
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    __str__ = __repr__

    @property
    def synthetic(self) -> str | None:
        """The built-in platform that is meant, or None."""
        return self.data.removeprefix(SYNTHETIC) if self.data.startswith(SYNTHETIC) else None
