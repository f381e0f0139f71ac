"""What a study is going to run, and how long that takes by what was measured so far."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedner.reproduce.reproduction import Cell
from fedner.reproduce.store import StoredCell

# Seconds for a cost of 1 (a thousand sentences), one cell at a time; docs/benchmarks.md says how
# they were measured. Only for the plan that is shown before the first cell has ended.
MEASURED_SECONDS = {"cpu": 6.0, "cuda": 0.6}
# How many cells side by side are as fast as that many machines: cores, or one shared GPU.
MOST_SIDE_BY_SIDE = {"cuda": 5}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a stage runs.

    Attributes:
        stage: Which stage, counted from 1.
        num_stages: Of how many.
        num_cells: How many cells it has.
        num_stored: How many of them are stored already.
        seconds: How long the rest takes, about.
        is_measured: Whether that comes from cells of this study, or from the reference machine.
        jobs: How many run side by side.
    """

    stage: int
    num_stages: int
    num_cells: int
    num_stored: int
    seconds: float
    is_measured: bool
    jobs: int


@dataclass(slots=True)
class Pace:
    """How fast cells end in this call.

    Attributes:
        device: Where they run.
        jobs: How many side by side.
    """

    device: str
    jobs: int
    _began: float = field(default=0.0)
    _done: float = field(default=0.0)

    def begin(self) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def note(self, cost: float) -> None:
        """Note that a cell has ended."""
        self._done += cost

    def seconds_for(self, cost: float) -> float | None:
        """Return how long the rest takes at the pace of this call; None before any cell."""
        if not self._done:
            return None
        return (time.monotonic() - self._began) / self._done * cost

    @property
    def side_by_side(self) -> int:
        """How many cells at a time really gain."""
        return min(self.jobs, MOST_SIDE_BY_SIDE.get(self.device, self.jobs))


def planned(
    stage: int,
    num_stages: int,
    cells: Sequence[Cell],
    missing: Sequence[Cell],
    stored: Mapping[str, StoredCell],
    pace: Pace,
) -> Plan:
    """Return what a stage runs and how long it takes, by what was measured on the same device."""
    known = [
        (cell, stored[cell.key].seconds)
        for cell in cells
        if cell.key in stored and stored[cell.key].device in ("", pace.device)
    ]
    cost = sum(cell.cost for cell, _ in known)
    if cost:  # each was measured beside others, on as many processes as now
        seconds = sum(took for _, took in known) / cost / pace.jobs
    else:
        seconds = MEASURED_SECONDS.get(pace.device, MEASURED_SECONDS["cpu"]) / pace.side_by_side
    return Plan(
        stage,
        num_stages,
        len(cells),
        len(cells) - len(missing),
        seconds * sum(cell.cost for cell in missing),
        bool(cost),
        pace.jobs,
    )
