"""FLARE's server with one more command: `python -m fedner.runs.deployment.server_process`.

The command `fedner` travels in FLARE's admin sessions: mutual TLS, and a caller whose certificate
FLARE has checked at the login. What it may tell whom is decided in `serving`.
"""

import logging
import runpy
import time
from collections.abc import Sequence
from typing import Any

from nvflare.fuel.hci.reg import CommandModule, CommandModuleSpec, CommandSpec
from nvflare.fuel.hci.server.constants import ConnProps
from nvflare.private.fed.server.server_cmd_modules import ServerCommandModules

from fedner.engines.flare import finished_streams, garbage
from fedner.engines.flare.known_tokens import remember_tokens
from fedner.engines.flare.presence import Presence, close_job, contacts, hear_failures, present
from fedner.engines.flare.session import CLOSE, COMMAND, LOST, PRESENT
from fedner.runs.deployment import listener
from fedner.runs.deployment.audit_log import bound_audit_log
from fedner.runs.deployment.homes import ServerHome
from fedner.runs.deployment.places import own_home
from fedner.runs.deployment.serving import Caller, Desk

WATCHDOG = "watchdog"  # the role in the certificate
_SERVER = "nvflare.private.fed.app.server.server_train"


_log = logging.getLogger(__name__)


class JobDesk:
    """What the watchdog may ask: who is there, whose process in a job ended, to end a job."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence

    def answer(self, engine: Any, role: str, words: Sequence[str]) -> dict[str, Any]:
        """Return the answer, a table for JSON; a refusal has a key `error`. It never raises."""
        if role != WATCHDOG:
            return {"error": "only the watchdog may ask that"}
        try:
            if words[0] == PRESENT:
                return {"present": present(engine, time.time())}
            verb, job = words
            if verb == CLOSE:
                close_job(engine, job)
                return {"closed": job}
            self._presence.keep(list(engine.run_processes))
            return {"lost": self._presence.lost(job, contacts(engine, job), time.monotonic())}
        except Exception:  # noqa: BLE001 - what FLARE holds may change while it is read
            _log.exception("the watchdog got no answer")
            return {"error": "the server cannot answer that"}


class RunCommands(CommandModule):  # type: ignore[misc]
    """Registers the command with FLARE's server."""

    def __init__(self, desk: Desk, jobs: JobDesk) -> None:
        self._desk = desk
        self._jobs = jobs

    def get_spec(self) -> CommandModuleSpec:
        """Return what FLARE registers."""
        spec = CommandSpec(
            name=COMMAND,
            description="progress and released files of a run",
            usage=f"{COMMAND} progress|stop|files|read|link ... | {PRESENT} | {LOST}|{CLOSE} JOB",
            handler_func=self.handle,
            visible=False,
        )
        return CommandModuleSpec(name=COMMAND, cmd_specs=[spec])

    def handle(self, conn: Any, words: list[str]) -> None:
        """Answer one question of an authenticated caller."""
        role = conn.get_prop(ConnProps.USER_ROLE, "") or ""
        if set(words[1:2]) & {PRESENT, LOST, CLOSE}:
            conn.append_dict(self._jobs.answer(conn.app_ctx, str(role), words[1:]))
            return
        caller = Caller(str(conn.get_prop(ConnProps.USER_NAME, "")), str(role))
        conn.append_dict(self._desk.answer(caller, words[1:]))


def main() -> None:
    """Run FLARE's server for the home that this process was started for."""
    home = ServerHome(own_home().resolve())
    listener.install()
    finished_streams.install()
    garbage.collect_always()
    bound_audit_log()
    presence = Presence()
    hear_failures(presence)
    remember_tokens()
    commands = RunCommands(Desk(home.runs, home.removed), JobDesk(presence))
    ServerCommandModules.register_cmd_module(commands)
    runpy.run_module(_SERVER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
