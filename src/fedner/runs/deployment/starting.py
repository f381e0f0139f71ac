"""`fedner server start` and `fedner platform start`: in the foreground, logged, cleanly stopped.

What FLARE's processes say goes to the terminal and to a rotating file in the home. SIGTERM and
Ctrl-C end them and all their jobs. One home runs once.
"""

import json
import logging
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType

from fedner.durable import owner_folder
from fedner.engines.flare.processes import Program, start, stop
from fedner.errors import FednerError
from fedner.federated.folder_lock import FolderInUseError, held_by_this_process
from fedner.runs.deployment.certificate_check import check_certificate
from fedner.runs.deployment.homes import PlatformHome, ServerHome
from fedner.runs.deployment.kits import (
    LOG_BYTES,
    LOG_FILES,
    ORGANISATION,
    Place,
    write_admin_kit,
    write_platform_kit,
    write_server_kit,
)
from fedner.runs.deployment.taking_part import installed, read_home
from fedner.runs.platform_file import read_platform

Say = Callable[[str], None]
_POLL_SECONDS = 0.2
_OWN = " - fedner - "  # stands in the lines that are fedner's own
_LAST_LINES = 5
_LEAVE_SECONDS = 3.0
_WATCHDOG = "fedner.runs.deployment.watching"
_STOPPED_BY = (signal.SIGTERM, signal.SIGINT)


def start_platform(home: PlatformHome, settings: Path, *, as_json: bool = False) -> None:
    """Connect a platform to its server, and take part in what its policy accepts, until stopped.

    Args:
        home: The platform's home.
        settings: Its own settings.
        as_json: Whether the terminal gets each line as JSON; the file in the home stays text.

    Raises:
        FednerError: The home is not installed, runs already, or its certificate ended; the
            settings have problems; FLARE's process ended by itself.
    """
    home = PlatformHome(home.path.resolve())
    approval, own = installed(home), read_platform(settings)
    name = read_home(home).name
    if own.name != name:
        raise FednerError(
            f"{settings} is of {own.name!r}; {home.path} is the home of {name!r}",
            "Name the settings and the home of the same platform.",
        )
    with _alone(home), _log(home.logs / "platform.log", as_json=as_json) as log:
        say = _stamped(log)
        _require_certificate(home, say)
        write_platform_kit(home, approval.place, name)
        say(f"{name} connects to {approval.place.target}; stop with Ctrl-C or SIGTERM")
        program = Program(home.path, home.workspace, ORGANISATION, name, settings.resolve())
        _run(program, log)


def start_server(home: ServerHome, *, as_json: bool = False) -> None:
    """Run a federation's server and the watchdog beside it, until stopped.

    Args:
        home: The server's home.
        as_json: Whether the terminal gets each line as JSON; the file in the home stays text.

    Raises:
        FednerError: The home is not installed, runs already, or its certificate ended; the port
            is taken; FLARE's process ended by itself.
    """
    from fedner.engines.flare.watchdog import close_stale_jobs

    home = ServerHome(home.path.resolve())
    approval = installed(home)
    with _alone(home), _log(home.logs / "server.log", as_json=as_json) as log:
        say = _stamped(log)
        _require_certificate(home, say)
        write_server_kit(home, approval.place)
        write_admin_kit(home.watchdog, approval.place)
        _require_free_port(approval.place)
        for job in close_stale_jobs(home.jobs):
            say(f"job {job} ended with the server that ran it")
        say(f"server on {approval.place.target}; stop with Ctrl-C or SIGTERM")
        _run(Program(home.path, home.workspace, ORGANISATION), log, _WATCHDOG)


@contextmanager
def _alone(home: PlatformHome | ServerHome) -> Iterator[None]:
    """Hold a home, so that a second start does not end the first one's processes."""
    try:
        with held_by_this_process(home.path):
            yield
    except FolderInUseError as error:
        raise FednerError(
            f"{home.path} is running already, in another process", "Stop that one first."
        ) from error


def _require_certificate(home: PlatformHome | ServerHome, say: Say) -> None:
    for check in check_certificate(home):
        if check.result == "problem":
            raise FednerError(f"certificate {check.found}", check.hint)
        if check.result == "warning":
            say(f"warning: certificate {check.found}. {check.hint}")


def _require_free_port(place: Place) -> None:
    """Refuse a port that somebody has: FLARE would try again for ever."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1" if place.host == "localhost" else "", place.port))
        except OSError as error:
            raise FednerError(
                f"port {place.port} cannot be used here: {error.strerror}",
                "Stop the program that uses it: platforms expect the server on this port.",
            ) from error


@contextmanager
def _log(path: Path, *, as_json: bool) -> Iterator[Say]:
    """Give a function that says a line on the terminal and in a rotating file."""
    owner_folder(path.parent)
    logger = logging.Logger(f"fedner.{path.stem}")
    # The file that is written to is one of them.
    written = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES - 1)
    shown = logging.StreamHandler(sys.stdout)
    written.setFormatter(logging.Formatter("%(message)s"))
    shown.setFormatter(_JsonLines() if as_json else logging.Formatter("%(message)s"))
    for handler in (written, shown):
        logger.addHandler(handler)
    try:
        yield logger.info
    finally:
        written.close()


class _JsonLines(logging.Formatter):
    """One JSON object for each line: when it was said, by fedner or by FLARE, and the line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line as JSON."""
        line = record.getMessage()
        said_by = "fedner" if _OWN in line else "flare"
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": now, "from": said_by, "line": line})


def _stamped(log: Say) -> Say:
    """Return a function for fedner's own lines, which have a time like those of FLARE."""
    return lambda line: log(f"{datetime.now():%Y-%m-%d %H:%M:%S,%f}"[:-3] + f"{_OWN}{line}")


def _run(program: Program, log: Say, beside: str | None = None) -> None:
    """Run a process of FLARE until somebody stops it or it ends by itself.

    Args:
        program: What to run.
        log: Where its lines go.
        beside: A module that runs beside it, and again whenever it ends.
    """
    stopping = threading.Event()
    with _signals(stopping):
        process = start(program, subprocess.PIPE)
        last: deque[str] = deque(maxlen=_LAST_LINES)
        _follow(process, log, last)
        companion: subprocess.Popen[bytes] | None = None
        try:
            while process.poll() is None and not stopping.wait(_POLL_SECONDS):
                if beside is not None and (companion is None or companion.poll() is not None):
                    companion = _start_beside(program, beside)
                    _follow(companion, log, deque(maxlen=1))
            was_asked = stopping.is_set()
        finally:
            if companion is not None:
                _end(companion)
            code = stop(process, program)
    if not was_asked:
        raise FednerError(
            f"FLARE's process ended by itself with code {code}: " + " | ".join(last),
            f"Its output is in {program.home / 'logs'}; fix the cause and start again.",
        )
    _stamped(log)("stopped")


def _start_beside(program: Program, module: str) -> "subprocess.Popen[bytes]":
    """Start a module of ours that belongs to the same home, and is found and ended with it."""
    return subprocess.Popen(
        [sys.executable, "-u", "-m", module, str(program.home)],
        env=program.environment,
        cwd=program.home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _end(companion: "subprocess.Popen[bytes]") -> None:
    """Let a companion say goodbye to a server that still listens."""
    companion.terminate()
    try:
        companion.wait(_LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        companion.kill()
        companion.wait()


def _follow(process: "subprocess.Popen[bytes]", log: Say, last: deque[str]) -> None:
    threading.Thread(target=_pass_on, args=(process, log, last), daemon=True).start()


def _pass_on(process: "subprocess.Popen[bytes]", log: Say, last: deque[str]) -> None:
    for line in process.stdout or ():
        text = line.decode(errors="replace").rstrip()
        last.append(text)
        log(text)


@contextmanager
def _signals(stopping: threading.Event) -> Iterator[None]:
    """Turn the signals that ask a program to stop into an event."""

    def asked(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, asked) for number in _STOPPED_BY}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
