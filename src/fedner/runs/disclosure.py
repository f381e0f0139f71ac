"""What each platform disclosed in a run, in tensors and bytes, and what it kept: the whole list."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedner.runs.assembly import Federation, new_tagger, shares_tags
from fedner.training import trainable

TYPES = "names of entity types that the federation file does not declare"
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
    "{names}: the public size is the exact number of training sentences; declare a rounded one "
    "(public_size) where that must not be known."
)


def describe_disclosure(
    federation: Federation, rounds: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what every platform transmitted over all rounds, and what it never disclosed.

    Args:
        federation: The federation.
        rounds: The record of every round.
    """
    sizes = federation.public_sizes
    platforms = {}
    for name in federation.names:
        weights = trainable(new_tagger(federation, name))
        shared = [_described(each, weights[each]) for each in federation.partition.shared]
        private = [_described(each, weights[each]) for each in federation.partition.private]
        sent = [each["bytes_up"][name] for each in rounds if name in each["bytes_up"]]
        platforms[name] = {
            "updates": len(sent),
            "bytes": sum(sent),
            "bytes_received": sum(each["bytes_down"].get(name, 0) for each in rounds),
            "tensors": shared,
            "numbers_per_update": sum(each["numbers"] for each in shared),
            "training_losses": sum(name in each["losses"] for each in rounds),
            "evaluations": sum(name in each["scores"] for each in rounds),
            "public_size": sizes[name],
            "kept": private,
            "numbers_kept": sum(each["numbers"] for each in private),
        }
    return {
        "platforms": platforms,
        "never": _never(federation),
        "notes": _notes(federation),
    }


def _never(federation: Federation) -> list[str]:
    """Return what no platform disclosed in this federation."""
    if federation.partition.private:
        return list(NEVER)
    return [each for each in NEVER if each != PRIVATE]  # there are none that could be kept


def _notes(federation: Federation) -> list[str]:
    """Return what somebody who reads the updates could learn beyond numbers."""
    notes = []
    if shares_tags(federation.settings):
        notes.append(SHARED_TYPES_NOTE)
    if WORD_TABLE in federation.partition.shared and not federation.settings.privacy.enabled:
        notes.append(WORD_NOTE)
    encoder = federation.encoder
    if encoder is not None and ENCODER + encoder.piece_table in federation.partition.shared:
        notes.append(PIECE_NOTE)
    sizes, privacy = federation.public_sizes, federation.settings.privacy
    exact = [name for name in federation.names if sizes[name] == federation.true_size(name)]
    # Of a protected platform not even that is disclosed: declared and true size may be equal by
    # chance.
    if exact and (privacy.simulation or not privacy.enabled):
        notes.append(SIZE_NOTE.format(names=", ".join(exact)))
    return notes


def _described(name: str, weight: Any) -> dict[str, Any]:
    return {"name": name, "shape": list(weight.shape), "numbers": weight.numel()}
