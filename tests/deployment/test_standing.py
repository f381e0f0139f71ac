"""How a run stands, by what FLARE says of its jobs: fixed words, whatever anybody wrote."""

from dataclasses import replace

import pytest

from fedner.engines.flare.job_ends import JobEnd
from fedner.engines.flare.refusals import refusals_in
from fedner.engines.flare.session import JobState
from fedner.federated.failure_codes import FAILURES
from fedner.runs.deployment.standing import run_state
from fedner.settings import Study

RUN = "run-1"
JOB = JobState("a", RUN, "RUNNING", 100.0)
ROUNDS = FAILURES["policy-rounds"]
PINNED = FAILURES["policy-pinned"]
ALL = ("north", "south", "west")


def refused(time: float) -> JobEnd:
    return JobEnd("refused", {}, f"refused by north: {ROUNDS}", time)


@pytest.mark.parametrize(
    ("status", "ends", "phase"),
    [
        ("SUBMITTED", [], "waiting"),
        ("RUNNING", [], "running"),
        ("DISPATCHED", [], "running"),
        ("FINISHED:COMPLETED", [], "done"),
        ("FINISHED:ABORTED", [], "stopped"),
        ("FINISHED:EXECUTION_EXCEPTION", [], "interrupted"),
        ("FINISHED:EXECUTION_EXCEPTION", [JobEnd("failed", {}, "too few", 101.0)], "failed"),
        ("FINISHED:EXECUTION_EXCEPTION", [JobEnd("stopped", {}, "", 101.0)], "stopped"),
        (
            "FINISHED:ABORTED",
            [refused(101.0)],
            "refused",
        ),
        (
            "FINISHED:ABORTED",
            [refused(99.0)],
            "stopped",
        ),
        ("FINISHED:EXECUTION_EXCEPTION", [JobEnd("done", {}, "", 101.0)], "done"),
        ("FINISHED:EXECUTION_EXCEPTION", [JobEnd("failed", {}, "old", 99.0)], "interrupted"),
    ],
)
def test_phases(study: Study, status: str, ends: list[JobEnd], phase: str) -> None:
    state = run_state(study, [replace(JOB, status=status)], ends, ALL, now=110.0)
    assert state.phase == phase
    assert state.is_over == (phase in ("stopped", "failed", "done", "refused"))
    assert (state.rounds, state.num_jobs, state.connected) == (2, 1, ALL)


def test_who_is_missing_and_who_ended_jobs_is_named(study: Study) -> None:
    jobs = [replace(JOB, status="FINISHED:EXECUTION_EXCEPTION", submitted=at) for at in (1.0, 50.0)]
    gone = {"south": "platform-gone"}
    ends = [JobEnd("fault", gone, "gone", 40.0), JobEnd("fault", gone, "gone", 60.0)]
    state = run_state(study, jobs, ends, ["north", "west", "stranger"], now=110.0)
    assert (state.phase, state.words) == ("interrupted", "waits for south")
    assert (state.connected, state.missing) == (("north", "west"), ("south",))
    assert (state.faults, state.num_jobs) == ({"south": 2}, 2)
    assert state.failures == {"south": FAILURES["platform-gone"]}
    queued = run_state(study, [replace(JOB, status="SUBMITTED")], [], ["north"], now=110.0)
    assert queued.sentence == "run run-1 waits to begin: not connected: south, west"


def test_a_platform_is_not_blamed_for_a_stop(study: Study) -> None:
    ends = [
        JobEnd("stopped", {}, "", 101.0),
        JobEnd("fault", {"south": "platform-gone"}, "gone", 102.0),
    ]
    job = replace(JOB, status="FINISHED:EXECUTION_EXCEPTION")
    state = run_state(study, [job], ends, ALL, now=110.0)
    assert (state.phase, state.faults, state.failures) == ("stopped", {}, {})
    ends.append(JobEnd("fault", {"south": "platform-gone"}, "gone", 105.0))
    again = replace(job, status="RUNNING", submitted=104.0)
    assert run_state(study, [job, again], ends, ALL, now=110.0).faults == {"south": 1}


def test_the_newest_refusal_counts(study: Study) -> None:
    old = f"2026-11-16: required sites. Details: south:{PINNED};"
    new = f"2026-11-16: not enough. Details: north: {ROUNDS}; {PINNED}; west: secret of west"
    job = replace(JOB, status="SUBMITTED", remarks=(old, new))
    state = run_state(study, [job], [], ALL, now=110.0)
    assert state.phase == "refused"
    assert state.refusals == {"north": (PINNED, ROUNDS)}
    assert "secret" not in repr(state)
    running = run_state(study, [replace(job, status="RUNNING")], [], ALL, now=110.0)
    assert (running.phase, running.refusals) == ("running", {})


def test_a_run_stays_refused_with_all_reasons_after_its_job_was_ended(study: Study) -> None:
    words = f"refused by north: {ROUNDS}; {PINNED}; west: {PINNED}"
    end = JobEnd("refused", {"north": "policy-rounds", "west": "policy-pinned"}, words, 101.0)
    state = run_state(study, [replace(JOB, status="FINISHED:ABORTED")], [end], ALL, now=110.0)
    assert state.sentence == "run run-1 was refused: by north, west"
    assert {name: {*words} for name, words in state.refusals.items()} == {
        "north": {ROUNDS, PINNED},
        "west": {PINNED},
    }
    assert state.faults == {}


def test_a_name_within_a_name_is_not_taken_for_it() -> None:
    remark = f"Details: my-north:{ROUNDS};"
    assert refusals_in([remark], ["north"]) == {}
    assert refusals_in([remark], ["north", "my-north"]) == {"my-north": (ROUNDS,)}
