"""The watchdog at the server: a run whose job ended before its time gets another one.

It has an identity of its own, so that whoever began a run may close the laptop. It keeps nothing in
mind but what FLARE's store and the run folders hold, and may itself be stopped at any moment.
"""

import json
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from fedner.durable import write_text
from fedner.engines.flare.job import FACTS, JobSpec, write_job
from fedner.engines.flare.job_ends import (
    JobEnd,
    append_end,
    faults_by_platform,
    job_end,
    last_begin,
    read_ends,
)
from fedner.engines.flare.refusals import refusal_codes, refusal_words, refusals_in
from fedner.engines.flare.session import (
    CLOSE,
    LOST,
    PRESENT,
    AdminKit,
    AdminSession,
    JobState,
    admin_session,
)
from fedner.errors import FednerError

ENDED_WITH_SERVER = "FINISHED:EXECUTION_EXCEPTION"
STOPPED = "FINISHED:ABORTED"
STOPPED_WORDS = "it was stopped"
_UNFINISHED = ("DISPATCHED", "RUNNING")
_log = logging.getLogger(__name__)
Step = Literal["wait", "submit", "over"]


@dataclass(frozen=True, slots=True)
class Limits:
    """When the watchdog gives up.

    Attributes:
        faults: How many jobs of a run a platform may end before it is left out.
        jobs: How many jobs of a run may end in all, whoever was at fault.
        window: Only faults of the last so many seconds count.
        patience: How many seconds a quorum waits for the others.
        first_pause: How many seconds a job waits after one that met a full disk; twice as many
            after the next one, and so on.
        longest_pause: The most of these.
        room: How many bytes must be free on the server's disk before a job is submitted.
        poll: Seconds between two looks.
    """

    faults: int = 5
    jobs: int = 50
    window: float = 3600.0
    patience: float = 60.0
    first_pause: float = 5.0
    longest_pause: float = 300.0
    room: int = 2**24
    poll: float = 0.5


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands.

    Attributes:
        jobs: Its jobs, oldest first; at least one.
        ends: How they ended.
        names: The platforms of the study.
        quorum: How many must take part; None for all.
        connected: The platforms that the server hears of.
        now: Seconds since 1970.
        idle: For how many seconds no job of it has been running.
        room: The free bytes on the server's disk.
    """

    jobs: Sequence[JobState]
    ends: Sequence[JobEnd]
    names: Sequence[str]
    quorum: int | None
    connected: Sequence[str]
    now: float
    idle: float
    room: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done for a run.

    Attributes:
        step: Wait, submit a job, or leave it since it is over.
        platforms: Who takes part in the next job.
        words: Why, for people; empty where nothing is to be said.
    """

    step: Step
    platforms: tuple[str, ...] = ()
    words: str = ""


def decide(standing: Standing, limits: Limits) -> Decision:
    """Return what is to be done for a run: pure."""
    newest = standing.jobs[-1]
    if not newest.is_over:
        return Decision("wait")
    if newest.is_done:
        return Decision("over", words="it is done")
    last = [end for end in standing.ends if end.time >= newest.submitted]
    if any(end.outcome == "stopped" for end in last):
        return Decision("over", words=STOPPED_WORDS)
    if last and last[-1].outcome != "fault":
        return Decision("over", words=last[-1].words or "it is done")
    if newest.status == STOPPED:
        return Decision("over", words=STOPPED_WORDS)
    return _next_job(standing, limits)


def _next_job(standing: Standing, limits: Limits) -> Decision:
    since = standing.now - limits.window
    counts = faults_by_platform(standing.ends, since)
    left_out = sorted(name for name, count in counts.items() if count >= limits.faults)
    stays = tuple(name for name in sorted(standing.names) if name not in left_out)
    named = ", ".join(f"{name} ended {counts[name]} jobs" for name in left_out)
    needed = len(standing.names) if standing.quorum is None else standing.quorum
    if len(stays) < needed:
        return Decision("over", words=f"too few platforms are left: {named}")
    if standing.room < limits.room:
        return Decision("wait", words="waits for room on the server's disk")
    num_full = sum(bool(end.full_disks) for end in standing.ends if end.time >= since)
    recent = [job for job in standing.jobs if job.submitted >= since and not job.is_done]
    if len(recent) - num_full >= limits.jobs:
        return Decision("over", words=f"{len(recent)} jobs ended before their time")
    if full := _paused_for(standing, limits):
        return Decision("wait", words=f"waits for room on the disk of {full}")
    here = [name for name in stays if name in standing.connected]
    words = f"left out: {named}" if named else ""
    is_enough = standing.idle >= limits.patience and len(here) >= needed
    if len(here) == len(stays) or is_enough:
        return Decision("submit", stays, words)
    missing = ", ".join(name for name in stays if name not in here)
    return Decision("wait", words=f"waits for {missing}")


def _paused_for(standing: Standing, limits: Limits) -> str:
    """Return whose disk was full so lately that another job would meet it again."""
    full = list(takewhile(bool, (end.full_disks for end in reversed(standing.ends))))
    if not full:
        return ""
    pause = min(limits.longest_pause, limits.first_pause * 2.0 ** min(len(full) - 1, 30))
    return "" if standing.idle >= pause else ", ".join(full[0])


def close_stale_jobs(store: Path) -> list[str]:
    """Mark the jobs of a server that was killed as ended, before it starts again; return them.

    FLARE itself would list them as running for ever. They are marked as failed and not as stopped,
    so that the watchdog goes on with their runs.

    Args:
        store: FLARE's store of jobs: a folder for each, with a file `meta`.
    """
    closed = []
    for path in sorted(store.glob("*/meta")):
        meta = json.loads(path.read_text("utf-8"))
        if meta.get("status") in _UNFINISHED:
            write_text(path, json.dumps(meta | {"status": ENDED_WITH_SERVER}), owner_only=True)
            closed.append(path.parent.name)
    return closed


class Watchdog:
    """Looks after all runs of a server."""

    def __init__(
        self,
        kit: AdminKit,
        runs: Path,
        limits: Limits | None = None,
        say: Callable[[str], None] = _log.info,
    ) -> None:
        """Make the watchdog.

        Args:
            kit: Its own identity.
            runs: The folder of the run folders at the server.
            limits: When it gives up.
            say: Called with a line on what it does.
        """
        self._kit = kit
        self._runs = runs
        self._limits = limits or Limits()
        self._say = say
        self._said: dict[str, str] = {}
        self._idle: dict[str, float] = {}
        self._over: set[str] = set()  # ids of newest jobs of runs that are over
        self._closed: set[str] = set()  # ids of jobs that it ended

    def watch(self, stop: threading.Event) -> None:
        """Look after all runs until told to stop; a server that is away is waited for."""
        last = ""
        while not stop.is_set():
            try:
                with admin_session(self._kit) as session:
                    while not stop.is_set():
                        self.look(session)
                        last = ""
                        stop.wait(self._limits.poll)
            except Exception as error:  # noqa: BLE001 - FLARE raises many kinds; try again
                words = f"{type(error).__name__}: {error}"
                if words != last:  # a server that stays away is one line, not one every poll
                    _log.warning("the watchdog lost the server, and tries again: %s", words)
                last = words
                stop.wait(self._limits.poll)

    def look(self, session: AdminSession) -> None:
        """Look at every run once, and submit what is missing."""
        runs: dict[str, list[JobState]] = {}
        for job in session.jobs():
            runs.setdefault(job.run, []).append(job)
        for run, jobs in runs.items():
            newest = jobs[-1]
            if newest.is_queued and newest.remarks:
                self._look_at_queue(session, newest)
            if newest.is_running and last_begin(self._runs / run) < newest.submitted:
                self._look_at_start(session, run, newest.job)
        due = {run: jobs for run, jobs in runs.items() if self._is_due(run, jobs[-1])}
        if not due:
            return
        connected = [str(name) for name in session.ask(PRESENT)["present"]]
        for run, jobs in due.items():
            try:
                self._look_after(session, run, jobs, connected)
            except (FednerError, KeyError, TypeError, ValueError) as error:
                self._tell(run, f"cannot be looked after: {error}")
                self._over.add(jobs[-1].job)

    def _look_at_queue(self, session: AdminSession, job: JobState) -> None:
        """End a job that a platform refuses: FLARE would ask it again every few seconds."""
        if job.job in self._closed:
            return
        study = _study_of(session.meta(job.job))
        refusals = refusals_in(job.remarks[-1:], study.names)
        needed = len(study.names) if study.quorum is None else study.quorum
        if len(study.names) - len(refusals) >= needed:
            return
        words = f"refused by {refusal_words(refusals)}"
        end = JobEnd("refused", refusal_codes(refusals), words, time.time())
        append_end(self._runs / job.run, end)
        self._closed.add(job.job)
        self._tell(job.run, words)
        session.abort(job.job)

    def _look_at_start(self, session: AdminSession, run: str, job: str) -> None:
        """End a job that cannot begin, since a platform's process in it has ended."""
        if job in self._closed:
            return
        lost = [str(name) for name in session.ask(LOST, job)["lost"]]
        if lost:
            words = f"{', '.join(lost)} left while the job began"
            append_end(self._runs / run, job_end(dict.fromkeys(lost, "platform-gone"), words))
            self._closed.add(job)
            self._tell(run, words)
            session.ask(CLOSE, job)

    def _is_due(self, run: str, newest: JobState) -> bool:
        if not newest.is_over:
            self._idle.pop(run, None)
        return newest.is_over and newest.job not in self._over

    def _look_after(
        self, session: AdminSession, run: str, jobs: Sequence[JobState], connected: Sequence[str]
    ) -> None:
        now = time.time()
        began = self._idle.setdefault(run, now)
        study = _study_of(session.meta(jobs[-1].job))
        standing = Standing(
            jobs,
            read_ends(self._runs / run),
            study.names,
            study.quorum,
            connected,
            now,
            now - began,
            _free_bytes(self._runs),
        )
        decision = decide(standing, self._limits)
        if decision.words:
            self._tell(run, decision.words)
        if decision.step == "over":
            self._over.add(jobs[-1].job)
        if decision.step == "submit":
            spec = JobSpec(run, study.text, decision.platforms, study.quorum, study.roster)
            job = submit(session, spec)
            self._tell(run, f"goes on with job {job}")

    def _tell(self, run: str, words: str) -> None:
        if self._said.get(run) != words:
            self._said[run] = words
            self._say(f"run {run}: {words}")


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free if folder.exists() else 2**63


def submit(session: AdminSession, spec: JobSpec) -> str:
    """Write a job and submit it; return its id."""
    with tempfile.TemporaryDirectory(prefix="fedner-job-") as folder:
        return session.submit(write_job(spec, Path(folder) / "job"))


@dataclass(frozen=True, slots=True)
class _Study:
    """What the watchdog needs of a study."""

    text: str
    names: tuple[str, ...]
    quorum: int | None
    roster: str = ""


def _study_of(meta: Mapping[str, Any]) -> _Study:
    """Return the study that a job announced.

    Raises:
        FednerError: It is no job of fedner.
    """
    specs: Iterable[Any] = (meta.get("resource_spec") or {}).values()
    for spec in specs:
        text = spec[FACTS]["study"]
        table = json.loads(text)
        names = tuple(sorted(each["name"] for each in table["platforms"]))
        quorum = table.get("participation", {}).get("quorum")
        return _Study(text, names, quorum, str(spec[FACTS].get("roster") or ""))
    raise FednerError("the job announces no study")
