"""Random kill points for a live federation: what is killed, when, and what came of it.

`python tests/deployment/kill_points.py` prints what `make test-faults` found so far, as tables.
"""

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
from dataclasses import asdict, dataclass
from pathlib import Path

from live import NAMES, SERVER, Live, until

from fedner.engines.flare.job_ends import JobEnd, read_ends

LONGEST = 120.0  # seconds until a run must go on, on a machine that does other things too
STATES = ("starting", "in a round", "between rounds", "ending")  # a run meets them in this order
BOUNDS = {"noticed": 5.0, "closed": 15.0, "resumed": 20.0}  # on a quiet machine
_STOPPED_SECONDS = 7.0  # long enough to be missed
_PLACE = Path(os.environ.get("FEDNER_FAULTS", "build/faults.jsonl"))


@dataclass(frozen=True, slots=True)
class Point:
    """One kill.

    Attributes:
        number: Its place in the suite.
        kind: What is killed; a key of `KINDS`.
        victim: Which platform, where it is one.
        state: In which state of the job; one of `STATES`.
        rounds: After so many further rounds, where rounds count.
        seconds: So long after the state was seen.
        away: For how many seconds what was killed stays away.
    """

    number: int
    kind: str
    victim: str
    state: str
    rounds: int
    seconds: float
    away: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a kill; seconds, None where there is nothing to measure.

    Attributes:
        point: The kill.
        met: How the run stood then.
        noticed: Until the platform was named as gone.
        closed: Until the job was over.
        resumed: From the moment in which all were back until the next round.
        result: Whether the run went on.
        checked: What was compared when the run had ended; empty before.
    """

    point: Point
    met: str
    noticed: float | None
    closed: float | None
    resumed: float
    result: str
    checked: str = ""


def is_done(folder: Path) -> bool:
    """Whether a run has come to its last round, whatever became of its job then."""
    ends = read_ends(folder)
    return bool(ends) and ends[-1].outcome == "done"


@dataclass
class Scene:
    """A live federation, its run, and the process of the coordinator that began it."""

    federation: Live
    run: str
    coordinator: "subprocess.Popen[bytes] | None" = None

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
        return is_done(self.folder)

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
    """Every kind equally often, in random order and at random moments; all states in turn."""
    chance = random.Random(seed)
    kinds = [list(KINDS)[number % len(KINDS)] for number in range(count)]
    chance.shuffle(kinds)
    return [
        Point(
            number,
            kind,
            chance.choice(NAMES),
            STATES[number % len(STATES)],
            chance.randint(1, 12),
            round(chance.uniform(0.0, _LONGEST_IN[STATES[number % len(STATES)]]), 2),
            round(chance.uniform(0.0, 6.0), 2),
        )
        for number, kind in enumerate(kinds)
    ]


_LONGEST_IN = {"starting": 4.0, "in a round": 0.1, "between rounds": 0.0, "ending": 2.0}


def take_point(scene: Scene, point: Point) -> Outcome:
    """Kill at the point's moment; wait until the run goes on."""
    _wait_moment(scene, point)
    met, ends = scene.state(), read_ends(scene.folder)
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
        until(goes_on, LONGEST, f"{point}, {met}")
        result = "finished" if scene.is_done else "went on"
    except TimeoutError:
        result = "STUCK"
    noticed = _noticed(read_ends(scene.folder)[len(ends) :], point, killed)
    at = scene.last_round() if result == "went on" else time.time()
    return Outcome(point, met, noticed, closed, round(max(0.0, at - back), 1), result)


def _seconds_away(point: Point) -> float:
    """How long what was killed stays away; then all are back."""
    if point.kind == "orphan job":
        return _STOPPED_SECONDS + point.away
    if point.kind in ("platform's job", "server's job", "coordinator"):
        return 0.0
    return point.away / 2 if "server" in point.kind else point.away


def _wait_moment(scene: Scene, point: Point) -> None:
    """Wait until the run is in the point's state; one that is past it is killed where it is."""
    rounds = scene.federation.study.training.rounds
    num_rounds = lambda: scene.federation.rounds(scene.run)  # noqa: E731
    target = min(num_rounds() + point.rounds, rounds - 1)
    reached: dict[str, Callable[[], bool]] = {
        "starting": lambda: bool(scene.jobs()) and not scene.jobs()[-1].is_queued,
        "in a round": lambda: num_rounds() >= target,
        "between rounds": lambda: num_rounds() >= target,
        "ending": lambda: num_rounds() >= rounds,
    }
    with contextlib.suppress(TimeoutError):
        holds = reached[point.state]
        until(lambda: scene.is_done or holds(), LONGEST, point.state, every=0.01)
    time.sleep(point.seconds)


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
    """The outcomes one by one, as a table for people."""
    lines = ["| # | killed | state | away, s | noticed, s | closed, s | went on, s | result |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for each in outcomes:
        noticed, closed = ("-" if x is None else f"{x}" for x in (each.noticed, each.closed))
        away = round(_seconds_away(each.point), 1)
        lines.append(
            f"| {each.point.number} | {each.point.kind} | {each.point.state} ({each.met}) | {away} "
            f"| {noticed} | {closed} | {each.resumed} | {each.result}; {each.checked} |"
        )
    return "\n".join(lines)


def summary(outcomes: Sequence[Outcome]) -> str:
    """The outcomes by kind: how many, and the least and the most seconds."""
    lines = ["| killed | points | noticed, s | job closed, s | next round, s | above a bound |"]
    lines += ["|---|---|---|---|---|---|"]
    for kind in [kind for kind in KINDS if any(each.point.kind == kind for each in outcomes)]:
        alike = [each for each in outcomes if each.point.kind == kind]
        spans = [_span([getattr(each, name) for each in alike]) for name in BOUNDS]
        above = ", ".join(f"#{each.point.number}" for each in alike if _is_above(each)) or "none"
        lines.append(f"| {kind} | {len(alike)} | {' | '.join(spans)} | {above} |")
    return "\n".join(lines)


def _span(values: Sequence[float | None]) -> str:
    told = sorted(value for value in values if value is not None)
    if not told:
        return "-"
    return f"{told[0]}" if len(told) == 1 else f"{told[0]} to {told[-1]}"


def _is_above(outcome: Outcome) -> bool:
    found = {name: getattr(outcome, name) for name in BOUNDS}
    return any(value is not None and value > BOUNDS[name] for name, value in found.items())


def show() -> None:
    """Print what was found so far."""
    known = known_outcomes()
    outcomes = [known[number] for number in sorted(known)]
    print(summary(outcomes), table(outcomes), sep="\n\n")


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
    main(*sys.argv[1:]) if sys.argv[1:] else show()
