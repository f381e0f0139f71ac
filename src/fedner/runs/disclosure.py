"""What a platform disclosed in a run, in tensors and bytes, and what it kept: the whole list."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fedner.runs.blueprint import Blueprint, shares_tags
from fedner.runs.platform_data import counted_unit
from fedner.runs.reply_log import REPLIES, Sent, num_resent, read_replies, updates_in
from fedner.runs.site import Site
from fedner.training import trainable

TYPES = "names of entity types that the study does not declare"
PRIVATE = "private weights"
NEVER = (
    "texts",
    "annotations of texts",
    TYPES,
    PRIVATE,
    "optimizer states",
    "the platform's list of words",
)
WORD_TABLE = "embeddings.words.weight"
ENCODER = "embeddings.context.model."
WORD_NOTE = (
    "The word table is trained and shared: the rows of its gradient that are not zero tell which "
    "words a batch had, up to hashing. Freeze it (embeddings.trainable = false) or keep it private "
    "where that must not be known."
)
PIECE_NOTE = (
    "The encoder's table of pieces (sub-words) is trained and shared: the rows of an update that "
    "are zero tell which pieces a platform's texts do not have. Train adapters (model.adapter) "
    "where that must not be known."
)
SHARED_TYPES_NOTE = (
    "What belongs to single tags is shared: all platforms know the names of each other's entity "
    "types. Keep emissions and decoder private where they must not be known."
)
SIZE_NOTE = (
    "{name}: the public size is the exact number of {units} to train on; declare a rounded one "
    "(public_size) where that must not be known."
)


@dataclass(frozen=True, slots=True)
class DescribedTensor:
    """A tensor by name and size."""

    name: str
    shape: tuple[int, ...]
    numbers: int


@dataclass(frozen=True, slots=True)
class Disclosure:
    """All that a platform transmitted in a run, and what it kept.

    Attributes:
        updates: How many rounds it sent an update for.
        resent: How many updates it sent besides, for rounds that were taken again after a stop.
        bytes: Their bytes of tensors.
        bytes_received: The bytes of tensors that came with orders to work.
        tensors: What an update holds.
        training_losses: How many updates named the training loss.
        score_reports: How many replies named scores.
        public_size: The size that everybody knows.
        kept: The private weights, which were trained and never sent.
        never: What it did not disclose, in words.
        notes: What somebody who reads the updates could learn beyond numbers.
    """

    updates: int
    resent: int
    bytes: int
    bytes_received: int
    tensors: tuple[DescribedTensor, ...]
    training_losses: int
    score_reports: int
    public_size: int
    kept: tuple[DescribedTensor, ...]
    never: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def numbers_per_update(self) -> int:
        """How many numbers an update holds."""
        return sum(each.numbers for each in self.tensors)

    @property
    def numbers_kept(self) -> int:
        """How many trained numbers stayed."""
        return sum(each.numbers for each in self.kept)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        totals = {"numbers_per_update": self.numbers_per_update, "numbers_kept": self.numbers_kept}
        return {**asdict(self), **totals}


def describe_disclosure(site: Site, folder: Path | None = None) -> Disclosure:
    """Return what a platform transmitted, by its own record of replies.

    Args:
        site: The platform.
        folder: Where its record of replies lies; None for its own folder.
    """
    place = site.folder.path if folder is None else folder
    replies = read_replies(place / REPLIES)
    sent = updates_in(replies)
    plan = site.blueprint
    weights = trainable(site.tagger())
    return Disclosure(
        updates=len(sent),
        resent=num_resent(replies),
        bytes=sum(each.num_bytes for each in sent),
        bytes_received=sum(each.num_received for each in sent),
        tensors=_described(weights, plan.partition.shared),
        training_losses=sum(each.has_loss for each in sent),
        score_reports=_num_score_reports(replies),
        public_size=site.study.platform(site.name).public_size,
        kept=_described(weights, plan.partition.private),
        never=_never(plan),
        notes=tuple(_notes(site)),
    )


def _num_score_reports(replies: Sequence[Sent]) -> int:
    reported = {(each.run, each.round, each.verb) for each in replies if each.has_scores}
    return len(reported)


def _described(weights: Mapping[str, Tensor], names: Sequence[str]) -> tuple[DescribedTensor, ...]:
    return tuple(
        DescribedTensor(name, tuple(weights[name].shape), weights[name].numel()) for name in names
    )


def _never(plan: Blueprint) -> tuple[str, ...]:
    if plan.partition.private:
        return NEVER
    return tuple(each for each in NEVER if each != PRIVATE)  # there are none that could have stayed


def _notes(site: Site) -> list[str]:
    plan, study = site.blueprint, site.study
    notes = []
    if shares_tags(study):
        notes.append(SHARED_TYPES_NOTE)
    if WORD_TABLE in plan.partition.shared and not study.privacy.enabled:
        notes.append(WORD_NOTE)
    encoder = plan.files.trained
    if encoder is not None and ENCODER + encoder.piece_table in plan.partition.shared:
        notes.append(PIECE_NOTE)
    is_exact = study.platform(site.name).public_size == site.true_size
    # Of a protected platform not even that is disclosed: both may be equal by chance.
    if is_exact and not study.is_deployed:
        units = counted_unit(study.privacy, plan.mechanism)
        notes.append(SIZE_NOTE.format(name=site.name, units=f"{units}s"))
    return notes
