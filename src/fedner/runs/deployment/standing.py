"""How a run across machines stands: from what FLARE's server says of its jobs, to fixed words.

Whatever a platform or FLARE wrote, only words of our own are shown.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fedner.engines.flare.job_ends import DISK_FULL, JobEnd, faults_by_platform
from fedner.engines.flare.refusals import refusals_in
from fedner.engines.flare.session import JobState
from fedner.engines.flare.watchdog import STOPPED_WORDS, Limits, Standing, decide
from fedner.federated.failure_codes import FAILURES
from fedner.runs.schedule import algorithm_for, num_rounds
from fedner.settings import Study

Phase = Literal["waiting", "refused", "running", "interrupted", "stopped", "failed", "done"]
PHASES: Mapping[Phase, str] = {
    "waiting": "waits to begin",
    "refused": "was refused",
    "running": "is running",
    "interrupted": "was interrupted; the server's watchdog goes on with it",
    "stopped": "was stopped",
    "failed": "ended before its time",
    "done": "is done",
}


@dataclass(frozen=True, slots=True)
class RunState:
    """How a run stands.

    Attributes:
        run: Its name.
        phase: How far it is.
        words: Why, where there is something to say.
        round: The newest round.
        rounds: How many it shall have.
        loss: The newest training loss; None before the first, or where none is sent.
        connected: The platforms of the study that the server hears of.
        missing: Those that it does not hear of.
        refusals: Who refuses the run, and the reasons in fixed words.
        failures: Who did not answer at last, and why in fixed words.
        faults: How many jobs of the last hour ended because of a platform, by its name.
        num_jobs: How many jobs it took so far; every one after the first is a resubmission.
    """

    run: str
    phase: Phase
    words: str = ""
    round: int = 0
    rounds: int = 0
    loss: float | None = None
    connected: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    refusals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, int] = field(default_factory=dict)
    num_jobs: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nobody goes on with it by itself."""
        return self.phase in ("refused", "stopped", "failed", "done")

    @property
    def sentence(self) -> str:
        """How it stands, in one line."""
        said = f"run {self.run} {PHASES[self.phase]}"
        return f"{said}: {self.words}" if self.words else said


def run_state(
    study: Study,
    jobs: Sequence[JobState],
    ends: Sequence[JobEnd],
    connected: Sequence[str],
    now: float | None = None,
) -> RunState:
    """Return how a run stands; what its rounds came to is added by the caller.

    Args:
        study: Its study.
        jobs: Its jobs, oldest first; at least one.
        ends: How they ended.
        connected: Whom the server hears of.
        now: Seconds since 1970.
    """
    now = time.time() if now is None else now
    newest = jobs[-1]
    here = tuple(name for name in study.names if name in connected)
    missing = tuple(name for name in study.names if name not in connected)
    refusals = _refusals(study, newest, ends)
    phase, words = _phase(study, jobs, ends, here, now, refusals)
    if phase == "waiting" and missing:
        words = f"not connected: {', '.join(missing)}"
    last = [end for end in ends if end.time >= newest.submitted]
    is_told = bool(last) and phase != "stopped"  # all of them end when a run is stopped
    failures = {k: FAILURES[code] for k, code in last[-1].missing.items()} if is_told else {}
    since = now - Limits().window
    return RunState(
        newest.run,
        phase,
        words,
        rounds=num_rounds(study, algorithm_for(study)),
        connected=here,
        missing=missing,
        refusals=refusals,
        failures=failures,
        faults=faults_by_platform(ends, since),
        num_jobs=len(jobs),
    )


def _phase(
    study: Study,
    jobs: Sequence[JobState],
    ends: Sequence[JobEnd],
    connected: Sequence[str],
    now: float,
    refusals: Mapping[str, Sequence[str]],
) -> tuple[Phase, str]:
    newest = jobs[-1]
    if not newest.is_over:
        if not newest.is_queued:
            return "running", ""
        return ("refused", f"by {', '.join(refusals)}") if refusals else ("waiting", "")
    if newest.is_done:
        return "done", ""
    if refusals:
        return "refused", f"by {', '.join(refusals)}"
    quorum = study.participation.quorum
    limits = Limits()
    # The coordinator does not see the server's disk: a full one is told by how the job ended.
    room = 0 if ends and ends[-1].code == DISK_FULL else limits.room
    standing = Standing(jobs, ends, study.names, quorum, connected, now, 0.0, room)
    decision = decide(standing, limits)
    if decision.step != "over":
        return "interrupted", decision.words
    last = [end for end in ends if end.time >= newest.submitted]
    if last and last[-1].outcome == "done":
        return "done", ""
    if decision.words == STOPPED_WORDS:
        return "stopped", ""
    return "failed", decision.words


def _refusals(
    study: Study, newest: JobState, ends: Sequence[JobEnd]
) -> Mapping[str, tuple[str, ...]]:
    """Return who refuses the newest job: as FLARE's queue says, or the watchdog who ended it."""
    if newest.is_queued:
        return refusals_in(newest.remarks[-1:], study.names)
    last = [end for end in ends if end.time >= newest.submitted]
    is_refused = bool(last) and last[-1].outcome == "refused"
    return refusals_in([last[-1].words], study.names) if is_refused else {}
