"""Faults that take their time: `make test-faults`. All back: not one bit differs."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dp_live import assert_charged_once, dp_settings
from live import (
    NAMES,
    RUN,
    SERVER,
    Live,
    assert_same_tensors,
    live,
    reference,
    slowed,
    tiny_settings,
    until,
)

from fedner.engines.flare.job_ends import JobEnd, read_ends
from fedner.engines.flare.processes import members
from fedner.engines.flare.watchdog import Limits
from fedner.federated.record import read_rounds
from fedner.settings import Settings
from full_disk import fill, free

pytestmark = [pytest.mark.deployment, pytest.mark.slow]
ROUNDS = 100
VICTIM = NAMES[1]


@contextmanager
def begun(folder: Path, settings: Settings, limits: Limits | None = None) -> Iterator[Live]:
    """A federation whose run has taken some rounds."""
    with live(folder, settings, limits) as federation:
        federation.start()
        federation.watch()
        federation.wait_connected()
        federation.submit()
        federation.wait_round(3)
        yield federation


def ends(federation: Live) -> list[JobEnd]:
    return read_ends(federation.homes.server.runs / RUN)


def test_a_platform_that_keeps_dying_is_named_and_left_out(tmp_path: Path) -> None:
    settings = tiny_settings(400, participation={"quorum": 2})
    limits = Limits(faults=3, poll=0.5, patience=5.0)
    with begun(tmp_path, settings, limits) as federation:
        for number in range(3):
            federation.wait_jobs(lambda jobs, n=number: len(jobs) > n and not jobs[-1].is_over)
            federation.wait_round(federation.rounds() + 5)
            until(lambda: bool(federation.job_pids(VICTIM)), 30, "its job")
            federation.kill_job(VICTIM)
            until(lambda n=number: len(ends(federation)) > n, 60, "the end of the job")
        jobs = federation.wait_done()
        # FLARE ends the whole job; the last successor is without the platform, and says so.
        assert len(jobs) == 4
        gone = {VICTIM: "platform-gone"}
        assert [end.missing for end in ends(federation)] == [gone, gone, gone, {}]
        assert f"run {RUN}: left out: {VICTIM} ended 3 jobs" in federation.said
        until(lambda: federation.rounds() == 400, 10, "all rounds")


def test_a_platform_beyond_its_timeout_is_missing_by_name_and_comes_back(tmp_path: Path) -> None:
    settings = tiny_settings(400, participation={"quorum": 2, "timeout": 3.0})
    with begun(tmp_path, settings) as federation:
        with slowed(federation.job_pids(VICTIM), asleep=3.8, awake=0.4):
            time.sleep(10)
        [job] = federation.wait_done()
        rounds = read_rounds(federation.homes.server.runs / RUN / "rounds.jsonl")
        late = [
            (each.round, missing.message)
            for each in rounds
            for missing in each.failures
            if missing.platform == VICTIM
        ]
        assert late
        assert {words for _, words in late} == {"it did not answer in time"}
        assert VICTIM in rounds[-1].bytes_up, "it takes part again, in the same job"
        assert job.is_done


def test_a_platform_that_starts_late_is_waited_for(tmp_path: Path) -> None:
    with live(tmp_path, tiny_settings(10)) as federation:
        others = [name for name in NAMES if name != VICTIM]
        federation.start(SERVER, *others)
        federation.watch()
        federation.wait_connected(*others)
        federation.submit()
        time.sleep(10)
        assert federation.rounds() == 0
        federation.start(VICTIM)
        federation.wait_done()
        assert_same_tensors(federation, reference(federation, tmp_path / "reference"))


@pytest.mark.parametrize("is_dp", [False, True])
def test_a_full_disk_of_a_platform_is_waited_for(tmp_path: Path, is_dp: bool) -> None:
    settings = dp_settings(tmp_path, ROUNDS) if is_dp else tiny_settings(ROUNDS)
    with begun(tmp_path, settings) as federation:
        home = federation.homes.platforms[VICTIM].path
        for pid in members(home):
            fill(4096, pid)
        until(lambda: bool(ends(federation)), 60, "the end of the job")
        assert ends(federation)[0].missing == {VICTIM: "disk-full"}
        waits = f"run {RUN}: waits for room on the disk of {VICTIM}"
        until(lambda: waits in federation.said, 30, waits)
        for pid in members(home):
            free(pid)
        federation.wait_done()
        if is_dp:
            assert_charged_once(federation, tmp_path, RUN, ROUNDS)
        else:
            assert_same_tensors(federation, reference(federation, tmp_path / "reference"))


def _mounted(folder: Path) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_full_disk_of_the_server_is_waited_for(tmp_path: Path) -> None:
    with live(tmp_path, tiny_settings(ROUNDS), Limits(poll=0.5, room=2**16)) as federation:
        runs = federation.homes.server.runs
        if os.geteuid() or not _mounted(runs):
            pytest.skip("only root may mount a small disk")
        try:
            _fill_and_free(federation, runs)
            assert_same_tensors(federation, reference(federation, tmp_path / "reference"))
        finally:
            federation.close()
            subprocess.run(["umount", "-l", str(runs)], check=True)


def _fill_and_free(federation: Live, runs: Path) -> None:
    federation.start()
    federation.watch()
    federation.wait_connected()
    federation.submit()
    federation.wait_round(3)
    ballast = runs / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    waits = f"run {RUN}: waits for room on the server's disk"
    until(lambda: waits in federation.said, 60, waits)
    time.sleep(3)
    assert len(federation.wait_jobs(bool)) == 1, "nothing is submitted meanwhile"
    ballast.unlink()
    federation.wait_done()


def test_a_platform_that_holds_its_process_while_it_begins_is_not_gone(tmp_path: Path) -> None:
    """Reading and building may keep Python from answering pings for longer than five seconds."""
    with live(tmp_path, tiny_settings(20)) as federation:
        federation.start()
        federation.watch()
        federation.wait_connected()
        federation.submit()
        until(lambda: bool(federation.job_pids(VICTIM)), 60, "its job")
        until(lambda: (federation.homes.platforms[VICTIM].runs / RUN).exists(), 60, "first order")
        with slowed(federation.job_pids(VICTIM), asleep=9.0, awake=60.0):
            time.sleep(9.5)
        jobs = federation.wait_done()
        assert len(jobs) == 1
        assert_same_tensors(federation, reference(federation, tmp_path / "reference"))
