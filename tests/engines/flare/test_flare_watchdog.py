"""What the watchdog decides, from what FLARE's store and the run folders hold."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedner.engines.flare.job_ends import JobEnd, append_end, job_end, note_begin, read_ends
from fedner.engines.flare.session import AdminKit, JobState
from fedner.engines.flare.watchdog import Limits, Standing, Watchdog, close_stale_jobs, decide
from fedner.federated.failure_codes import FAILURES

FAULT = "FINISHED:EXECUTION_EXCEPTION"
NAMES = ("a", "b", "c")
LIMITS = Limits(faults=2, jobs=5, window=1000, patience=30)


def standing(status: str = FAULT, **changes: Any) -> Standing:
    job = JobState("1", "run", status, 100.0)
    return replace(Standing([job], [], NAMES, None, NAMES, 200.0, 0.0, 2**40), **changes)


def gone(*names: str, time: float = 150.0) -> JobEnd:
    return JobEnd("fault", dict.fromkeys(names, "platform-gone"), "gone", time)


@pytest.mark.parametrize(
    ("status", "step"),
    [
        ("RUNNING", "wait"),
        ("SUBMITTED", "wait"),
        ("FINISHED:COMPLETED", "over"),
        ("FINISHED:ABORTED", "over"),
        (FAULT, "submit"),
        ("FINISHED:ABNORMAL", "submit"),
    ],
)
def test_by_how_the_newest_job_ended(status: str, step: str) -> None:
    assert decide(standing(status), LIMITS).step == step


def test_waits_until_all_are_connected_again() -> None:
    waits = decide(standing(connected=("a", "c")), LIMITS)
    assert (waits.step, waits.words) == ("wait", "waits for b")
    assert decide(standing(ends=[gone("b")]), LIMITS).platforms == NAMES


def test_a_quorum_waits_for_a_while_only() -> None:
    here = standing(quorum=2, connected=("a", "c"))
    assert decide(here, LIMITS).step == "wait"
    assert decide(replace(here, idle=30.0), LIMITS).step == "submit"
    assert decide(replace(here, idle=30.0, connected=("a",)), LIMITS).step == "wait"


def test_a_platform_that_keeps_dying_is_named_and_left_out() -> None:
    ends = [gone("b", time=110.0), gone("b", time=150.0)]
    decided = decide(standing(ends=ends, quorum=2), LIMITS)
    assert (decided.step, decided.platforms) == ("submit", ("a", "c"))
    assert "b ended 2 jobs" in decided.words
    without_quorum = decide(standing(ends=ends), LIMITS)
    assert without_quorum.step == "over"
    assert "b ended 2 jobs" in without_quorum.words


def test_faults_of_long_ago_are_forgotten() -> None:
    old = [gone("b", time=110.0), gone("b", time=120.0)]
    job = JobState("9", "run", FAULT, 5000.0)
    assert decide(standing(jobs=[job], ends=old, now=5100.0), LIMITS).platforms == NAMES


def test_what_another_job_cannot_cure_is_over() -> None:
    failed = JobEnd("failed", {"b": "budget-spent"}, "b: its privacy budget", 150.0)
    decided = decide(standing(ends=[failed]), LIMITS)
    assert (decided.step, decided.words) == ("over", failed.words)
    # It was said of an older job: somebody has resumed the run since.
    assert decide(standing(ends=[replace(failed, time=50.0)]), LIMITS).step == "submit"


def full(time: float, *, at_server: bool = False) -> JobEnd:
    if at_server:
        return JobEnd("fault", {}, "full", time, "disk-full")
    return JobEnd("fault", {"b": "disk-full"}, "full", time)


def test_a_full_disk_is_waited_for_longer_each_time() -> None:
    once = standing(ends=[full(198.0)])
    waits = decide(once, LIMITS)
    assert (waits.step, waits.words) == ("wait", "waits for room on the disk of b")
    assert decide(replace(once, idle=5.0), LIMITS).step == "submit"
    again = replace(once, ends=[full(180.0), full(198.0)])
    assert decide(replace(again, idle=9.9), LIMITS).step == "wait"
    assert decide(replace(again, idle=10.0), LIMITS).step == "submit"
    often = replace(once, ends=[full(198.0 - n) for n in range(200, -1, -1)])
    assert decide(replace(often, idle=299.0), LIMITS).step == "wait"
    assert decide(replace(often, idle=300.0), LIMITS).step == "submit"
    server = replace(once, ends=[full(198.0, at_server=True)])
    assert decide(server, LIMITS).words == "waits for room on the disk of the server"
    # Another fault since: the pause begins anew.
    assert decide(replace(once, ends=[full(190.0), gone("a", time=198.0)]), LIMITS).step == "submit"


def test_a_full_disk_counts_against_nobody() -> None:
    jobs = [JobState(str(n), "run", FAULT, 100.0 + n) for n in range(9)]
    ends = [full(100.0 + n) for n in range(9)]
    assert decide(standing(jobs=jobs, ends=ends, idle=300.0), LIMITS).platforms == NAMES


def test_nothing_is_submitted_to_a_server_without_room() -> None:
    waits = decide(standing(room=1000), LIMITS)
    assert (waits.step, waits.words) == ("wait", "waits for room on the server's disk")


def test_gives_up_where_every_job_ends() -> None:
    jobs = [JobState(str(n), "run", FAULT, 100.0 + n) for n in range(5)]
    assert decide(standing(jobs=jobs), LIMITS).step == "over"
    assert decide(standing(jobs=jobs[1:]), LIMITS).step == "submit"


@pytest.mark.parametrize(
    ("missing", "outcome"),
    [
        ({"a": "platform-gone"}, "fault"),
        ({"a": "platform-gone", "b": "folder-in-use"}, "fault"),
        ({"a": "disk-full"}, "fault"),
        ({"a": "platform-gone", "b": "budget-spent"}, "failed"),
        ({}, "failed"),
    ],
)
def test_which_ends_are_faults(missing: dict[str, str], outcome: str) -> None:
    assert job_end(missing, "words").outcome == outcome


def test_ends_are_kept_line_by_line_and_a_torn_line_is_left_out(tmp_path: Path) -> None:
    first, second = full(2.0, at_server=True), JobEnd("done", {}, "", 3.0)
    append_end(tmp_path / "run", first)
    append_end(tmp_path / "run", second)
    with (tmp_path / "run" / "jobs.jsonl").open("ab") as file:
        file.write(b'{"outcome": "fau')
    assert read_ends(tmp_path / "run") == [first, second]
    assert read_ends(tmp_path / "other") == []


def test_jobs_of_a_killed_server_are_closed(tmp_path: Path) -> None:
    for name, status in {"x": "RUNNING", "y": "SUBMITTED", "z": "FINISHED:COMPLETED"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta").write_text(json.dumps({"status": status, "name": "run"}))
    assert close_stale_jobs(tmp_path) == ["x"]
    states = {each.parent.name: json.loads(each.read_text()) for each in tmp_path.glob("*/meta")}
    assert states["x"] == {"status": FAULT, "name": "run"}
    assert [states["y"]["status"], states["z"]["status"]] == ["SUBMITTED", "FINISHED:COMPLETED"]
    assert close_stale_jobs(tmp_path / "absent") == []


class Server:
    """A server's side of a session, as far as the watchdog sees it."""

    def __init__(self) -> None:
        self.states = [JobState("1", "run", FAULT, 100.0)]
        self.here = ["a", "b", "c"]
        study = {"platforms": [{"name": name} for name in NAMES], "participation": {}}
        facts = {"study": json.dumps(study), "roster": "signed"}
        self.facts = {"resource_spec": {"a": {"fedner": facts}}}
        self.submitted: list[dict[str, Any]] = []
        self.lost: list[str] = []
        self.asked: list[tuple[str, ...]] = []

    def ask(self, *words: str) -> dict[str, Any]:
        self.asked.append(words)
        return {"lost": self.lost, "present": self.here}

    def abort(self, job: str) -> None:
        self.asked.append(("abort", job))

    def jobs(self) -> list[JobState]:
        return self.states

    def meta(self, job: str) -> dict[str, Any]:  # noqa: ARG002
        return self.facts

    def submit(self, folder: Path) -> str:
        self.submitted.append(json.loads((folder / "meta.json").read_text()))
        return "2"


def test_submits_the_same_study_and_says_so_once(tmp_path: Path) -> None:
    server, said = Server(), list[str]()
    dog = Watchdog(None, tmp_path, LIMITS, said.append)  # type: ignore[arg-type]
    server.here = ["a"]
    dog.look(server)  # type: ignore[arg-type]
    dog.look(server)  # type: ignore[arg-type]
    assert said == ["run run: waits for b, c"]
    server.here = [*NAMES]
    dog.look(server)  # type: ignore[arg-type]
    assert [each["deploy_map"]["platform"] for each in server.submitted] == [[*NAMES]]
    given = server.facts["resource_spec"]["a"]["fedner"]
    sent = server.submitted[0]["resource_spec"]["b"]["fedner"]
    assert (sent["study"], sent["roster"]) == (given["study"], "signed")


def test_a_job_that_cannot_begin_is_closed_once_with_who_left(tmp_path: Path) -> None:
    server, said = Server(), list[str]()
    server.states = [JobState("1", "run", "RUNNING", 100.0)]
    dog = Watchdog(None, tmp_path, LIMITS, said.append)  # type: ignore[arg-type]
    dog.look(server)  # type: ignore[arg-type]
    assert (server.asked, read_ends(tmp_path / "run")) == ([("lost", "1")], [])
    server.lost = ["b"]
    dog.look(server)  # type: ignore[arg-type]
    dog.look(server)  # type: ignore[arg-type]
    assert server.asked[1:] == [("lost", "1"), ("close", "1")]
    [end] = read_ends(tmp_path / "run")
    assert (end.outcome, end.missing) == ("fault", {"b": "platform-gone"})
    assert said == ["run run: b left while the job began"]


def test_a_job_whose_rounds_began_notices_by_itself(tmp_path: Path) -> None:
    server = Server()
    server.states, server.lost = [JobState("1", "run", "RUNNING", 100.0)], ["b"]
    note_begin(tmp_path / "run")
    dog = Watchdog(None, tmp_path, LIMITS)  # type: ignore[arg-type]
    dog.look(server)  # type: ignore[arg-type]
    assert server.asked == []
    # The next job of the run is not that one.
    server.states = [*server.states, JobState("2", "run", "RUNNING", time.time() + 1)]
    dog.look(server)  # type: ignore[arg-type]
    assert ("close", "2") in server.asked


def refused_by(server: Server, *names: str, job: str = "1") -> None:
    remark = "Details: " + ";".join(f"{name}:{FAILURES['policy-rounds']}" for name in names)
    server.states = [JobState(job, "run", "SUBMITTED", 100.0, ("not enough sites", remark))]


def test_a_job_that_is_refused_is_ended_and_nobody_is_asked_again(tmp_path: Path) -> None:
    server, said = Server(), list[str]()
    dog = Watchdog(None, tmp_path, LIMITS, said.append)  # type: ignore[arg-type]
    refused_by(server)
    dog.look(server)  # type: ignore[arg-type]
    assert (server.asked, said) == ([], []), "nobody refuses: it waits"
    refused_by(server, "a", "c")
    dog.look(server)  # type: ignore[arg-type]
    dog.look(server)  # type: ignore[arg-type]
    assert server.asked == [("abort", "1")]
    [end] = read_ends(tmp_path / "run")
    assert (end.outcome, end.missing) == (
        "refused",
        {"a": "policy-rounds", "c": "policy-rounds"},
    )
    words = FAILURES["policy-rounds"]
    assert said == [f"run run: refused by a: {words}; c: {words}"]
    server.states = [JobState("1", "run", "FINISHED:ABORTED", 100.0)]
    for _ in range(3):
        dog.look(server)  # type: ignore[arg-type]
    assert server.submitted == []
    # Somebody resumed it, and it is refused again.
    refused_by(server, "a", job="2")
    dog.look(server)  # type: ignore[arg-type]
    assert ("abort", "2") in server.asked


def test_a_refusal_that_leaves_a_quorum_ends_nothing(tmp_path: Path) -> None:
    server = Server()
    study = {"platforms": [{"name": name} for name in NAMES], "participation": {"quorum": 2}}
    server.facts = {"resource_spec": {"a": {"fedner": {"study": json.dumps(study)}}}}
    dog = Watchdog(None, tmp_path, LIMITS)  # type: ignore[arg-type]
    refused_by(server, "b")
    dog.look(server)  # type: ignore[arg-type]
    assert server.asked == []
    refused_by(server, "b", "c")
    dog.look(server)  # type: ignore[arg-type]
    assert server.asked == [("abort", "1")]


def test_leaves_foreign_jobs_alone(tmp_path: Path) -> None:
    server, said = Server(), list[str]()
    server.facts = {"resource_spec": {}}
    dog = Watchdog(None, tmp_path, LIMITS, said.append)  # type: ignore[arg-type]
    dog.look(server)  # type: ignore[arg-type]
    dog.look(server)  # type: ignore[arg-type]
    assert server.submitted == []
    assert said == ["run run: cannot be looked after: the job announces no study"]


def test_a_watchdog_that_loses_the_server_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop, tries = threading.Event(), []

    def away(_kit: object) -> None:
        tries.append(1)
        if len(tries) == 3:
            stop.set()
        raise ConnectionError("nobody listens")

    monkeypatch.setattr("fedner.engines.flare.watchdog.admin_session", away)
    kit = AdminKit(tmp_path, "watchdog@fedner.local")
    Watchdog(kit, tmp_path, limits=Limits(poll=0.01)).watch(stop)
    assert [each.levelname for each in caplog.records] == ["WARNING"], "three tries, one line"
    assert "ConnectionError: nobody listens" in caplog.text
