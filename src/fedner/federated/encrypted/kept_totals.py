"""Encrypted sums that the coordinator keeps: platforms that missed some are given them later.

A sum is kept before the first platform gets it, so that a round whose sum was handed out is never
summed up anew, not even after a crash: copies of the server at platforms would part ways.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from fedner.durable import owner_folder
from fedner.tensor_files import read_tensors, write_tensors

MOST_KEPT = 100  # rounds; of two million numbers each takes 55 MB
_KIND, _VERSION = "encrypted sum", 1
_NAME = re.compile(r"sum-(\d{6,})\.safetensors")


class KeptTotal(NamedTuple):
    """The sum of a round.

    Attributes:
        names: Whose updates are in it, sorted.
        tensors: The sum, as it travels.
    """

    names: tuple[str, ...]
    tensors: dict[str, Tensor]


@dataclass(slots=True)
class KeptTotals:
    """The sums of the last rounds.

    Attributes:
        folder: Where they lie; None keeps them in memory.
    """

    folder: Path | None = None
    _memory: dict[int, KeptTotal] = field(default_factory=dict)

    def keep(self, run: str, round_: int, total: KeptTotal) -> None:
        """Keep the sum of a round, durably; sums of later rounds are dropped."""
        self._drop([each for each in self.rounds() if each > round_])
        if self.folder is None:
            self._memory[round_] = total
        else:
            owner_folder(self.folder)
            facts = {"run": run, "round": round_, "names": list(total.names)}
            path = self._path(self.folder, round_)
            write_tensors(path, total.tensors, _KIND, _VERSION, facts, owner_only=True)
        self._drop(self.rounds()[:-MOST_KEPT])

    def read(self, run: str, round_: int) -> KeptTotal | None:
        """Return the sum of a round of this run; None where it is not kept.

        Raises:
            FednerError: If its file is damaged.
        """
        if self.folder is None:
            return self._memory.get(round_)
        path = self._path(self.folder, round_)
        if not path.is_file():
            return None
        tensors, facts = read_tensors(path, _KIND, _VERSION)
        if (facts["run"], facts["round"]) != (run, round_):
            return None
        return KeptTotal(tuple(facts["names"]), tensors)

    def drop_until(self, round_: int) -> None:
        """Drop the sums up to a round: nobody goes on from before it."""
        self._drop([each for each in self.rounds() if each <= round_])

    def rounds(self) -> list[int]:
        """Return the rounds whose sums are kept, oldest first."""
        if self.folder is None:
            return sorted(self._memory)
        if not self.folder.is_dir():
            return []
        matches = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def _drop(self, rounds: list[int]) -> None:
        for round_ in rounds:
            self._memory.pop(round_, None)
            if self.folder is not None:
                self._path(self.folder, round_).unlink(missing_ok=True)

    @staticmethod
    def _path(folder: Path, round_: int) -> Path:
        return folder / f"sum-{round_:06d}.safetensors"
