"""Real processes are killed; the watchdog goes on; in the end not one bit differs.

Two kills are quick enough for every change; all kinds, at random moments, are in
`test_kill_points.py`, and what takes its time in `test_long_faults.py` (`make test-faults`).
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live import NAMES, RUN, SERVER, Live, assert_same_tensors, live, reference, tiny_settings

from fedner.engines.flare.job_ends import read_ends

pytestmark = pytest.mark.deployment
ROUNDS = 60
# A busy machine of two cores is slow; on a quiet one these are 5 and 15.
NOTICED, CLOSED = 8.0, 25.0
VICTIM = NAMES[1]


def _kill_server(federation: Live) -> None:
    federation.kill_all(SERVER)
    federation.start(SERVER)


KILLS: dict[str, Callable[[Live], None]] = {
    "a platform's job": lambda federation: federation.kill_job(VICTIM),
    "the whole server": _kill_server,
}


def test_same_tensors_after_kills(tmp_path: Path) -> None:
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
    federation.wait_round(3 + 20 * number)
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
