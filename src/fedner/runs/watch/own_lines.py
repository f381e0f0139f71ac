"""What a platform noted of its own training, read as a watched run asks for it round by round."""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedner.errors import FednerError
from fedner.federated.strict_json import read_json
from fedner.runs.own_progress import OWN_PROGRESS
from fedner.runs.watch.tail import LineTail

_MOST_LINE = 2**16
_KINDS = ("loss", "f1")


class OwnLines:
    """The losses and scores of one run.

    A line is written before the reply of its round, so that whoever has read the reply finds it.
    """

    def __init__(self, folder: Path, run: str) -> None:
        """Name the place; nothing is read yet.

        Args:
            folder: The platform's folder of the run.
            run: The run.
        """
        self._tail = LineTail(folder / OWN_PROGRESS)
        self._run = run
        self._held = {kind: OrderedDict[int, float]() for kind in _KINDS}

    def take(self, kind: str, round_: int) -> float | None:
        """Return the loss or F1 of a round, and forget it with all before; None where none is.

        Raises:
            FednerError: A line is damaged.
        """
        held = self._held[kind]
        has_more = True
        while has_more and round_ not in held:
            has_more = self._read()
        found = held.get(round_)
        # Oldest first: to look in every round at all that was read ahead would take minutes.
        while held and (oldest := next(iter(held))) <= round_:
            del held[oldest]
        return found

    def _read(self) -> bool:
        new = self._tail.read()
        for line in new.lines:
            self._keep(self._parsed(line))
        return new.has_more

    def _keep(self, line: Mapping[str, Any]) -> None:
        if line["run"] != self._run:
            return
        for kind in _KINDS:
            if kind in line:
                self._held[kind][line["round"]] = line[kind]

    def _parsed(self, line: bytes) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = read_json(line, _MOST_LINE)
            values = [found[kind] for kind in _KINDS if kind in found]
            is_whole = isinstance(found["run"], str) and type(found["round"]) is int
            if is_whole and all(isinstance(each, float | int) for each in values):
                return found
        except (FednerError, KeyError, TypeError):
            pass
        raise FednerError(
            f"{self._tail.path} has a line that describes no round",
            "It holds only curves: move it away and start `fedner watch` again; the run is shown "
            "without them.",
        )
