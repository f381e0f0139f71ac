"""Watching: a thread reads what is new and keeps the newest state; another asks what DP costs."""

import hashlib
import json
import threading
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedner.errors import FednerError
from fedner.runs.watch.snapshot import Snapshot, Standing
from fedner.runs.watch.source import Source
from fedner.runs.watch.thinned import Point

LOOK_SECONDS = 0.5
_UNKNOWN = Standing("waiting", "its folder cannot be read")
_REST = 3.0  # times as long as the accountant took, it is left alone
_CURVES = ("loss", "f1", "traffic", "epsilon", "pace")


@dataclass(frozen=True, slots=True)
class State:
    """The newest state of a run.

    Attributes:
        data: As JSON.
        tag: Names this very state.
    """

    data: bytes
    tag: str


def state_json(shown: Snapshot, problem: FednerError | None = None) -> dict[str, Any]:
    """Return a snapshot as JSON can carry it.

    A point of a curve is `[first round, last round, mean]`; where several rounds are taken
    together, `[first round, last round, mean, lowest, highest]`.
    """
    stated = asdict(shown)
    for chart in _CURVES:
        for curve in stated[chart]:
            curve["points"] = [_numbers(Point(*each)) for each in curve["points"]]
    for each in stated["marks"]:
        for kind in ("refused", "missing"):
            each[kind] = [_numbers(Point(*point)) for point in each[kind]]
    stated["standing"]["is_over"] = shown.standing.is_over
    told = None if problem is None else {"message": problem.message, "hint": problem.hint}
    return {**stated, "problem": told}


def _numbers(point: Point) -> list[float]:
    if point.first == point.last:
        return [point.first, point.last, _short(point.mean)]
    return [point.first, point.last, *(_short(each) for each in point[2:])]


def _short(value: float) -> float:
    """Return a number in as many digits as a picture needs; whole ones stay whole."""
    return int(value) if value.is_integer() else float(f"{value:.6g}")


def read_all(source: Source) -> Snapshot:
    """Read everything that is there now.

    Raises:
        FednerError: What was found is damaged.
    """
    while source.look():
        pass
    return source.snapshot()


def cost_all(source: Source, *, newest_alone: bool = False) -> None:
    """Ask the accountant for every epsilon that is drawn, or for the newest of each platform.

    Args:
        source: The run, read.
        newest_alone: Whether earlier rounds are left out: the newest are asked for first.

    Raises:
        FednerError: It is not installed.
    """
    most = len(source.snapshot().platforms) if newest_alone else None
    while most != 0 and source.cost_one():
        most = None if most is None else most - 1


class Watcher:
    """Keeps the newest state of a source, for as long as the block lasts."""

    def __init__(self, source: Source) -> None:
        """Name the source; nothing is read before the block begins."""
        self._source = source
        self._is_closed = threading.Event()
        self._state: State | None = None
        self._told: tuple[Snapshot, str] | None = None
        self._accountant = ""
        self._is_over = False
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._look, self._cost)
        ]

    def __enter__(self) -> "Watcher":
        """Read all that is there, and go on in the background."""
        self._read_on()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the reading."""
        self._is_closed.set()
        self._threads[0].join(10.0)
        self._source.close()

    @property
    def state(self) -> State:
        """The newest state."""
        if self._state is None:
            raise FednerError("nothing was read yet")
        return self._state

    def _look(self) -> None:
        while not self._is_closed.wait(LOOK_SECONDS):
            self._read_on()

    def _read_on(self) -> None:
        """Read what is new; a damaged record is shown as a problem, and looked at again."""
        problem: FednerError | None = None
        try:
            while self._source.look() and not self._is_closed.is_set():
                pass
        except FednerError as error:
            problem = error
        try:
            shown = self._source.snapshot()
        except FednerError as error:
            shown, problem = Snapshot("", "", "local", _UNKNOWN), error
        if self._accountant and shown.privacy is not None:
            shown = replace(shown, notes={**shown.notes, "epsilon": self._accountant})
        self._keep(shown, problem)

    def _keep(self, shown: Snapshot, problem: FednerError | None) -> None:
        """Keep a state, unless it is the one that is kept already."""
        told = (shown, str(problem))
        if told == self._told:
            return
        self._told, self._is_over = told, shown.standing.is_over
        stated = state_json(shown, problem)
        data = json.dumps(stated, ensure_ascii=False, separators=(",", ":")).encode()
        self._state = State(data, hashlib.sha256(data).hexdigest()[:32])

    def _cost(self) -> None:
        """Ask the accountant beside the reading; while a run trains it gets the most of a core."""
        while not self._is_closed.is_set():
            began = time.perf_counter()
            try:
                was_asked = self._source.cost_one()
            except FednerError as error:
                self._accountant = f"{error.message} {error.hint}"
                return
            taken = time.perf_counter() - began
            rest = 0.0 if self._is_over else max(LOOK_SECONDS, _REST * taken)
            self._is_closed.wait(rest if was_asked else 1.0)
