"""FLARE's server with one more command: `python -m fedner.runs.deployment.server_process`.

The command `fedner` travels in FLARE's admin sessions: mutual TLS, and a caller whose certificate
FLARE has checked at the login. What it may tell whom is decided in `serving`.
"""

import runpy
from typing import Any

from nvflare.fuel.hci.reg import CommandModule, CommandModuleSpec, CommandSpec
from nvflare.fuel.hci.server.constants import ConnProps
from nvflare.private.fed.server.server_cmd_modules import ServerCommandModules

from fedner.engines.flare.session import COMMAND
from fedner.runs.deployment import listener
from fedner.runs.deployment.homes import ServerHome
from fedner.runs.deployment.places import own_home
from fedner.runs.deployment.serving import Caller, Desk

_SERVER = "nvflare.private.fed.app.server.server_train"


class RunCommands(CommandModule):  # type: ignore[misc]
    """Registers the command with FLARE's server."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def get_spec(self) -> CommandModuleSpec:
        """Return what FLARE registers."""
        spec = CommandSpec(
            name=COMMAND,
            description="progress and released files of a run",
            usage=f"{COMMAND} progress|stop|files|read|link RUN ...",
            handler_func=self.handle,
            visible=False,
        )
        return CommandModuleSpec(name=COMMAND, cmd_specs=[spec])

    def handle(self, conn: Any, words: list[str]) -> None:
        """Answer one question of an authenticated caller."""
        role = conn.get_prop(ConnProps.USER_ROLE, "") or ""
        caller = Caller(str(conn.get_prop(ConnProps.USER_NAME, "")), str(role))
        conn.append_dict(self._desk.answer(caller, words[1:]))


def main() -> None:
    """Run FLARE's server for the home that this process was started for."""
    home = ServerHome(own_home().resolve())
    listener.install()
    ServerCommandModules.register_cmd_module(RunCommands(Desk(home.runs, home.removed)))
    runpy.run_module(_SERVER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
