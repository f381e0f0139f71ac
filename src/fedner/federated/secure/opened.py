"""What a platform keeps of its sums: which values left, and for which list it opened them.

A server that opens one round for two lists could subtract: what is in one sum and not in the other
is one platform's update. So a platform gives its shares for one list of a round only, and notes it
on the disk before they leave. Another list is refused, in another run of the same study too, whose
seeds and so whose updates are the same. The exception: values that carry the cost of differential
privacy and are others than before, since they were noised and charged anew.

Why that suffices, for rounds of different samples too: say a sum of sums is one honest platform's
update. Each sum took the shares of at least t - m honest platforms, m of its members colluding, and
nobody gives shares twice. All but one of these givers must cancel, so each is in two of the sums at
least. But a sum has at most n - m honest members, and 2 (t - m) > n - m: only one sum is left, of
one honest platform, and those are never opened.

A sum may be opened without this platform's shares as soon as its masked values left. That is noted
too: asked for the round again, it makes a new release (`num_sent`).
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Literal

from fedner.durable import OWNER_ONLY, append_whole, owner_folder, sync_folder
from fedner.errors import FednerError
from fedner.federated.strict_json import read_json
from fedner.federated.summation import SumRefusedError

FILE = "secure-sums.jsonl"
_MOST_LINE = 10_000


@dataclass(frozen=True, slots=True)
class SumLine:
    """One line.

    Attributes:
        entry: Whether masked values were about to leave, or shares that open them.
        study: The digest of the study.
        run: The run.
        round: The round.
        values: The digest of the values before they were masked: stays here.
        members: The digest of the list of survivors; empty of values.
    """

    entry: Literal["sent", "opened"]
    study: str
    run: str
    round: int
    values: str
    members: str = ""


@dataclass(slots=True)
class OpenedSums:
    """The file, or the memory of a process where there is none.

    A line more takes the same time however many there are. The file is searched only for a round
    that is not newer than all that it holds: one that is taken again.

    Attributes:
        path: The file; None keeps lines in memory.
    """

    path: Path | None = None
    _memory: list[SumLine] = field(default_factory=list, repr=False)
    _newest: dict[str, int] | None = field(default=None, repr=False)  # round, by study
    _current: tuple[str, int] = field(default=("", 0), repr=False)  # study and round
    _lines: list[SumLine] = field(default_factory=list, repr=False)  # those of the current one

    def num_sent(self, study: str, run: str, round_: int) -> int:
        """Return how often masked values of a round left in a run."""
        lines = self._of(study, round_)
        return sum(each.entry == "sent" and each.run == run for each in lines)

    def note_sent(self, study: str, run: str, round_: int, values: str) -> None:
        """Note, durably, that masked values are about to leave."""
        self._append(SumLine("sent", study, run, round_, values))

    def note_opened(self, line: SumLine, *, is_charged: bool) -> None:
        """Note, durably, that shares for a list are about to leave.

        Args:
            line: Names study, run, round, values and list.
            is_charged: Whether the values carry what they cost under differential privacy.

        Raises:
            SumRefusedError: If the round was opened for another list.
        """
        for earlier in self._of(line.study, line.round):
            is_other = earlier.entry == "opened" and earlier.members != line.members
            if is_other and not (is_charged and earlier.values != line.values):
                raise SumRefusedError(
                    f"round {line.round} of this study was opened before, in run "
                    f"{earlier.run!r:.100}, for another list of platforms; nothing is sent",
                    "With two lists a server could subtract one platform's update. Go on when the "
                    "platforms of the first list are there again, or begin a study with another "
                    "seed.",
                )
        self._append(line)

    def _of(self, study: str, round_: int) -> list[SumLine]:
        """Return the lines of a round of a study, in all runs."""
        if self._newest is None:
            self._newest = self._looked_through()
        if self._current != (study, round_):
            self._lines = []
            if round_ <= self._newest.get(study, 0):
                self._lines = self._found(study, round_)
            self._current = (study, round_)
        return self._lines

    def _found(self, study: str, round_: int) -> list[SumLine]:
        lines = self._memory if self.path is None else self._read(b'"round": %d,' % round_)
        return [each for each in lines if (each.study, each.round) == (study, round_)]

    def _looked_through(self) -> dict[str, int]:
        """Return the newest round of each study; a line that a kill cut off is dropped."""
        newest: dict[str, int] = {}
        if self.path is not None and self.path.is_file():
            with self.path.open("rb+") as file:
                end = file.seek(0, os.SEEK_END)
                file.truncate(_whole(file, end))
        for line in self._read():
            newest[line.study] = max(line.round, newest.get(line.study, 0))
        return newest

    def _read(self, holding: bytes = b"") -> Iterator[SumLine]:
        """Yield the lines of the file that hold some bytes."""
        if self.path is None or not self.path.is_file():
            return
        with self.path.open("rb") as file:
            for raw in file:
                if holding in raw:
                    yield self._parsed(raw)

    def _parsed(self, raw: bytes) -> SumLine:
        try:
            return SumLine(**read_json(raw, _MOST_LINE))
        except (FednerError, TypeError) as error:
            raise FednerError(
                f"{self.path} is damaged: {error}",
                "Restore it from your backup: without it a round could be opened twice.",
            ) from error

    def _append(self, line: SumLine) -> None:
        current = self._of(line.study, line.round)  # raises where the file is damaged
        if self.path is None:
            self._memory.append(line)
        else:
            self._write(self.path, json.dumps(asdict(line), sort_keys=True).encode() + b"\n")
        current.append(line)
        newest = self._newest or {}
        newest[line.study] = max(line.round, newest.get(line.study, 0))
        self._newest = newest

    def _write(self, path: Path, data: bytes) -> None:
        owner_folder(path.parent)
        is_new = not path.exists()
        handle = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
        try:
            append_whole(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        if is_new:
            sync_folder(path.parent)


def _whole(file: IO[bytes], end: int) -> int:
    """Return where the last whole line of a file ends."""
    begin = max(0, end - _MOST_LINE)
    file.seek(begin)
    return begin + file.read(end - begin).rfind(b"\n") + 1
