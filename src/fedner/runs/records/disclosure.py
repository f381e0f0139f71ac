"""disclosure.json: what each platform disclosed, in tensors and bytes, and what it kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedner.runs.records.border import as_json


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
        never: What it did not disclose, in words; in a joint record said once for all.
        notes: What somebody who reads the updates could learn beyond numbers; likewise.
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
    never: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def numbers_per_update(self) -> int:
        """How many numbers an update holds."""
        return sum(each.numbers for each in self.tensors)

    @property
    def numbers_kept(self) -> int:
        """How many trained numbers stayed."""
        return sum(each.numbers for each in self.kept)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it, with its totals."""
        totals = {"numbers_per_update": self.numbers_per_update, "numbers_kept": self.numbers_kept}
        return {**as_json(self), **totals}


@dataclass(frozen=True, slots=True)
class RunDisclosure:
    """What every platform disclosed; what all have in common stands once.

    Attributes:
        platforms: What each transmitted and kept.
        never: What none disclosed, in words.
        notes: What somebody who reads the updates could learn beyond numbers.
    """

    platforms: Mapping[str, Disclosure]
    never: tuple[str, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, sites: Mapping[str, Disclosure]) -> "RunDisclosure":
        """Return what the sites disclosed as one record."""
        first = next(iter(sites.values()))
        notes = _joint_notes({name: each.notes for name, each in sites.items()})
        platforms = {name: replace(each, never=(), notes=()) for name, each in sites.items()}
        return cls(platforms, first.never, notes)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        platforms = {name: each.as_dict() for name, each in self.platforms.items()}
        for each in platforms.values():
            del each["never"], each["notes"]
        return {"platforms": platforms, "never": list(self.never), "notes": list(self.notes)}


def _joint_notes(notes: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return every note once, with the platforms that it is about where it is not about all."""
    owners: dict[str, list[str]] = {}
    for name, own in notes.items():
        for note in own:
            owners.setdefault(note, []).append(name)
    return tuple(
        note if len(names) == len(notes) else f"{', '.join(names)}: {note}"
        for note, names in owners.items()
    )
