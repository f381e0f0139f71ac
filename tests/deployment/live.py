"""A live federation on this machine: real processes, mutual TLS on loopback, and ways to kill."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil
import torch
from free_ports import free_port

from fedner.engines.flare.job import JobSpec
from fedner.engines.flare.processes import Program, end_members, members, start, stop
from fedner.engines.flare.session import AdminKit, AdminSession, JobState, admin_session
from fedner.engines.flare.watchdog import Limits, Watchdog, close_stale_jobs, submit
from fedner.engines.in_process import InProcess
from fedner.federated.checkpoints import read_state, stored_rounds
from fedner.runs.coordinator import coordinate
from fedner.runs.deployment import identity
from fedner.runs.deployment.federation import signed_roster
from fedner.runs.deployment.kits import ORGANISATION
from fedner.runs.deployment.trial import Homes, trial_homes
from fedner.runs.platform_file import read_platform
from fedner.runs.site import open_site
from fedner.runs.site_answer import SiteAnswer
from fedner.runs.study_defaults import with_defaults
from fedner.runs.study_files import halves_of
from fedner.runs.sums import is_signed
from fedner.settings import Settings, Study, parse_as, platform_toml

NAMES = ("case-reports", "forum-posts", "social-posts")
SERVER = "server"
Told = TypeVar("Told")
RUN = "run-1"


def tiny_settings(rounds: int = 4, *, sentences: int = 40, **changes: object) -> Settings:
    """Three built-in platforms with a small tagger."""
    table = {
        "title": "live",
        "seed": 3,
        "training": {"rounds": rounds, "batch_size": 16, "baselines": []},
        "model": {"recipe": "CNN-LSTM-CRF", "hidden": 16},
        "embeddings": {"words": "hashed", "dimension": 16, "buckets": 256},
        "platforms": [
            {"name": name, "data": f"synthetic:{name}", "num_sentences": sentences}
            for name in NAMES
        ],
    }
    return parse_as(Settings, table | changes, "the test")


@dataclass
class Live:
    """A federation whose processes are started and ended one by one."""

    homes: Homes
    study: Study
    folder: Path
    settings: Mapping[str, Path]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    limits: Limits = field(default_factory=lambda: Limits(poll=0.5))
    companion: "subprocess.Popen[bytes] | None" = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _watch: threading.Thread | None = None
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _session: AdminSession | None = None

    def program(self, name: str) -> Program:
        if name == SERVER:
            home = self.homes.server
            return Program(home.path, home.workspace, ORGANISATION)
        own = self.homes.platforms[name]
        return Program(own.path, own.workspace, ORGANISATION, name, self.settings[name])

    def start(self, *names: str) -> None:
        for name in names or (SERVER, *self.study.names):
            if name == SERVER:
                close_stale_jobs(self.homes.server.jobs)
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = start(self.program(name), log)

    def watch(self) -> None:
        kit = self.homes.server.watchdog
        dog = Watchdog(
            AdminKit(kit.kit, kit.name), self.homes.server.runs, self.limits, self.said.append
        )
        self._watch = threading.Thread(target=dog.watch, args=(self._stop,), daemon=True)
        self._watch.start()

    def watch_apart(self) -> None:
        """Run the watchdog as `fedner server start` does: in a process of its own."""
        self._end_companion()
        home = self.program(SERVER)
        command = [sys.executable, "-m", "fedner.runs.deployment.watching", str(home.home)]
        with (self.folder / "watchdog.log").open("ab") as log:
            self.companion = subprocess.Popen(
                command,
                env=home.environment,
                cwd=home.home,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def close(self) -> None:
        self._stop.set()
        self._end_companion()
        self._open.close()
        for name, process in self.processes.items():
            stop(process, self.program(name), grace=1.0)
        if self._watch is not None:
            self._watch.join(30)

    def _end_companion(self) -> None:
        if self.companion is not None:
            self.companion.kill()
            self.companion.wait()

    @property
    def kit(self) -> AdminKit:
        admin = self.homes.federation.admin
        return AdminKit(admin.kit, admin.name)

    def wait_connected(self, *names: str, seconds: float = 240) -> None:
        wanted = set(names or self.study.names)

        until(
            lambda: wanted <= set(self._told(AdminSession.connected, [])),
            seconds,
            f"{wanted} connected",
        )

    def submit(self, run: str = RUN, *platforms: str) -> str:
        quorum = self.study.participation.quorum
        roster = ""
        if is_signed(self.study):  # whose keys platforms know each other by
            roster = signed_roster(self.homes.federation).model_dump_json()
        spec = JobSpec(run, self.study.canonical, platforms or self.study.names, quorum, roster)
        job = self._told(lambda session: submit(session, spec), "")
        assert job
        return job

    def _told(self, ask: Callable[[AdminSession], Told], otherwise: Told) -> Told:
        """Ask the server, in a session that stays open until it breaks."""
        try:
            if self._session is None:
                self._session = self._open.enter_context(admin_session(self.kit, timeout=3))
            return ask(self._session)
        except Exception:  # noqa: BLE001 - the server is away; it is asked again
            self._open.close()
            self._session = None
            return otherwise

    def wait_done(self, run: str = RUN, seconds: float = 300) -> list[JobState]:
        """Wait until the newest job of a run has come to its end; return all."""
        return self.wait_jobs(lambda jobs: jobs[-1].is_done, run, seconds)

    def wait_jobs(
        self, holds: Callable[[list[JobState]], bool], run: str = RUN, seconds: float = 120
    ) -> list[JobState]:
        found: list[JobState] = []

        def look() -> bool:
            found[:] = self._told(lambda session: session.jobs(run), found)
            return bool(found) and holds(found)

        try:
            until(look, seconds, f"jobs of {run}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {found}; {self.said}") from None
        return list(found)

    def rounds(self, run: str = RUN) -> int:
        path = self.homes.server.runs / run / "rounds.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def wait_round(self, number: int, run: str = RUN, seconds: float = 240) -> None:
        until(lambda: self.rounds(run) >= number, seconds, f"round {number}")

    def job_pids(self, name: str) -> list[int]:
        """The processes of jobs, without the parent."""
        apart = {self.processes[name].pid, self.companion.pid if self.companion else 0}
        return [pid for pid in members(self.program(name).home) if pid not in apart]

    def kill_job(self, name: str) -> None:
        for pid in self.job_pids(name):
            _kill(pid)

    def kill_parent(self, name: str) -> None:
        _kill(self.processes[name].pid)
        self.processes[name].wait()

    def kill_all(self, name: str) -> None:
        for pid in members(self.program(name).home):
            _kill(pid)
        self.processes[name].wait()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def slowed(pids: Sequence[int], asleep: float, awake: float) -> Iterator[None]:
    """Let processes sleep and wake in turn, as on a machine that has no time for them."""
    is_over = threading.Event()

    def turns() -> None:
        while not is_over.is_set():
            for kind, seconds in ((signal.SIGSTOP, asleep), (signal.SIGCONT, awake)):
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, kind)
                is_over.wait(seconds)

    thread = threading.Thread(target=turns)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def until(holds: Callable[[], bool], seconds: float, what: str, every: float = 0.1) -> float:
    """Wait until something holds, with a look every so many seconds; return how long it took."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(every)
    return time.monotonic() - began


@contextmanager
def quick_keys() -> Iterator[None]:
    """Make smaller keys, in a fifth of the time."""
    before, identity.KEY_BITS = identity.KEY_BITS, 2048
    try:
        yield
    finally:
        identity.KEY_BITS = before


@contextmanager
def live(folder: Path, settings: Settings, limits: Limits | None = None) -> Iterator[Live]:
    """A federation whose homes are installed; nothing is started. All processes are ended."""
    halves = halves_of(settings)
    study = with_defaults(halves.study)
    homes = trial_homes(folder / "homes", study, study.names, free_port())
    own = {}
    for name, each in halves.platforms.items():
        own[name] = folder / f"{name}.toml"
        own[name].write_text(platform_toml(each))
    federation = Live(homes, study, folder, own)
    if limits is not None:
        federation.limits = limits
    try:
        yield federation
    finally:
        federation.close()
        for home in (homes.server, *homes.platforms.values()):
            end_members(home.path, grace=0.0)


def reference(live_: Live, folder: Path) -> Path:
    """Train the same study in this process; return the run folder."""

    def answer(name: str) -> SiteAnswer:
        own = read_platform(live_.settings[name])
        return SiteAnswer(open_site(live_.study, own, folder / "platforms" / name))

    with contextlib.closing(InProcess(answer, live_.study.names)) as engine:
        coordinate(live_.study, engine, folder, run_name=RUN)
    return folder


def assert_same_tensors(live_: Live, expected: Path, run: str = RUN) -> None:
    """Server and platforms hold the very bits of a run in one process."""
    assert_same_states(live_.homes.server.runs / run / "server", expected / "server")
    for name, home in live_.homes.platforms.items():
        assert_same_states(home.runs / run, expected / "platforms" / name)


def assert_same_states(found: Path, expected: Path) -> None:
    assert stored_rounds(found)[-1:] == stored_rounds(expected)[-1:] != []
    one, _ = read_state(found, stored_rounds(found)[-1])
    other, _ = read_state(expected, stored_rounds(expected)[-1])
    assert one.keys() == other.keys()
    assert one
    differing = [name for name in one if not torch.equal(one[name], other[name])]
    assert differing == []


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "rounds.jsonl").read_text().splitlines()]


def resident(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)
