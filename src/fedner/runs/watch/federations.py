"""The coordinator's own folder: a run at the server, asked about over the coordinator's session."""

import threading
from collections import deque
from pathlib import Path

from fedner.errors import FednerError
from fedner.federated.record import RoundRecord
from fedner.runs.deployment.federation import read_federation_study
from fedner.runs.deployment.homes import FederationHome
from fedner.runs.deployment.running import follow, overview
from fedner.runs.deployment.standing import RunState
from fedner.runs.watch.results import Results
from fedner.runs.watch.snapshot import Snapshot, Standing
from fedner.runs.watch.source import Silent, Sink, cost_one, snapshot_of
from fedner.runs.watch.tallies import Tally

_PAUSE = 5.0  # seconds between two questions about a run that is over, or not there yet
_MOST_AT_ONCE = 5_000


class FederationSource:
    """A run at the server, followed from the coordinator's machine.

    A thread asks; a look takes what it heard. The thread ends with the process: a question over a
    session cannot be broken off.
    """

    def __init__(self, home: Path, run: str | None = None, sink: Sink | None = None) -> None:
        """Begin to ask.

        Args:
            home: The coordinator's folder.
            run: The run; None takes the newest.
            sink: Who else hears of every round.

        Raises:
            FednerError: It is no folder of a coordinator.
        """
        self._home = FederationHome(home)
        self._study = read_federation_study(self._home)
        self._wanted, self._run = run, run or ""
        self._sink = sink or Silent()
        self._tally = Tally(self._study.names)
        self._heard: deque[RoundRecord | str] = deque()  # a run's name: its rounds begin anew
        self._state: RunState | None = None
        self._away = ""
        self._is_closed = threading.Event()
        self._first = threading.Event()
        threading.Thread(target=self._ask, daemon=True).start()

    def look(self) -> bool:
        """Take what was heard."""
        self._first.wait(10.0)
        for _ in range(min(len(self._heard), _MOST_AT_ONCE)):
            each = self._heard.popleft()
            if isinstance(each, str):
                self._run, self._tally = each, Tally(self._study.names)
                self._sink.begin(each, 0)
            else:
                self._tally.add(each)
                self._sink.add(each)
        return bool(self._heard)

    def snapshot(self) -> Snapshot:
        """Return what is to be shown now."""
        state = self._state
        gone = frozenset(() if state is None else state.missing)
        return snapshot_of(
            self._study,
            self._tally,
            self._standing(state),
            self._results(),
            run=self._run,
            view="coordinator",
            gone=gone,
        )

    def cost_one(self) -> bool:
        """Ask the accountant for one more epsilon.

        Raises:
            FednerError: It is not installed.
        """
        return cost_one(self._study, self._tally)

    def close(self) -> None:
        """Ask no more."""
        self._is_closed.set()

    def _standing(self, state: RunState | None) -> Standing:
        if self._away:
            return Standing("waiting", f"the server does not answer: {self._away}")
        if state is None:
            return Standing("waiting", "this federation has no run yet: fedner federation train")
        if state.phase == "refused":
            why = "; ".join(f"{k}: {', '.join(each)}" for k, each in sorted(state.refusals.items()))
            return Standing("refused", why, tuple(sorted(state.refusals)))
        is_waiting = state.phase in ("waiting", "interrupted", "running")
        gone = tuple(sorted({*state.missing, *state.failures})) if is_waiting else ()
        return Standing(state.phase, state.words, gone)

    def _results(self) -> Results:
        is_done = self._state is not None and self._state.phase == "done"
        words = "All rounds are done. The scores at the end: fedner federation fetch"
        return Results(verdict=(words,) if is_done else ())

    def _ask(self) -> None:
        """Follow the run for as long as anybody looks, also when it is resumed."""
        while not self._is_closed.is_set():
            try:
                state = overview(self._home, self._wanted).state
                self._away = ""
                if state is not None and (state.run != self._run or not state.is_over):
                    self._heard.append(state.run)
                    self._run = state.run
                    state = follow(
                        self._home,
                        state.run,
                        on_state=self._on_state,
                        on_round=self._heard.append,
                        on_away=self._on_away,
                    )
                self._state = state
            except Exception as error:  # noqa: BLE001 - FLARE raises many kinds; it is asked again
                self._on_away(error.message if isinstance(error, FednerError) else str(error))
            self._first.set()
            self._is_closed.wait(_PAUSE)

    def _on_state(self, state: RunState) -> None:
        self._state, self._away = state, ""
        self._first.set()

    def _on_away(self, why: str) -> None:
        self._away = why
        self._first.set()
