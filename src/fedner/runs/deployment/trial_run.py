"""`fedner federation trial`: a federation on this machine, with real processes and mutual TLS.

Everything is made by the steps and started by the commands that hospitals use. All processes are
ended when the block ends, however it does.
"""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

from fedner.corpus.synthetic import PLATFORMS
from fedner.durable import owner_folder, write_text
from fedner.engines.flare.processes import end_members
from fedner.errors import FednerError
from fedner.runs.deployment.homes import PlatformHome, ServerHome
from fedner.runs.deployment.kits import Place
from fedner.runs.deployment.sessions import coordinator_session, require_reachable
from fedner.runs.deployment.taking_part import installed, request_platform
from fedner.runs.deployment.trial import Homes, install_here, trial_homes
from fedner.runs.study_defaults import with_defaults
from fedner.runs.study_files import Halves, halves_of
from fedner.settings import Settings, parse_as, platform_toml, read_toml

NEWCOMER = "newcomer"
MOST_PLATFORMS = 9
_STUDY = "trial.toml"
_SENTENCES = 300
_UP_SECONDS, _DOWN_SECONDS, _POLL_SECONDS = 120.0, 20.0, 0.3
_LAST_LINES = 5
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """A federation on this machine.

    Attributes:
        homes: The homes of all.
        newcomer: The home of somebody who takes no part, and fetches the model.
    """

    homes: Homes
    newcomer: PlatformHome


def trial_settings(number: int, num_sentences: int = _SENTENCES) -> Settings:
    """Return the federation of a trial.

    Raises:
        FednerError: The number of platforms does not fit.
    """
    if not 2 <= number <= MOST_PLATFORMS:
        raise FednerError(
            f"{number} platforms; expected 2 to {MOST_PLATFORMS}", "A trial has 3: leave -n out."
        )
    table = read_toml(Path(str(files("fedner.runs").joinpath(_STUDY))), "a study")
    table["platforms"] = [_platform(at, num_sentences) for at in range(number)]
    return parse_as(Settings, table, _STUDY)


def _platform(at: int, num_sentences: int) -> dict[str, Any]:
    source = list(PLATFORMS)[at % len(PLATFORMS)]
    again = at // len(PLATFORMS)
    return {
        "name": f"{source}-{again + 1}" if again else source,
        "data": f"synthetic:{source}",
        "num_sentences": num_sentences,
        "split": {"by": "patient", "test": 0.2},
        "policy": {"newcomers": [NEWCOMER], "max_rounds": 1000},
    }


@contextmanager
def running_trial(folder: Path, settings: Settings, say: Say) -> Iterator[Trial]:
    """Make and start a federation on this machine; end all its processes with the block.

    Args:
        folder: Where its homes stand.
        settings: The federation.
        say: Called with a line for each step.

    Raises:
        FednerError: A process ended by itself, or not all of them connected in time.
    """
    folder = owner_folder(folder).resolve()
    processes: dict[Path, subprocess.Popen[bytes]] = {}
    with _interruptible():
        try:
            trial, own = _install(folder, settings, say)
            _start_all(trial, own, processes, say)
            yield trial
        finally:
            with _undisturbed():
                _end_all(processes)
                say("all processes are stopped")


def _install(folder: Path, settings: Settings, say: Say) -> tuple[Trial, dict[str, Path]]:
    """Make all homes: keys, requests, approvals, as between machines."""
    halves = halves_of(settings)
    study = with_defaults(halves.study)
    say(
        f"certificate authority, server and {len(study.names)} platforms: keys, requests, approvals"
    )
    homes = trial_homes(folder, study, study.names, _free_port())
    newcomer = PlatformHome(folder / NEWCOMER)
    install_here(homes.federation, newcomer, request_platform(newcomer, NEWCOMER))
    return Trial(homes, newcomer), _own_settings(homes, halves)


def _own_settings(homes: Homes, halves: Halves) -> dict[str, Path]:
    """Write each platform's settings into its home."""
    found = {}
    for name, own in halves.platforms.items():
        found[name] = homes.platforms[name].path / "platform.toml"
        write_text(found[name], platform_toml(own), owner_only=True)
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_all(
    trial: Trial,
    own: dict[str, Path],
    processes: dict[Path, "subprocess.Popen[bytes]"],
    say: Say,
) -> None:
    server, place = trial.homes.server, installed(trial.homes.server).place
    processes[server.path] = _started(server, "server", "start")
    for name, home in trial.homes.platforms.items():
        words = ("platform", "start", "--settings", str(own[name]))
        processes[home.path] = _started(home, *words)
    _wait(lambda: _listens(place), processes, "the server does not listen")
    say(f"server on {place.target}, process {processes[server.path].pid}")
    names = sorted(trial.homes.platforms)
    with coordinator_session(trial.homes.federation) as session:
        _wait(lambda: names == session.connected(), processes, "not all platforms connected")
    say(f"connected over mutual TLS: {', '.join(names)}")


def _started(home: ServerHome | PlatformHome, *words: str) -> "subprocess.Popen[bytes]":
    """Start a command of fedner in a process group of its own; it logs into its home."""
    command = [sys.executable, "-m", "fedner", *words, "--home", str(home.path)]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _listens(place: Place) -> bool:
    try:
        require_reachable(place)
    except FednerError:
        return False
    return True


def _wait(
    holds: Callable[[], bool], processes: dict[Path, "subprocess.Popen[bytes]"], otherwise: str
) -> None:
    end = time.monotonic() + _UP_SECONDS
    while not holds():
        for home, process in processes.items():
            if process.poll() is not None:
                raise FednerError(f"{home.name} ended by itself: {_last_lines(home)}")
        if time.monotonic() > end:
            said = " | ".join(f"{home.name}: {_last_lines(home)}" for home in processes)
            raise FednerError(f"{otherwise} within {_UP_SECONDS:.0f} s: {said}")
        time.sleep(_POLL_SECONDS)


def _last_lines(home: Path) -> str:
    lines: list[str] = []
    for path in sorted((home / "logs").glob("*.log")):
        lines += path.read_text(errors="replace").splitlines()[-_LAST_LINES:]
    return " / ".join(lines) or "it said nothing"


def _end_all(processes: dict[Path, "subprocess.Popen[bytes]"]) -> None:
    """Ask all to stop, then end what is left of them and of their jobs."""
    for process in processes.values():
        if process.poll() is None:
            process.terminate()
    end = time.monotonic() + _DOWN_SECONDS
    for home, process in processes.items():
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        end_members(home, 1.0)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the block as Ctrl-C does."""

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handling((signal.SIGTERM, signal.SIGHUP), interrupted):
        yield


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let nobody interrupt the block: processes would be left behind."""
    with _handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN):
        yield


@contextmanager
def _handling(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
