"""What a platform disclosed in a run, in tensors and bytes, and what it kept: the whole list."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from fedner.models.partition import lies_under
from fedner.runs.blueprint import Blueprint, shares_tags
from fedner.runs.protected_units import counted_unit
from fedner.runs.records import DescribedTensor, Disclosure
from fedner.runs.reply_log import REPLIES, Sent, num_resent, read_replies, updates_in
from fedner.runs.site import Site
from fedner.runs.sums import sum_terms
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
    "The word table is trained and shared: the rows of its gradient that are not zero reveal "
    "which words a batch had, up to hashing. Freeze it (embeddings.trainable = false) or keep "
    "it private where that must not be known."
)
PIECE_NOTE = (
    "The encoder's table of pieces (sub-words) is trained and shared: the rows of an update "
    "that are zero reveal which pieces a platform's texts do not have. Train adapters "
    "(model.adapter) where that must not be known."
)
SHARED_TYPES_NOTE = (
    "What belongs to single tags is shared: all platforms know the names of each other's entity "
    "types. Keep emissions and decoder private where they must not be known."
)
DESCRIBED_NOTE = (
    "The head that reads descriptions of entity types is shared: its gradient "
    "(emissions.type.*) is made of the vectors of the platform's own types. Names and descriptions "
    "are never sent, but a server that guesses a description can test its guess. Keep the head "
    'private (partition.shared = "encoder") if nobody may guess types.'
)
TYPE_MAPS = "emissions.type"
SIZE_NOTE = (
    "The public size is the exact number of {units} to train on; declare a rounded one "
    "(public_size) where that must not be known."
)


SUM_NOTE = (
    "Updates were masked (transport.secure_sum): the server could open sums of at least {least} "
    "platforms, but no single update, as long as at most {colluding} of them collude with it. "
    "In a simulation on one machine the keys protect nobody."
)


ENCRYPTION_NOTE = (
    "Updates were encrypted (transport.encryption) with a key that the platforms of the study "
    "have and the server does not have: it could read neither updates nor sums nor weights. "
    "Every platform could read sums; one that colludes with the server could read every single "
    "update. In a simulation on one machine the keys protect nobody."
)


def describe_disclosure(
    site: Site, folder: Path | None = None, coming: Sent | None = None
) -> Disclosure:
    """Return what a platform transmitted, by its own record of replies.

    Args:
        site: The platform.
        folder: Where its record of replies lies; None for its own folder.
        coming: The reply that it is about to send, which is not on record yet.
    """
    place = site.folder.path if folder is None else folder
    replies = [*read_replies(place / REPLIES), *([] if coming is None else [coming])]
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
    if any(lies_under(name, TYPE_MAPS) for name in plan.partition.shared):
        notes.append(DESCRIBED_NOTE)
    if WORD_TABLE in plan.partition.shared and not study.privacy.enabled:
        notes.append(WORD_NOTE)
    encoder = plan.files.trained
    if encoder is not None and ENCODER + encoder.piece_table in plan.partition.shared:
        notes.append(PIECE_NOTE)
    if study.transport.encryption is not None:
        notes.append(ENCRYPTION_NOTE)
    if study.transport.secure_sum:
        terms = sum_terms(study)
        least, colluding = terms.least_survivors, terms.colluding
        notes.append(SUM_NOTE.format(least=least, colluding=colluding))
    is_exact = study.platform(site.name).public_size == site.true_size
    # Of a protected platform not even that is disclosed: both may be equal by chance.
    if is_exact and not study.is_deployed:
        units = counted_unit(study.privacy, plan.mechanism)
        notes.append(SIZE_NOTE.format(units=f"{units}s"))
    return notes
