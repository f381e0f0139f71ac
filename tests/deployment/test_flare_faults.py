"""Real processes are killed; the watchdog goes on; in the end not one bit differs."""

import time
from pathlib import Path

import pytest
from live import NAMES, SERVER, Live, assert_same_tensors, live, reference, tiny_settings

pytestmark = pytest.mark.deployment
ROUNDS = 60


@pytest.mark.parametrize("kind", ["platform's job", "platform", "server's job", "server"])
def test_same_tensors_after_kill(tmp_path: Path, kind: str) -> None:
    with live(tmp_path, tiny_settings(ROUNDS)) as federation:
        federation.start()
        federation.watch()
        federation.wait_connected()
        federation.submit()
        federation.wait_round(3)
        began = time.monotonic()
        _kill(federation, kind)
        assert federation.rounds() < ROUNDS, "the run was over before the fault"
        jobs = federation.wait_jobs(lambda jobs: jobs[0].is_over, seconds=60)
        print(f"{kind}: first job over after {time.monotonic() - began:.1f} s: {jobs[0].status}")
        jobs = federation.wait_done()
        print(f"{kind}: done after {time.monotonic() - began:.1f} s; {federation.said}")
        assert len(jobs) >= 2
        assert_same_tensors(federation, reference(federation, tmp_path / "reference"))


def _kill(federation: Live, kind: str) -> None:
    name = NAMES[1]
    if kind == "platform's job":
        federation.kill_job(name)
    elif kind == "platform":
        federation.kill_all(name)
        time.sleep(3)
        federation.start(name)
    elif kind == "server's job":
        federation.kill_job(SERVER)
    else:
        federation.kill_all(SERVER)
        federation.start(SERVER)
