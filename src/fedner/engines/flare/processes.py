"""Starts FLARE's server and platform processes as children, and ends all that belongs to them.

FLARE gives every job a process in a session of its own, which outlives a parent that is killed.
They all inherit where their home is, and are found by that.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HOME = "FEDNER_HOME"
SETTINGS = "FEDNER_SETTINGS"
_SERVER = "fedner.runs.deployment.server_process"  # FLARE's, with a command of ours
_PLATFORM = "nvflare.private.fed.app.client.client_train"
_GRACE_SECONDS = 5.0
_HEARTBEAT_SECONDS = 2.0
# Of the owner's environment, nothing that changes what Python or FLARE loads or where it writes.
_NOT_INHERITED = ("NVFL", "FEDNER_", "PYTHONSTARTUP")  # NVFLARE_X overrides any setting X


@dataclass(frozen=True, slots=True)
class Program:
    """A process of FLARE to start.

    Attributes:
        home: Whose it is; everything that it writes lies there.
        workspace: FLARE's workspace within the home: startup/ and local/.
        org: The organisation of its certificate.
        name: The platform; None for the server.
        settings: The platform's own settings; None for the server.
    """

    home: Path
    workspace: Path
    org: str
    name: str | None = None
    settings: Path | None = None

    @property
    def command(self) -> list[str]:
        """What is run."""
        role = _SERVER if self.name is None else _PLATFORM
        config = "fed_server.json" if self.name is None else "fed_client.json"
        facts = ["secure_train=true", f"org={self.org}", "config_folder=config"]
        if self.name is not None:
            facts += [f"uid={self.name}", f"heart_beat_interval={_HEARTBEAT_SECONDS}"]
        workspace = str(self.workspace)
        return [sys.executable, "-u", "-m", role, "-m", workspace, "-s", config, "--set", *facts]

    @property
    def environment(self) -> dict[str, str]:
        """What it inherits: HOME is a folder of its own, so that nothing is taken from the user's.

        One thread computes at a platform, so that bits do not depend on its cores. FLARE's many
        threads share two arenas of memory: with one each, what they free is not used again, and a
        process grows for hours.
        """
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_NOT_INHERITED)}
        private = self.home / "home"
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
        told = {HOME: str(self.home), "HOME": str(private), "OMP_NUM_THREADS": "1"}
        told["MALLOC_ARENA_MAX"] = "2"
        told["PYTHONSAFEPATH"] = "1"  # nothing is imported from the workspace, which jobs write to
        if self.settings is not None:
            told[SETTINGS] = str(self.settings)
        return kept | told


def start(program: Program, output: IO[bytes] | int | None = None) -> subprocess.Popen[bytes]:
    """Start a process of FLARE, in a process group of its own.

    What an earlier start left behind, such as the job of a parent that was killed, is ended first.

    Args:
        program: What to start.
        output: Where its lines go; None shows them.
    """
    end_members(program.home)
    (program.workspace / "transfer").mkdir(mode=0o700, exist_ok=True)
    return subprocess.Popen(
        program.command,
        env=program.environment,
        cwd=program.workspace,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=True,
    )


def stop(process: subprocess.Popen[bytes], program: Program, grace: float = _GRACE_SECONDS) -> int:
    """End a process and all its jobs; return its exit code."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
    end_members(program.home, grace)
    return process.wait()


def members(home: Path) -> list[int]:
    """Return the processes that work for a home, whoever their parent is."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(HOME) == str(home):
                found.append(process.pid)
        except (psutil.Error, OSError):  # somebody else's, or gone
            continue
    return [pid for pid in found if pid != os.getpid()]


def end_members(home: Path, grace: float = _GRACE_SECONDS) -> None:
    """End every process that works for a home: asked first, then killed."""
    left = members(home)
    _signal(left, signal.SIGTERM)
    end = time.monotonic() + grace
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left = members(home)
    _signal(left, signal.SIGKILL)


def _signal(pids: Sequence[int], kind: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, kind)
        except ProcessLookupError:
            continue
