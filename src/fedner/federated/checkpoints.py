"""States on disk: one safetensors file for each round, whole or absent, the last two kept.

Server and platforms have folders of their own and the same round numbers. Whoever is killed between
two of them leaves at least one round that all have, since nobody runs ahead by more than one.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from fedner.durable import owner_folder
from fedner.errors import FednerError
from fedner.tensor_files import read_tensors, write_tensors

KEPT = 2
PLATFORMS = "platforms"
COPIES = "server-copy"  # of the server, at platforms, where it has no weights itself
_KIND, _VERSION = "state of a federation", 1
_NAME = re.compile(r"round-(\d{6,})\.safetensors")


def platform_folder(folder: Path, platform: str) -> Path:
    """Return the folder of a platform's states within a run folder.

    Raises:
        FednerError: If the name cannot be that of a folder.
    """
    if not re.fullmatch(r"[\w][\w. -]*", platform) or platform.endswith((".", " ")):
        raise FednerError(
            f"platform name: found {platform!r}; expected letters, digits, '-', '_', '.' or blanks",
            "Each platform has its own folder: choose a name that can be a folder's.",
        )
    return folder / PLATFORMS / platform


def write_state(
    folder: Path, round_: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> None:
    """Put a state on disk under a round, durably, then drop all but the last two."""
    owner_folder(folder)
    stated = {**facts, "round": round_}
    write_tensors(_path(folder, round_), tensors, _KIND, _VERSION, stated, owner_only=True)
    for old in stored_rounds(folder)[:-KEPT]:
        _path(folder, old).unlink(missing_ok=True)


def stored_rounds(folder: Path) -> list[int]:
    """Return the rounds that a folder holds, oldest first; half-written files do not count."""
    if not folder.is_dir():
        return []
    matches = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(match[1]) for match in matches if match)


def read_state(folder: Path, round_: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and facts of a round.

    Raises:
        FednerError: If there is no such round, or its file is damaged.
    """
    path = _path(folder, round_)
    tensors, facts = read_tensors(path, _KIND, _VERSION)
    if facts.get("round") != round_:
        raise FednerError(
            f"{path} holds round {facts.get('round')}; expected {round_}",
            "The file was renamed: put it back under its own round.",
        )
    return tensors, facts


def drop_after(folder: Path, round_: int) -> None:
    """Remove the states of later rounds: a resumed run will write its own."""
    for later in stored_rounds(folder):
        if later > round_:
            _path(folder, later).unlink(missing_ok=True)


def _path(folder: Path, round_: int) -> Path:
    return folder / f"round-{round_:06d}.safetensors"
