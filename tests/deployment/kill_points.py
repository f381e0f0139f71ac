"""Random kill points for a live federation: what is killed, when, and what came of it."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from live import NAMES, SERVER, Live, until

from fedner.engines.flare.job_ends import JobEnd, read_ends

LONGEST = 120.0  # seconds until a run must go on, on a machine that does other things too
_STOPPED_SECONDS = 7.0  # long enough to be missed
_CLOSES_SECONDS = 5.0  # until FLARE has closed a job whose process at the server ended
_PLACE = Path(os.environ.get("FEDNER_FAULTS", "build/faults.jsonl"))


@dataclass(frozen=True, slots=True)
class Point:
    """One kill.

    Attributes:
        number: Its place in the suite.
        kind: What is killed; a key of `KINDS`.
        victim: Which platform, where it is one.
        rounds: After so many further rounds; 0 where `seconds` counts.
        seconds: So long after the server's job was killed and is closed: while another one starts.
        away: For how many seconds what was killed stays away.
    """

    number: int
    kind: str
    victim: str
    rounds: int
    seconds: float
    away: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a kill; seconds, None where there is nothing to measure."""

    point: Point
    state: str
    noticed: float | None
    closed: float | None
    resumed: float
    result: str


@dataclass
class Scene:
    """A live federation, its run, and the process of the coordinator that began it."""

    federation: Live
    run: str
    coordinator: "subprocess.Popen[bytes] | None" = None
    finished: list[str] = field(default_factory=list)

    def begin(self, number: int) -> None:
        """Let a coordinator's process submit the next run, and follow it."""
        self.run = f"run-{number}"
        self.follow(submits=True)
        until(lambda: bool(self.jobs()), LONGEST, f"{self.run} submitted")

    def follow(self, *, submits: bool = False) -> None:
        self.leave()
        admin = self.federation.homes.federation.admin
        spec = [self.run, self.federation.study.canonical] if submits else [self.run]
        command = [sys.executable, __file__, str(admin.kit), admin.name, *spec]
        with (self.federation.folder / "coordinator.log").open("ab") as log:
            self.coordinator = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )

    def leave(self) -> None:
        if self.coordinator is not None:
            self.coordinator.kill()
            self.coordinator.wait()

    def jobs(self) -> list:
        try:
            return self.federation.wait_jobs(bool, self.run, seconds=0.0)
        except TimeoutError:
            return []

    @property
    def folder(self) -> Path:
        return self.federation.homes.server.runs / self.run

    @property
    def is_done(self) -> bool:
        ends = read_ends(self.folder)
        return bool(ends) and ends[-1].outcome == "done"

    def last_round(self) -> float:
        """When the last round was recorded; 0 before any."""
        path = self.folder / "rounds.jsonl"
        return path.stat().st_mtime if path.exists() and path.stat().st_size else 0.0

    def state(self) -> str:
        if self.is_done:
            return "finished"
        jobs = self.jobs()
        status = jobs[-1].status if jobs else "no answer"
        return f"job {len(jobs)} {status}, round {self.federation.rounds(self.run)}"


def _back_server(scene: Scene) -> None:
    scene.federation.start(SERVER)
    scene.federation.watch_apart()


def _platform_job(scene: Scene, point: Point) -> None:
    scene.federation.kill_job(point.victim)


def _platform_parent(scene: Scene, point: Point) -> None:
    scene.federation.kill_parent(point.victim)
    time.sleep(point.away)
    scene.federation.start(point.victim)


def _platform(scene: Scene, point: Point) -> None:
    scene.federation.kill_all(point.victim)
    time.sleep(point.away)
    scene.federation.start(point.victim)


def _server_job(scene: Scene, _: Point) -> None:
    scene.federation.kill_job(SERVER)


def _server_parent(scene: Scene, point: Point) -> None:
    scene.federation.kill_parent(SERVER)
    time.sleep(point.away / 2)
    _back_server(scene)


def _server(scene: Scene, point: Point) -> None:
    scene.federation.kill_all(SERVER)
    time.sleep(point.away / 2)
    _back_server(scene)


def _both(scene: Scene, point: Point) -> None:
    scene.federation.kill_all(point.victim)
    scene.federation.kill_all(SERVER)
    time.sleep(point.away / 2)
    _back_server(scene)
    scene.federation.start(point.victim)


def _orphan(scene: Scene, point: Point) -> None:
    """A job that hangs holds its folder while its successor begins."""
    pids = scene.federation.job_pids(point.victim)
    _signal(pids, signal.SIGSTOP)
    time.sleep(_STOPPED_SECONDS + point.away)
    _signal(pids, signal.SIGCONT)


def _watchdog(scene: Scene, point: Point) -> None:
    if scene.federation.companion is not None:
        scene.federation.companion.kill()
        scene.federation.companion.wait()
    time.sleep(point.away)
    scene.federation.watch_apart()


def _coordinator(scene: Scene, _: Point) -> None:
    scene.leave()
    scene.follow()


def _signal(pids: Sequence[int], kind: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, kind)


KINDS: dict[str, Callable[[Scene, Point], None]] = {
    "platform's job": _platform_job,
    "platform's parent": _platform_parent,
    "platform": _platform,
    "server's job": _server_job,
    "server's parent": _server_parent,
    "server": _server,
    "platform and server": _both,
    "orphan job": _orphan,
    "watchdog": _watchdog,
    "coordinator": _coordinator,
}


def draw_points(count: int, seed: int = 14) -> list[Point]:
    """Every kind equally often, in random order, at random moments."""
    chance = random.Random(seed)
    kinds = [list(KINDS)[number % len(KINDS)] for number in range(count)]
    chance.shuffle(kinds)
    return [
        Point(
            number,
            kind,
            chance.choice(NAMES),
            chance.choice([0, chance.randint(1, 40)]),
            round(chance.uniform(0.0, 9.0), 2),
            round(chance.uniform(0.0, 8.0), 2),
        )
        for number, kind in enumerate(kinds)
    ]


def take_point(scene: Scene, point: Point) -> Outcome:
    """Kill at the point's moment; wait until the run goes on."""
    _wait_moment(scene, point)
    state, ends = scene.state(), read_ends(scene.folder)
    jobs = scene.jobs()
    killed = time.time()
    kill = threading.Thread(target=KINDS[point.kind], args=(scene, point))
    kill.start()
    closed = _closed(scene, len(jobs), killed) if jobs and not jobs[-1].is_over else None
    kill.join()
    back = killed + _seconds_away(point)

    def goes_on() -> bool:
        return scene.is_done or scene.last_round() > back + 0.3

    try:
        until(goes_on, LONGEST, f"{point} in {state}")
        result = "finished" if scene.is_done else "went on"
    except TimeoutError:
        result = "STUCK"
    noticed = _noticed(read_ends(scene.folder)[len(ends) :], point, killed)
    return Outcome(point, state, noticed, closed, round(time.time() - back, 1), result)


def _seconds_away(point: Point) -> float:
    """How long what was killed stays away; then all are back."""
    if point.kind == "orphan job":
        return _STOPPED_SECONDS + point.away
    if point.kind in ("platform's job", "server's job", "coordinator"):
        return 0.0
    return point.away / 2 if "server" in point.kind else point.away


def _wait_moment(scene: Scene, point: Point) -> None:
    if not point.rounds:
        scene.federation.kill_job(SERVER)
        time.sleep(_CLOSES_SECONDS + point.seconds)
        return
    target = scene.federation.rounds(scene.run) + point.rounds
    with contextlib.suppress(TimeoutError):
        until(
            lambda: scene.is_done or scene.federation.rounds(scene.run) >= target, LONGEST, "rounds"
        )


def _closed(scene: Scene, num_jobs: int, killed: float) -> float | None:
    """How long after the kill the job that ran then was over; None if it went on."""
    began = time.time()
    while time.time() - began < LONGEST:
        jobs = scene.jobs()
        if len(jobs) >= num_jobs and jobs[num_jobs - 1].is_over:
            return round(time.time() - killed, 1)
        if scene.last_round() > began + 2.0 or scene.is_done:
            return None  # it went on
        time.sleep(0.1)
    return None


def _noticed(ends: Sequence[JobEnd], point: Point, killed: float) -> float | None:
    told = [end.time - killed for end in ends if point.victim in end.missing]
    return round(told[0], 1) if told else None


def known_outcomes() -> dict[int, Outcome]:
    """What earlier calls of the suite found, by the number of the point."""
    lines = _PLACE.read_text().splitlines() if _PLACE.exists() else []
    found = {}
    for line in lines:
        table = json.loads(line)
        outcome = Outcome(**(table | {"point": Point(**table["point"])}))
        found[outcome.point.number] = outcome
    return found


def keep_outcome(outcome: Outcome) -> None:
    _PLACE.parent.mkdir(parents=True, exist_ok=True)
    with _PLACE.open("a") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a table for people."""
    lines = ["| # | killed | away, s | in state | noticed, s | closed, s | went on, s | result |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for each in outcomes:
        noticed, closed = (
            "-" if value is None else f"{value}" for value in (each.noticed, each.closed)
        )
        lines.append(
            f"| {each.point.number} | {each.point.kind} | {each.point.away} | {each.state} "
            f"| {noticed} | {closed} | {each.resumed} | {each.result} |"
        )
    return "\n".join(lines)


def main(kit: str, name: str, run: str, study: str = "") -> None:
    """The coordinator's process: submit a run, where there is a study, and follow it."""
    from fedner.engines.flare.job import JobSpec
    from fedner.engines.flare.session import AdminKit, admin_session
    from fedner.engines.flare.watchdog import submit

    while True:
        with contextlib.suppress(Exception), admin_session(AdminKit(Path(kit), name)) as session:
            if study and not session.jobs(run):
                names = [each["name"] for each in json.loads(study)["platforms"]]
                submit(session, JobSpec(run, study, names))
            while True:
                session.jobs(run)
                time.sleep(1.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
