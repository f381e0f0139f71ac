"""PolicySettings: what a platform decides by itself ([policy] in platform.toml); docs/policy.md."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from fedner.settings.sections import (
    Audience,
    OwnSection,
    PlatformName,
    Positive,
    Rate,
)

NoisePlace = Literal["local", "distributed", "central"]
Unit = Literal["sentence", "document", "patient"]
# From the weakest promise to the strongest.
UNITS: tuple[Unit, ...] = ("sentence", "document", "patient")
# What a study across machines may do where the platform names nothing: trust nobody else.
UNNAMED_NOISE: tuple[NoisePlace, ...] = ("local", "distributed")

# A digest, or the word for every study that the other keys accept.
ANY_STUDY = "any"
AcceptedStudy = Annotated[str, StringConstraints(pattern=rf"^([0-9a-f]{{64}}|{ANY_STUDY})$")]
DottedName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$")]


class PolicySettings(OwnSection):
    """What this platform takes part in, and what it sends; checked at the platform itself.

    It is checked before a job starts and at every order. An empty list, or a key that is left out,
    asks for nothing; what a study across machines may never do is refused without any key.

    Which studies: `studies` are digests, or "any" for all that the other keys accept; across
    machines an empty list accepts the study of the installed approval and no other. `algorithms`
    and `models` are names (of recipes), `shared` the modules whose tensors may be sent
    ("embeddings" holds "embeddings.words"), `types` the entity types that it declares to others or
    shares tags of.

    Least protection: `mechanisms` are those of differential privacy ("none" among them accepts a
    study without any). `unit` is the smallest that must be protected. `noise_places` says who may
    add noise: across machines the server ("central") must be named here. `epsilon` bounds what one
    study may spend over all its runs, `epsilon_in_all` what all studies together may, on top of
    what the ledger grants. `secure_sum` takes part only where the server sees nothing but sums,
    `encryption` only where it sees neither sums nor weights;
    `min_others` says how many other platforms must be in a sum; `pinned` asks for the pinned
    certificate of each of them. `accepts_simulation` lets noise come from a seed of the study,
    which protects nobody: for rehearsals with synthetic texts.

    How much: `max_rounds` in a run, `max_runs` of one study, `max_updates` that leave for one study
    in all, and so many of each kind of score report (what is asked for again counts again; left
    out, a bound follows from the study), `max_hours` since the first order of a run, `max_cpus` and
    `max_memory_gb` for its process.

    What is sent: without `sends_loss` its training loss stays at home, without `sends_scores` its
    test scores do. `release` says who may get the trained model: "participants", or "public" for
    anybody; `newcomers` are platforms that may get it although they took no part.
    """

    studies: tuple[AcceptedStudy, ...] = ()
    algorithms: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    shared: tuple[DottedName, ...] | None = None
    types: tuple[str, ...] | None = None
    mechanisms: tuple[str, ...] = ()
    unit: Unit | None = None
    noise_places: tuple[NoisePlace, ...] = ()
    epsilon: Rate | None = None
    epsilon_in_all: Rate | None = None
    secure_sum: bool = False
    encryption: bool = False
    min_others: Annotated[int, Field(ge=0)] = 0
    pinned: bool = False
    accepts_simulation: bool = False
    max_rounds: Positive | None = None
    max_runs: Positive | None = None
    max_updates: Positive | None = None
    max_hours: Rate | None = None
    max_cpus: Positive | None = None
    max_memory_gb: Rate | None = None
    sends_loss: bool = True
    sends_scores: bool = True
    release: Audience = "participants"
    newcomers: tuple[PlatformName, ...] = ()

    @field_validator("algorithms", "models", "mechanisms", "types")
    @classmethod
    def _has_names(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and not all(each.strip() == each and each for each in value):
            raise PydanticCustomError("names", "names without blanks at either end")
        return value
