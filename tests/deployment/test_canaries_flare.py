"""No canary of a platform reaches server or coordinator over FLARE, whatever goes wrong there.

Canaries are in texts, labels, ids, names of files and folders (the homes of the platforms lie in
one), and settings. One federation of real processes trains, and then fails in every way at three
platforms at a time; in the end everything that server and coordinator hold is searched.
"""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from canaries import CANARIES, FILE, FOLDER, LABEL, TEXT, write_canaries
from free_ports import free_port
from leaks import find_leaks
from live import SERVER, Live, quick_keys, until

from fedner.engines.flare.job_ends import JOB_ENDS
from fedner.engines.flare.processes import end_members
from fedner.engines.flare.session import AdminSession, JobState, admin_session
from fedner.federated.failure_codes import FAILURES
from fedner.runs.deployment.homes import PlatformHome
from fedner.runs.deployment.trial import trial_homes
from fedner.runs.disclosure_record import RECORD, RecordLine, read_record
from fedner.runs.study_defaults import with_defaults
from fedner.settings import PlatformSettings, Study, platform_toml

pytestmark = pytest.mark.deployment
NAMES = ("north", "south", "west")
HERE = Path(__file__).parent / "hostile"
SECRETS = (*CANARIES, "owner-of-capybaras")  # the last one only in the settings
WORDS = f"{TEXT} {LABEL} in {FOLDER}/{FILE}"
TABLES: dict[str, Any] = {
    "title": "canaries",
    "model": {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6},
    "embeddings": {"dimension": 8, "buckets": 64},
    "training": {"rounds": 2, "batch_size": 12, "evaluate_every": 1, "checkpoint_every": 1},
    "platforms": [{"name": name, "public_size": 20} for name in NAMES],
}


@dataclass
class Canaries:
    """A federation whose platforms hold canaries, and ways to let them fail."""

    live: Live
    provoke: Path

    def run(self, name: str, **failing: str) -> JobState:
        """Let some platforms fail in some way, and train; return how the job ended."""
        for platform, kind in failing.items():
            (self.provoke / platform).write_text(f"{kind}\n{WORDS}")
        self.submit(name)
        job = self.over(name)
        assert not (failing and job.is_done)
        return job

    @property
    def happened(self) -> dict[str, str]:
        """How each platform's job really failed, as it wrote down itself, since this was asked."""
        found = {path.name: path.read_text() for path in self.notes.glob("*")}
        for name in found:
            (self.notes / name).unlink()
        return found

    @property
    def notes(self) -> Path:
        """The folder in which a platform's job writes down how it failed."""
        return self.provoke.with_name(f"{self.provoke.name}-happened")

    def missing(self, run: str) -> list[dict[str, str]]:
        """Whom the server missed at the end of each job of a run, with the codes that it got."""
        path = self.live.homes.server.runs / run / JOB_ENDS
        return [json.loads(line)["missing"] for line in path.read_text().splitlines()]

    def submit(self, name: str) -> str:
        return self.live.submit(name, *NAMES)

    def over(self, name: str) -> JobState:
        """Wait until a job has ended; its processes linger for some seconds."""
        jobs = self.live.wait_jobs(lambda jobs: jobs[-1].is_over, name, 90)
        for path in self.provoke.iterdir():
            path.unlink()
        return jobs[-1]

    def data(self, name: str) -> Path:
        return self.live.folder / "data" / name / FOLDER / f"{FILE}.jsonl"


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    folder = tmp_path_factory.mktemp("canaries")
    study = with_defaults(Study(**TABLES))
    with quick_keys():
        homes = trial_homes(folder / "homes", study, NAMES, free_port())
    moved, settings = {}, {}
    for name, home in homes.platforms.items():
        moved[name] = PlatformHome(folder / FOLDER / name)  # a home may be moved
        moved[name].path.parent.mkdir(exist_ok=True)
        shutil.move(home.path, moved[name].path)
        data = write_canaries(folder / "data" / name)
        own = PlatformSettings(
            name=name, data=str(data), format="jsonl", policy={"newcomers": [SECRETS[-1]]}
        )
        settings[name] = folder / FOLDER / f"{name}.toml"
        settings[name].write_text(platform_toml(own))
    made = Canaries(
        Live(replace(homes, platforms=moved), study, folder, settings), folder / "provoke"
    )
    made.provoke.mkdir()
    try:
        _start(made)
        yield made
    finally:
        made.live.close()
        for place in (homes.server, *moved.values()):
            end_members(place.path, grace=0.0)


def _start(made: Canaries) -> None:
    with pytest.MonkeyPatch.context() as patch:
        made.live.start(SERVER)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("PROVOKE", str(made.provoke))
        made.live.start(*NAMES)
    made.live.wait_connected(*NAMES)


def assert_nothing_left(made: Canaries) -> None:
    """Search all that server and coordinator hold; what they printed lies in their log."""
    homes = made.live.homes
    for place in (homes.server.path, homes.federation.path, heard(made)):
        assert find_leaks(place, SECRETS) == []


def heard(made: Canaries) -> Path:
    """Write down all that the coordinator can ask the server for; return the folder."""
    place = made.live.folder / "heard"
    place.mkdir(exist_ok=True)
    shutil.copy(made.live.folder / f"{SERVER}.log", place)
    with admin_session(made.live.kit) as session:
        for job in session.jobs():
            (place / f"{job.job}.meta").write_text(str(session.meta(job.job)))
            (place / f"{job.job}.said").write_text(_said(session, job.job))
            if not (place / job.job).exists():
                session._session.download_job_result(job.job, str(place))
    return place


def _said(session: AdminSession, job: str) -> str:
    asked = ["check_status server", "check_status client", f"list_jobs -d {job}"]
    for name in ("show_errors", "show_stats"):
        asked += [f"{name} {job} server", f"{name} {job} client"]
    asked += [f"cat {name} log.txt" for name in (SERVER, *NAMES)]
    return "\n".join(str(session._session.api.do_command(each)) for each in asked)


def test_a_whole_run_discloses_no_canary(federation: Canaries) -> None:
    job = federation.run("whole")
    assert job.is_done
    assert_nothing_left(federation)
    at_home = find_leaks(federation.live.homes.platforms["north"].runs, SECRETS)
    assert {leak.canary for leak in at_home} >= {LABEL}, "the searcher finds what stays at home"


def test_a_planted_leak_is_found_in_every_place(federation: Canaries) -> None:
    """In homes, FLARE's stores and logs, and in what the coordinator downloads."""
    homes = federation.live.homes
    stores = [homes.server.jobs, homes.server.workspace, homes.server.runs, homes.federation.path]
    assert all(place.is_dir() for place in stores)
    for place in [*stores, heard(federation)]:
        planted = place / "planted.log"
        planted.write_text(f"Traceback: {TEXT}")
        root = place if place.name == "heard" else _home_of(place, homes)
        assert [leak.canary for leak in find_leaks(root, SECRETS)] == [TEXT]
        planted.unlink()
    assert_nothing_left(federation)


def _home_of(place: Path, homes: Any) -> Path:
    server: Path = homes.server.path
    return server if place.is_relative_to(server) else homes.federation.path


@pytest.mark.slow
def test_errors_in_training_disclose_no_canary(federation: Canaries) -> None:
    """An exception, an allocation beyond a limit, a disk without room: all in the first round."""
    provoked = {"north": "in training", "south": "no memory", "west": "disk full"}
    federation.run("training", **provoked)
    assert federation.happened == provoked
    assert_nothing_left(federation)
    _assert_failed_at_home(federation, "north", TEXT)
    _assert_failed_at_home(federation, "south", "MemoryError")
    codes = {"north": "unexpected", "south": "unexpected", "west": "disk-full"}
    assert federation.missing("training") == [codes]
    for name in ("north", "south"):
        assert [line.code for line in _sent(federation, name, "training")] == ["", "", "unexpected"]
    # What has no room to be recorded leaves without a line: a code, and not one byte of an update.
    assert [line.verb for line in _sent(federation, "west", "training")] == ["begin", "load"]


def test_data_that_cannot_be_read_disclose_no_canary(federation: Canaries) -> None:
    """No file, bytes that are no text, spans without a start."""
    north, south, west = (federation.data(name) for name in NAMES)
    before = south.read_bytes()
    moved = north.rename(north.with_suffix(".gone"))
    south.write_bytes(before.replace(TEXT.encode(), TEXT.encode() + b"\xff\xfe"))
    west.write_bytes(before.replace(b'"start"', b'"begin"'))
    try:
        federation.run("data")
    finally:
        moved.rename(north)
        south.write_bytes(before)
        west.write_bytes(before)
    assert_nothing_left(federation)
    for name in NAMES:
        _assert_failed_at_home(federation, name, f"{FILE}.jsonl")


@pytest.mark.slow
def test_processes_that_end_disclose_no_canary(federation: Canaries) -> None:
    """One that ends by itself, one that fails at its end, and one that is killed."""
    (federation.provoke / "north").write_text(f"process ends\n{WORDS}")
    (federation.provoke / "west").write_text(f"in ending\n{WORDS}")
    federation.submit("ends")
    until((federation.notes / "north").exists, 60, "north's end")
    (south,) = federation.live.job_pids("south")
    os.kill(south, signal.SIGKILL)
    federation.over("ends")
    assert federation.happened == {"north": "process ends", "west": "in ending"}
    for name in ("north", "west"):
        _assert_failed_at_home(federation, name, TEXT)
    (missing,) = federation.missing("ends")
    assert set(missing.values()) == {"platform-gone"}
    assert set(missing) <= {"north", "south"}
    assert_nothing_left(federation)


@pytest.mark.slow
def test_a_job_that_cannot_begin_discloses_no_canary(federation: Canaries) -> None:
    federation.run("begins", north="in beginning")
    assert federation.happened == {"north": "in beginning"}
    assert not _sent(federation, "north", "begins"), "it answered nothing"
    _assert_failed_at_home(federation, "north", TEXT)
    assert_nothing_left(federation)


def test_a_refused_policy_discloses_no_canary(federation: Canaries) -> None:
    """The last test: all jobs have ended, and everything is searched once more."""
    north = federation.live.settings["north"]
    allowed = north.read_text()
    north.write_text(allowed + f'types = ["{LABEL}"]\nmax_rounds = 1\n')
    job, words = federation.submit("refused"), FAILURES["policy-rounds"]
    with admin_session(federation.live.kit) as session:
        until(lambda: words in str(session.meta(job)), 60, "the refusal in the schedule")
        session.abort(job)
    north.write_text(allowed)
    found = [line for line in _lines(federation, "north") if line.run == "refused"]
    assert {line.code for line in found} == {"policy-rounds"}
    assert {line.asked_by for line in found} == {"server for coordinator@fedner.local"}
    until(lambda: not any(map(federation.live.job_pids, NAMES)), 60, "all processes of jobs ended")
    assert_nothing_left(federation)


def _sent(federation: Canaries, name: str, run: str) -> list[RecordLine]:
    return [line for line in _lines(federation, name) if line.run == run]


def _lines(federation: Canaries, name: str) -> Any:
    return read_record(federation.live.homes.platforms[name].path / RECORD).lines


def _assert_failed_at_home(federation: Canaries, name: str, canary: str) -> None:
    """The platform's own log has the cause: it happened, and the words were there."""
    home = federation.live.homes.platforms[name].path
    logs = [federation.live.folder / f"{name}.log", *home.rglob("log.txt")]
    assert any(canary in path.read_text(errors="replace") for path in logs)
