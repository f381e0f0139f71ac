"""Real processes are killed; the watchdog goes on; in the end not one bit differs."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live import (
    NAMES,
    RUN,
    SERVER,
    Live,
    assert_same_tensors,
    live,
    reference,
    tiny_settings,
    until,
)

from fedner.engines.flare.job_ends import read_ends
from fedner.engines.flare.watchdog import Limits

pytestmark = pytest.mark.deployment
ROUNDS = 120
# A busy machine of two cores is slow; on a quiet one these are 5 and 15.
NOTICED, CLOSED = 8.0, 25.0
VICTIM = NAMES[1]


def _kill_platform(federation: Live) -> None:
    federation.kill_all(VICTIM)
    time.sleep(7)  # long enough to be missed
    federation.start(VICTIM)


def _kill_server(federation: Live) -> None:
    federation.kill_all(SERVER)
    federation.start(SERVER)


KILLS: dict[str, Callable[[Live], None]] = {
    "a platform's job": lambda federation: federation.kill_job(VICTIM),
    "a whole platform": _kill_platform,
    "the server's job": lambda federation: federation.kill_job(SERVER),
    "the whole server": _kill_server,
}


def test_same_tensors_after_every_kind_of_kill(tmp_path: Path) -> None:
    with live(tmp_path, tiny_settings(ROUNDS)) as federation:
        federation.start()
        federation.watch()
        federation.wait_connected()
        federation.submit()
        for number, (what, kill) in enumerate(KILLS.items()):
            _kill_one(federation, number, what, kill)
        jobs = federation.wait_done()
        assert len(jobs) >= 1 + len(KILLS)
        assert_same_tensors(federation, reference(federation, tmp_path / "reference"))


def _kill_one(federation: Live, number: int, what: str, kill: Callable[[Live], None]) -> None:
    """Kill in the middle of a running job; wait until its successor trains."""
    federation.wait_jobs(lambda jobs: len(jobs) > number and not jobs[-1].is_over)
    federation.wait_round(3 + 25 * number)
    num_jobs = len(federation.wait_jobs(bool))
    ends = len(_ends(federation))
    killed, began = time.time(), time.monotonic()
    kill(federation)
    assert federation.rounds() < ROUNDS, "the run was over before the fault"
    federation.wait_jobs(lambda jobs: jobs[num_jobs - 1].is_over, seconds=60)
    closed = time.monotonic() - began
    assert closed < CLOSED, what
    if "platform" in what:
        [end] = _ends(federation)[ends:]
        assert end.missing == {VICTIM: "platform-gone"}
        assert end.time - killed < NOTICED
    federation.wait_jobs(lambda jobs: len(jobs) > num_jobs, seconds=60)
    print(f"{what}: closed after {closed:.1f} s, next job {time.monotonic() - began:.1f} s")


def _ends(federation: Live) -> list:
    return read_ends(federation.homes.server.runs / RUN)


@pytest.mark.slow
def test_a_platform_that_keeps_dying_is_named_and_left_out(tmp_path: Path) -> None:
    settings = tiny_settings(ROUNDS, participation={"quorum": 2})
    limits = Limits(faults=1, poll=0.5, patience=5.0)
    with live(tmp_path, settings, limits) as federation:
        federation.start()
        federation.watch()
        federation.wait_connected()
        federation.submit()
        federation.wait_round(3)
        federation.kill_job(VICTIM)
        jobs = federation.wait_done()
        # FLARE ends the whole job; its successor is without the platform, and says so.
        assert len(jobs) == 2
        assert [end.missing for end in _ends(federation)] == [{VICTIM: "platform-gone"}, {}]
        assert f"run {RUN}: left out: {VICTIM} ended 1 jobs" in federation.said
        until(lambda: federation.rounds() == ROUNDS, 10, "all rounds")
