"""Trainings of the longest cells, stored when they end: a cell that was stopped goes on with them.

A cell of every own sentence of BC5CDR takes minutes; its cross-validations are stored one by one.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from fedner.experiments.joining.arms import Counts, Trained
from fedner.tensor_files import read_tensors, write_tensors

KIND, VERSION = "joining study, trainings", 1


def trained_once(
    path: Path | None, train: Callable[[], list[Trained]], device: torch.device
) -> list[Trained]:
    """Return the trainings that a file holds; where it is not there, train and write it.

    Args:
        path: Where they stand; None trains and stores nothing.
        train: Trains.
        device: Where the weights shall lie.
    """
    if path is None:
        return train()
    if path.is_file():
        return _read(path, device)
    found = train()
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, found)
    return found


def _write(path: Path, found: Sequence[Trained]) -> None:
    tensors = {
        f"{number}/{name}": weight
        for number, each in enumerate(found)
        for name, weight in each.weights.items()
    }
    write_tensors(path, tensors, KIND, VERSION, {"counts": [each.counts for each in found]})


def _read(path: Path, device: torch.device) -> list[Trained]:
    tensors, facts = read_tensors(path, KIND, VERSION)
    members: list[dict[str, torch.Tensor]] = [{} for _ in facts["counts"]]
    for key, weight in tensors.items():
        number, name = key.split("/", 1)
        members[int(number)][name] = weight.to(device)
    counts: list[Counts] = [(right, found, gold) for right, found, gold in facts["counts"]]
    return [Trained(weights, each) for weights, each in zip(members, counts, strict=True)]
