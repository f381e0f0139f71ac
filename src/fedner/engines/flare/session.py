"""A session with FLARE's server: submit and stop jobs, see jobs and connected platforms.

FLARE looks for its own files in the working folder, writes to the home folder, and hangs a process
whose sessions stay open; a session here is always closed, and works from a folder without files.
"""

import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedner.engines.flare import finished_streams
from fedner.errors import FednerError

_log = logging.getLogger(__name__)
_FOLDER_LOCK = threading.Lock()
COMMAND = "fedner"
PRESENT, LOST, CLOSE = "present", "lost", "close"  # what the watchdog alone may ask it
_REJECTED = "client_registration"  # FLARE's word where the server does not admit somebody
DONE = "FINISHED:COMPLETED"
_RUNNING = "RUNNING"
_QUEUED = ("SUBMITTED", "APPROVED")
_FINISHED = "FINISHED"


@dataclass(frozen=True, slots=True)
class AdminKit:
    """Who speaks to the server.

    Attributes:
        folder: The folder that holds startup/ with key and certificate.
        name: The e-mail address in the certificate.
    """

    folder: Path
    name: str


@dataclass(frozen=True, slots=True)
class JobState:
    """What the server says of a job.

    Attributes:
        job: FLARE's id of it.
        run: The run that it belongs to.
        status: FLARE's word for how far it is.
        submitted: When it was submitted, in seconds since 1970.
        remarks: Why it was not scheduled, newest last.
    """

    job: str
    run: str
    status: str
    submitted: float
    remarks: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.status.startswith(_FINISHED)

    @property
    def is_queued(self) -> bool:
        """Whether the server has not yet given it to anybody."""
        return self.status in _QUEUED

    @property
    def is_running(self) -> bool:
        """Whether its processes were started, and it has not ended."""
        return self.status == _RUNNING

    @property
    def is_done(self) -> bool:
        """Whether it came to its end."""
        return self.status == DONE


class AdminSession:
    """An open session."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def submit(self, folder: Path) -> str:
        """Submit a job; return its id."""
        return str(self._session.submit_job(str(folder.resolve())))

    def abort(self, job: str) -> None:
        """Stop a job."""
        self._session.abort_job(job)

    def refuse(self, platform: str) -> None:
        """Let the server refuse a platform from now on, also after a restart."""
        self._session.disable_client(platform)

    def admit(self, platform: str) -> None:
        """Let the server admit a platform again that it was told to refuse."""
        self._session.enable_client(platform)

    def jobs(self, run: str | None = None) -> list[JobState]:
        """Return the jobs of a run, or all, in the order of their submission."""
        found = self._session.list_jobs(detailed=True, name_prefix=run)
        states = [_state(each) for each in found]
        kept = [each for each in states if run is None or each.run == run]
        return sorted(kept, key=lambda each: each.submitted)

    def ask(self, *words: str) -> dict[str, Any]:
        """Ask the server about its runs, with the command that fedner adds to FLARE's.

        Raises:
            FednerError: The server refused, or did not answer.
        """
        result = self._session.api.server_execute(" ".join((COMMAND, *words)))
        for each in result.get("data") or ():
            if isinstance(each, dict) and isinstance(found := each.get("data"), dict):
                if "error" in found:
                    raise FednerError(f"the federation's server refused: {found['error']}")
                return found
        raise FednerError(
            f"the federation's server gave no answer: {result.get('details', '')}",
            "Try again; if that does not help, server and coordinator may have different releases.",
        )

    def meta(self, job: str) -> dict[str, Any]:
        """Return what the server keeps of a job."""
        return dict(self._session.get_job_meta(job))

    def connected(self, within: float = 10.0, now: float | None = None) -> list[str]:
        """Return the platforms that the server has heard of within some seconds, sorted.

        Args:
            within: How many seconds.
            now: What the server's clock shows; None on the server's own machine.
        """
        info = self._session.get_system_info()
        now = time.time() if now is None else now
        return sorted(
            each.name for each in info.client_info if now - (each.last_connect_time or 0) <= within
        )


def _state(meta: dict[str, Any]) -> JobState:
    return JobState(
        str(meta.get("job_id", "")),
        str(meta.get("job_name", meta.get("name", ""))),
        str(meta.get("status", "")),
        float(meta.get("submit_time") or 0.0) if _is_number(meta.get("submit_time")) else 0.0,
        tuple(str(each) for each in meta.get("schedule_history") or ()),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


@contextmanager
def admin_session(kit: AdminKit, timeout: float = 10.0) -> Iterator[AdminSession]:
    """Open a session, and close it.

    Raises:
        FednerError: The server cannot be reached, or does not know the kit.
    """
    from nvflare.fuel.flare_api.flare_api import Session
    from nvflare.fuel.hci.client import api

    finished_streams.install()
    api._print_hci_message = _log.debug  # it would print a line for every session
    location = str(kit.folder.resolve())
    with _empty_folder():
        session = Session(kit.name, location, secure_mode=True)
    try:
        with _empty_folder():
            _connect(session, kit, timeout)
        yield AdminSession(session)
    finally:
        _close(session)


def _connect(session: Any, kit: AdminKit, timeout: float) -> None:
    session.api.auto_login_max_tries = 1  # whoever calls tries again, and is told
    try:
        session.try_connect(timeout)
    except Exception as error:
        if _REJECTED in str(error):
            raise FednerError(
                f"the federation's server refuses the certificate of {kit.name}",
                "It may have been removed or have expired: ask the coordinator.",
            ) from error
        raise FednerError(
            f"the federation's server does not answer {kit.name}: {error}",
            "Start it with `fedner server start`, and check that its address is reachable.",
        ) from error


def _close(session: Any) -> None:
    """Close a session; its connection is ended even where the server cannot be told."""
    try:
        session.close()
    except Exception as error:  # noqa: BLE001 - nobody is there to say goodbye to
        _log.debug("a session ended without the server: %s", error)
    finally:
        session.api.close()
        if session.api.cell is not None:
            session.api.cell.core_cell.communicator.stop()


@contextmanager
def _empty_folder() -> Iterator[None]:
    """Work in an empty folder; one thread at a time, since a process has one working folder."""
    with _FOLDER_LOCK, tempfile.TemporaryDirectory(prefix="fedner-session-") as empty:
        before = _working_folder()
        os.chdir(empty)
        try:
            yield
        finally:
            os.chdir(before if before.is_dir() else "/")


def _working_folder() -> Path:
    """Return where this process works; the root where that folder was removed meanwhile."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")
