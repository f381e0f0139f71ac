"""The platforms of one process: built when first needed, held or spilled to disk between turns.

A platform is wholly described by its name (which `build` makes a platform of) and its
`PlatformState`, so that a thousand platforms need no more memory than those that are live.
"""

import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from fedner.errors import FednerError
from fedner.federated.aggregate import Reply
from fedner.federated.checkpoints import (
    drop_after,
    platform_folder,
    read_state,
    stored_rounds,
    write_state,
)
from fedner.federated.dp_steps import BudgetSpentError
from fedner.federated.messages import Broadcast, failure
from fedner.federated.orders import OrderRefusedError, RoundPassedError
from fedner.federated.platform import LocalFunction, Platform, PlatformState
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Scores

Build = Callable[[str], Platform]

_FACTS = "fedner"
_log = logging.getLogger(__name__)


_CODES: tuple[tuple[type[FednerError], str], ...] = (
    (BudgetSpentError, "budget-spent"),
    (OrderRefusedError, "order-refused"),
    (RoundPassedError, "round-passed"),
    (FednerError, "error"),
)


def logged_code(error: Exception, where: str) -> str:
    """Write an error, with its text, to the platform's own log; return the code for others."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            _log.warning("%s: %s", where, error)
            return code
    _log.error("%s failed", where, exc_info=error)
    return "unexpected"


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one intra-op thread: bits do not depend on the cores, and small steps win."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Roster:
    """Some platforms, and what an engine asks of them.

    Attributes:
        names: The platforms, sorted.
        folder: The run folder for stored states, or None.
        max_live: How many platforms are held in memory at once; None holds all.
    """

    def __init__(
        self,
        build: Build,
        names: Sequence[str],
        local: LocalFunction,
        folder: Path | None = None,
        max_live: int | None = None,
    ) -> None:
        if max_live is not None and max_live < 1:
            raise FednerError(f"max_live: found {max_live}; expected at least 1, or none")
        self.names = sorted(names)
        self.folder = folder
        self.max_live = max_live
        self._build = build
        self._local = local
        self._live: dict[str, Platform] = {}
        self._spill: tempfile.TemporaryDirectory[str] | None = None

    def run_round(self, name: str, broadcast: Broadcast) -> Reply:
        """Let a platform work through a round; whatever goes wrong there is a `Failure`.

        What it tells is a code with fixed words. The text is for the platform's own log.
        """
        try:
            with one_thread():
                return self.platform(name).run_round(self._local, broadcast)
        except Exception as error:  # noqa: BLE001 - one platform's fault must not end the others
            code = logged_code(error, f"platform {name}, round {broadcast.round!r:.20}")
            return failure(name, broadcast.round, code)

    def scores(self, name: str, broadcast: Broadcast) -> Scores | NoisedScores | None:
        """Return what a platform tells of its scores; None if nothing, as with a spent budget."""
        try:
            with one_thread():
                return self.platform(name).scores(broadcast)
        except (BudgetSpentError, OrderRefusedError, RoundPassedError) as error:
            _log.warning("platform %s tells no scores: %s", name, error.message)
            return None

    def platform(self, name: str) -> Platform:
        """Return a platform, live; the one that was not used for longest may have to go."""
        found = self._live.pop(name, None)
        if found is None:
            self._make_room()
            found = self._build(name)
            spilled = self._spilled_state(name)
            if spilled is not None:
                found.restore(spilled)
        self._live[name] = found
        return found

    def save(self, round_: int) -> None:
        """Store every platform's state under a round."""
        folder = self._need_folder()
        for name in self.names:
            spilled = None if name in self._live else self._spilled_state(name)
            state = self.platform(name).state() if spilled is None else spilled
            stored = platform_folder(folder, name)
            write_state(stored, round_, state.tensors, state.facts)
            if name in self._live:
                self._live[name].forget_releases(stored_rounds(stored)[0])

    def load(self, round_: int) -> None:
        """Go on from a stored round; 0 is the beginning."""
        self._let_go()
        self._drop_spill()
        if self.folder is None and not round_:
            return
        folder = self._need_folder()
        for name in self.names:
            stored = platform_folder(folder, name)
            drop_after(stored, round_)
            if not round_:
                continue
            state = PlatformState(*read_state(stored, round_))
            if self.max_live is None:
                self.platform(name).restore(state)
            else:
                self._spill_state(name, state)

    def close(self) -> None:
        """Let go of all platforms."""
        self._let_go()
        self._drop_spill()

    def _let_go(self) -> None:
        for platform in self._live.values():
            platform.close()
        self._live = {}

    def _make_room(self) -> None:
        while self.max_live is not None and len(self._live) >= self.max_live:
            name = next(iter(self._live))
            gone = self._live.pop(name)
            self._spill_state(name, gone.state())
            gone.close()

    def _spill_state(self, name: str, state: PlatformState) -> None:
        """Put a state aside; a crash may lose it, since checkpoints are what runs resume from."""
        if self._spill is None:
            self._spill = tempfile.TemporaryDirectory(prefix="fedner-spill-")
        path = Path(self._spill.name) / str(self.names.index(name))
        save_file(dict(state.tensors), path, {_FACTS: json.dumps(state.facts)})

    def _spilled_state(self, name: str) -> PlatformState | None:
        if self._spill is None:
            return None
        path = Path(self._spill.name) / str(self.names.index(name))
        if not path.exists():
            return None
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})[_FACTS])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        return PlatformState(tensors, facts)

    def _drop_spill(self) -> None:
        if self._spill is not None:
            self._spill.cleanup()
            self._spill = None

    def _need_folder(self) -> Path:
        if self.folder is None:
            raise FednerError(
                "this engine has no folder to store platforms' states in",
                "Give the engine the run folder, or run without checkpoints.",
            )
        return self.folder
