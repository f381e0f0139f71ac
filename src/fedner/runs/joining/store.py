"""Finished trainings on disk: a joining that was stopped at any moment goes on from there.

One file for each, whole or absent, for the owner's eyes only. A file of other data, of another
shared model or of another setting is never taken for the one that is asked for.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedner.durable import owner_folder
from fedner.errors import FednerError
from fedner.models.crf_chain import Chain
from fedner.runs.joining.jobs import Found, Job
from fedner.tensor_files import read_tensors, write_tensors

UNFINISHED = "unfinished"
_KIND, _VERSION = "training of a joining", 1
_WEIGHTS = "weights."
_CHAIN = {"start": "start_K", "end": "end_K", "transitions": "transitions_KK"}


@dataclass(frozen=True, slots=True)
class Store:
    """The finished trainings of one joining.

    Attributes:
        folder: Where they are.
        of_data: A hash of the newcomer's data and of what it received.
    """

    folder: Path
    of_data: str

    def has(self, job: Job) -> bool:
        """Whether a job is finished."""
        return self._stated(job) is not None

    def read(self, job: Job) -> Found:
        """Return what a finished job found.

        Raises:
            FednerError: It is not finished.
        """
        held = self._stated(job)
        if held is None:
            raise FednerError(f"{self._path(job)} is not there", "Run the same command again.")
        tensors, _ = held
        start_K, end_K, steps_KK = (tensors[name] for name in _CHAIN)
        nothing, none = torch.zeros(0, 0, len(start_K)), torch.zeros(0, dtype=torch.int64)
        chain = Chain(nothing, start_K, end_K, steps_KK, none)
        weights = {
            name.removeprefix(_WEIGHTS): each
            for name, each in tensors.items()
            if name.startswith(_WEIGHTS)
        }
        return Found(tensors["emissions"], chain, weights)

    def write(self, job: Job, found: Found) -> None:
        """Keep what a job found, wholly or not at all."""
        owner_folder(self.folder)
        tensors = {"emissions": found.emissions_TK}
        tensors |= {name: getattr(found.chain, place) for name, place in _CHAIN.items()}
        tensors |= {f"{_WEIGHTS}{name}": each for name, each in found.weights.items()}
        facts = {"job": job.digest(self.of_data)}
        write_tensors(self._path(job), tensors, _KIND, _VERSION, facts, owner_only=True)

    def _path(self, job: Job) -> Path:
        return self.folder / f"{job.name}.safetensors"

    def _stated(self, job: Job) -> tuple[Mapping[str, Tensor], Mapping[str, Any]] | None:
        """Return a job's file; None where there is none, or it is harmed or another job's."""
        try:
            tensors, facts = read_tensors(self._path(job), _KIND, _VERSION)
        except FednerError:
            return None
        return (tensors, facts) if facts.get("job") == job.digest(self.of_data) else None


def require_place(out: Path, model: Path) -> None:
    """Raise unless a tagger may go into `out`: a new folder, or that of an unfinished joining.

    Raises:
        FednerError: It is taken, or lies within what was received.
    """
    inner, outer = out.resolve(), model.resolve()
    if inner == outer or outer in inner.parents:
        raise FednerError(
            f"{out} is inside {model}, which is only read and never written",
            "Name another folder with --out.",
        )
    if not out.exists() or (out.is_dir() and (out / UNFINISHED).is_dir()):
        return
    if not out.is_dir() or any(out.iterdir()):
        raise FednerError(f"{out} is already there", "Name another folder with --out.")


def clear(out: Path) -> None:
    """Remove what only an unfinished joining needs."""
    shutil.rmtree(out / UNFINISHED, ignore_errors=True)
