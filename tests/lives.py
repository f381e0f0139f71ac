"""Runs that can be killed: every life is forked from one process that has imported torch already.

A life waits after each round until it is granted the next one, so that it cannot end before it is
killed, however fast or slow the machine is.
"""

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

Say = Callable[[str], None]  # tells how far a run is; "go ..." comes back when more is granted
_SECONDS = 300
_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["torch", "dp_accounting.rdp", "fedner.federated.run", "fedner.privacy.ledger"]
)


class Life:
    """A process that runs `main(*args, say)`, until it has ended or is killed."""

    def __init__(self, main: Callable[..., None], *args: Any) -> None:
        self._ours, theirs = _FORKS.Pipe()
        self.process = _FORKS.Process(target=_live, args=(main, args, theirs))
        self.process.start()
        theirs.close()

    def grant(self, rounds: int) -> None:
        """Let it go on for some rounds; it may be anywhere in the next one then."""
        for _ in range(rounds):
            assert self._said().startswith("go")
            self._ours.send(None)

    def kill(self) -> None:
        """End it by SIGKILL, wherever it is."""
        self.process.kill()
        self.process.join()
        self._ours.close()

    def finish(self) -> str:
        """Let it go on to its end; return the last that it said."""
        while (said := self._said()).startswith("go"):
            self._ours.send(None)
        self.process.join(_SECONDS)
        assert self.process.exitcode == 0
        self._ours.close()
        return said

    def _said(self) -> str:
        assert self._ours.poll(_SECONDS), "the run said nothing"
        return str(self._ours.recv())


def _live(main: Callable[..., None], args: tuple[Any, ...], connection: Connection) -> None:
    def say(words: str) -> None:
        connection.send(words)
        if words.startswith("go"):
            connection.recv()

    main(*args, say)
