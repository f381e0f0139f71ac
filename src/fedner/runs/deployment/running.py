"""What the coordinator does with a run across machines: begin, follow, stop, go on.

The run itself lives at the server: whoever began it may close the laptop.
"""

import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fedner.engines.flare.job import FACTS, JobSpec, require_run_name
from fedner.engines.flare.job_ends import parse_ends
from fedner.engines.flare.session import AdminSession, JobState
from fedner.engines.flare.watchdog import submit
from fedner.errors import FednerError
from fedner.federated.record import RoundRecord, parse_round
from fedner.runs.deployment.expiry import expiry
from fedner.runs.deployment.federation import (
    FederationRecord,
    federation_name,
    read_federation,
    read_federation_study,
    signed_roster,
)
from fedner.runs.deployment.homes import FederationHome
from fedner.runs.deployment.sessions import coordinator_session
from fedner.runs.deployment.standing import RunState, run_state
from fedner.settings import Study, parse_as

POLL_SECONDS = 1.0
_STOP_SECONDS = 60.0
_AWAY_SECONDS = 3.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Started:
    """A job that was submitted.

    Attributes:
        run: The run.
        job: FLARE's id of the job.
        before: An earlier run of this federation that was stopped or failed; empty for none.
    """

    run: str
    job: str
    before: str = ""


def require_federations_study(home: FederationHome, study: Study) -> None:
    """Refuse a study that is not the federation's.

    Raises:
        FednerError: It is another one.
    """
    record = read_federation(home)
    if study.digest != record.study_digest:
        raise FednerError(
            f"the study's digest is {study.digest}; that of the federation in {home.path} is "
            f"{record.study_digest}",
            "Train the study that the members were approved for, without naming a study; or "
            "first give the federation the new one: fedner federation update STUDY",
        )


def start_run(home: FederationHome, run: str | None = None) -> Started:
    """Begin a run of the federation's study.

    Args:
        home: The coordinator's folder.
        run: Names the run; None makes a name.

    Raises:
        FednerError: A platform is not approved, a run goes on already, the name is taken, or the
            server cannot be reached.
    """
    record, study = read_federation(home), read_federation_study(home)
    names = takes_part(record, study)
    name = new_run_name(study) if run is None else require_run_name(run)
    with coordinator_session(home) as session:
        jobs = session.jobs()
        if any(job.run == name for job in jobs):
            raise FednerError(
                f"there is a run {name} already",
                f"Go on with it: fedner federation resume --run {name}; or take another name.",
            )
        before = _require_nothing_running(session, jobs)
        return Started(name, submit(session, _spec(home, name, study, names)), before)


def new_run_name(study: Study) -> str:
    """Return a name that no other run has."""
    today = f"{datetime.now(UTC):%Y%m%d}"
    return f"{federation_name(study.title)}-{today}-{secrets.token_hex(3)}"


def takes_part(record: FederationRecord, study: Study) -> tuple[str, ...]:
    """Return the platforms of a study that were approved and not removed.

    Raises:
        FednerError: Too few are.
    """
    approved = {each.name for each in record.members if each.is_platform and each.removed is None}
    names = tuple(name for name in study.names if name in approved)
    quorum = study.participation.quorum
    if len(names) < (len(study.names) if quorum is None else quorum):
        others = ", ".join(name for name in study.names if name not in approved)
        raise FednerError(
            f"not approved, or removed: {others}",
            "Each of them must first request a certificate: fedner platform request NAME",
        )
    return names


def _spec(home: FederationHome, run: str, study: Study, names: tuple[str, ...]) -> JobSpec:
    roster = signed_roster(home).model_dump_json()
    return JobSpec(run, study.canonical, names, study.participation.quorum, roster)


def _require_nothing_running(session: AdminSession, jobs: list[JobState]) -> str:
    """Return an earlier run that could be resumed, or an empty name."""
    if not jobs:
        return ""
    run = jobs[-1].run
    state = _looked_at(session, run, [job for job in jobs if job.run == run])
    if not state.is_over:
        raise FednerError(
            f"{state.sentence}",
            "Follow it: fedner federation status --follow; end it: fedner federation stop",
        )
    return "" if state.phase == "done" else run


def stop_run(home: FederationHome, run: str | None = None) -> RunState:
    """End the jobs of a run, and let the watchdog leave it alone.

    Raises:
        FednerError: There is no such run, it is over, or the server cannot be reached.
    """
    with coordinator_session(home) as session:
        name, state = _found(session, run)
        if state.phase == "done":
            raise FednerError(f"run {name} is done: nothing is left to stop")
        _note_stop(session, name)
        end = time.monotonic() + _STOP_SECONDS
        while unfinished := [job for job in session.jobs(name) if not job.is_over]:
            if time.monotonic() > end:
                raise FednerError(f"run {name} did not stop in time", "Run the command again.")
            for job in unfinished:
                _abort(session, job.job)
            time.sleep(POLL_SECONDS)
        return _looked_at(session, name, session.jobs(name))


def _abort(session: AdminSession, job: str) -> None:
    """End a job; one that is just beginning or ending is asked again at the next look."""
    try:
        session.abort(job)
    except Exception as error:  # noqa: BLE001 - FLARE raises many kinds
        _log.debug("job %s could not be ended: %s", job, error)


def _note_stop(session: AdminSession, run: str) -> None:
    """Tell the watchdog; a run that never began has no folder, and nobody goes on with it."""
    try:
        session.ask("stop", run)
    except FednerError:
        if any(job.is_over for job in session.jobs(run)):
            raise


def resume_run(home: FederationHome, run: str | None = None) -> Started:
    """Go on with a run that was stopped or failed, from the newest round that all have stored.

    Raises:
        FednerError: There is no such run, it goes on or is done, it is of another study than the
            federation's, or the server cannot be reached.
    """
    record, study = read_federation(home), read_federation_study(home)
    names = takes_part(record, study)
    with coordinator_session(home) as session:
        name, state = _found(session, run)
        if not state.is_over:
            raise FednerError(state.sentence, "Follow it: fedner federation status --follow")
        if state.phase == "done":
            raise FednerError(
                f"run {name} is done", "Begin another one with: fedner federation train"
            )
        jobs = session.jobs(name)
        trained = _study_of(session, jobs)
        if trained.digest != study.digest:
            raise FednerError(
                f"run {name} is of the study {trained.digest}; the federation's is now "
                f"{study.digest}",
                "A run keeps its study: begin another one with fedner federation train.",
            )
        for job in jobs:  # one that was refused may be in the queue still
            if not job.is_over:
                _abort(session, job.job)
        return Started(name, submit(session, _spec(home, name, study, names)))


@dataclass(frozen=True, slots=True)
class MemberState:
    """Somebody who was approved.

    Attributes:
        name: Who.
        connected: Whether the server hears of it; None for whom that is not asked.
        removed: Whether it was removed.
        expires: When its certificate ends, with a warning where that is soon.
    """

    name: str
    connected: bool | None
    removed: bool
    expires: str

    @property
    def standing(self) -> str:
        """What a table shows."""
        if self.removed:
            return "removed"
        return (
            "" if self.connected is None else ("connected" if self.connected else "not connected")
        )


@dataclass(frozen=True, slots=True)
class Overview:
    """How a federation stands.

    Attributes:
        name: Its name.
        study: The digest of its study.
        members: All who were approved.
        state: How the run stands; None where there is none yet.
    """

    name: str
    study: str
    members: tuple[MemberState, ...]
    state: RunState | None


def overview(home: FederationHome, run: str | None = None) -> Overview:
    """Return how a federation and a run of it stand, or its newest run.

    Raises:
        FednerError: There is no such run, or the server cannot be reached.
    """
    record, names = read_federation(home), read_federation_study(home).names
    with coordinator_session(home) as session:
        connected = session.connected(now=float(session.ask("time")["time"]))
        is_empty = run is None and not session.jobs()
        state = None if is_empty else _found(session, run)[1]
    members = tuple(
        MemberState(
            each.name,
            each.name in connected if each.name in names else None,
            each.removed is not None,
            expiry(each.expires).words,
        )
        for each in record.members
    )
    return Overview(record.name, record.study_digest, members, state)


def _found(session: AdminSession, run: str | None) -> tuple[str, RunState]:
    jobs = session.jobs(None if run is None else require_run_name(run))
    if not jobs:
        raise FednerError(
            "this federation has no run yet" if run is None else f"there is no run {run}",
            "Begin one with: fedner federation train",
        )
    name = jobs[-1].run
    return name, _looked_at(session, name, [job for job in jobs if job.run == name])


def _looked_at(
    session: AdminSession, run: str, jobs: list[JobState], since: int | None = None
) -> RunState:
    return _look_once(session, run, jobs, since)[0]


def _look_once(
    session: AdminSession, run: str, jobs: list[JobState], since: int | None
) -> tuple[RunState, list[RoundRecord]]:
    """Return how a run stands, and the rounds after `since`; None for the newest alone."""
    study = _study_of(session, jobs)
    told = session.ask("progress", run, str(-1 if since is None else since))
    now = float(told["time"])  # the server's clock, not this machine's
    state = run_state(study, jobs, parse_ends(told["ends"]), session.connected(now=now), now=now)
    newest, sent = int(told["newest"]), told["rounds"]
    first = (newest - len(sent) if since is None else since) + 1
    rounds = [parse_round(f"run {run}", line, first + at) for at, line in enumerate(sent)]
    loss = rounds[-1].loss if rounds else None
    return replace(state, round=newest, loss=loss), rounds


def _study_of(session: AdminSession, jobs: list[JobState]) -> Study:
    """Return the study that a run's job announced.

    Raises:
        FednerError: It is no job of fedner.
    """
    meta = session.meta(jobs[-1].job)
    specs: Mapping[str, Any] = meta.get("resource_spec") or {}
    for spec in specs.values():
        return parse_as(Study, json.loads(spec[FACTS]["study"]), f"the study of {jobs[-1].run}")
    raise FednerError(f"{jobs[-1].run} is not a run of fedner")


def follow(
    home: FederationHome,
    run: str,
    *,
    on_state: Callable[[RunState], None],
    on_round: Callable[[RoundRecord], None],
    on_away: Callable[[str], None],
) -> RunState:
    """Follow a run until it is over, or refused; a server that is away is waited for.

    Args:
        home: The coordinator's folder.
        run: The run.
        on_state: Called at every look.
        on_round: Called with every round, in order.
        on_away: Called with why the server cannot be reached.
    """
    seen = 0
    while True:
        try:
            with coordinator_session(home) as session:
                while True:
                    state, rounds = _look_once(session, run, session.jobs(run), seen)
                    for record in rounds:
                        on_round(record)
                    seen += len(rounds)
                    on_state(state)
                    if state.is_over and seen >= state.round:
                        return state
                    time.sleep(POLL_SECONDS)
        except Exception as error:  # noqa: BLE001 - FLARE raises many kinds; the run goes on
            on_away(error.message if isinstance(error, FednerError) else str(error))
            time.sleep(_AWAY_SECONDS)
