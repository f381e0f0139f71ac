"""The same federation in every engine: rounds per second, whole run, processor time, memory.

    make bench-federations

Every contender runs in processes of its own, several times, taking turns. The clock tells rounds
per second (the first rounds left out) and the seconds of the whole run; on a machine that others
use too, processor time is the steadier measure. Memory is the largest proportional set size of the
whole tree of processes, so that pages in common count once; it is read once a second, since reading
it halts those processes. All contenders must come to the same weights.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[3]
ROOM = "benchmarks.peers.federation"
WARM_UP, TOLERANCE = 5, 1e-4
SAMPLE_SECONDS, MEMORY_EVERY, LIMIT_SECONDS = 0.25, 4, 600

CONTENDERS: dict[str, tuple[str, ...]] = {
    "bare, one process": (".venv/bin/python", "-m", f"{ROOM}.bare", "1"),
    "bare, two processes": (".venv/bin/python", "-m", f"{ROOM}.bare", "2"),
    "fedner, serial": (".venv/bin/python", "-m", f"{ROOM}.ours", "0"),
    "fedner, two workers": (".venv/bin/python", "-m", f"{ROOM}.ours", "2"),
    "pfl, one process": (".venv-pfl/bin/python", "-m", f"{ROOM}.pfl_app"),
    "pfl, two by torchrun": (
        *(".venv-pfl/bin/torchrun", "--nproc-per-node", "2", "-m"),
        f"{ROOM}.pfl_app",
    ),
    "Flower simulation": (".venv-flower/bin/python", "-m", f"{ROOM}.flower_app"),
    "FLARE Collab simulator": (".venv-flare/bin/python", "-m", f"{ROOM}.flare_app"),
}
OURS = "fedner, two workers"
# Our rounds per second over theirs, at least.
ROUNDS_BARS = {
    "bare, two processes": 0.9,
    "pfl, one process": 1.4,
    "Flower simulation": 3.0,
    "FLARE Collab simulator": 2.5,
}
WHOLE_BAR, MEMORY_BAR = 3.0, 5.0
HEAVY = ("Flower simulation", "FLARE Collab simulator")


class FailedRunError(Exception):
    """A contender did not come to its end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run came to.

    Attributes:
        rounds: Rounds per second, the first ones left out.
        round_cpu: Processor seconds of one such round, all processes together.
        seconds: The whole run by the clock, from start to exit.
        cpu: The whole run in processor seconds.
        memory: The largest proportional set size of the tree, in megabytes.
        load: The machine's load average when the run ended.
        weights: The final weights.
    """

    rounds: float
    round_cpu: float
    seconds: float
    cpu: float
    memory: float
    load: float
    weights: Mapping[str, list[float]]


@dataclass(slots=True)
class Tree:
    """Watches all that descends from this process.

    Attributes:
        memory: The largest memory so far, in megabytes.
        times: When samples were taken.
        spent: Processor seconds of the tree by then.
    """

    memory: float = 0.0
    times: list[float] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)
    _last: dict[int, float] = field(default_factory=dict)

    def sample(self) -> None:
        """Read processor time, and now and then memory, of every living process of the tree."""
        memory, weighs = 0.0, len(self.times) % MEMORY_EVERY == 0
        for pid in _descendants(os.getpid()):
            with suppress(OSError, StopIteration):
                self._last[pid] = max(self._last.get(pid, 0.0), _processor_seconds(pid))
                memory += _proportional_set(pid) if weighs else 0.0
        self.memory = max(self.memory, memory)
        self.times.append(time.monotonic())
        self.spent.append(sum(self._last.values()))

    def spent_at(self, moment: float) -> float:
        """Return the processor seconds spent by a moment, between two samples."""
        after = min(max(bisect_left(self.times, moment), 1), len(self.times) - 1)
        (t0, t1), (s0, s1) = self.times[after - 1 : after + 1], self.spent[after - 1 : after + 1]
        return s0 + (s1 - s0) * (moment - t0) / max(t1 - t0, 1e-9)


def _descendants(ancestor: int) -> list[int]:
    """Return all processes that descend from one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
    found, frontier = [], {ancestor}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found += sorted(frontier)
    return found


def _stat(pid: int) -> list[str]:
    """Return the fields of a process after its name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _processor_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _proportional_set(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def adopt_orphans() -> None:
    """Become the parent of grandchildren whose parents end: daemons stay in the tree."""
    set_child_subreaper = 36
    ctypes.CDLL(None, use_errno=True).prctl(set_child_subreaper, 1, 0, 0, 0)


def contend(command: tuple[str, ...]) -> Outcome:
    """Run one contender to its end, orphans included, and measure it."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        # Also where stdout goes: a pipe that nobody reads would block a talkative engine.
        log = Path(folder) / "log.txt"
        with log.open("w") as out:
            used, began = _reaped_seconds(), time.monotonic()
            process = subprocess.Popen(
                [str(ROOT / command[0]), *command[1:]],
                cwd=ROOT,
                env=_environment(result),
                stdout=out,
                stderr=subprocess.STDOUT,
                # Linux shares a busy machine out by session: engines whose processes open sessions
                # of their own would get several shares, and those that do not, none of their own.
                start_new_session=True,
            )
            tree = Tree()
            while process.poll() is None and time.monotonic() - began < LIMIT_SECONDS:
                tree.sample()
                time.sleep(SAMPLE_SECONDS)
        seconds = time.monotonic() - began
        if process.returncode != 0 or not result.exists():
            process.kill()
            raise FailedRunError(
                f"{command}: ended with {process.returncode}\n{log.read_text()[-4000:]}"
            )
        _reap()
        told = json.loads(result.read_text())
    ends = told["ends"]
    first, last = ends[WARM_UP], ends[-1]
    num_rounds = len(ends) - 1 - WARM_UP
    return Outcome(
        num_rounds / (last - first),
        (tree.spent_at(last) - tree.spent_at(first)) / num_rounds,
        seconds,
        max(_reaped_seconds() - used, tree.spent[-1]),
        tree.memory,
        os.getloadavg()[0],
        told["weights"],
    )


def _environment(result: Path) -> dict[str, str]:
    """Return the environment: one thread for each process, and nothing sent to anybody."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FEDERATION_RESULT": str(result),
        "OMP_NUM_THREADS": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def _reaped_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reap() -> None:
    """Wait a while for adopted orphans, so that the next contender has the machine to itself."""
    deadline = time.monotonic() + 10
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(SAMPLE_SECONDS)


def largest_difference(one: Outcome, other: Outcome) -> float:
    """Return the largest difference of two runs' final weights."""
    return max(
        abs(a - b)
        for name, values in one.weights.items()
        for a, b in zip(values, other.weights[name], strict=True)
    )


def _medians(runs: list[Outcome]) -> dict[str, float]:
    numbers = ("rounds", "round_cpu", "seconds", "cpu", "memory", "load")
    return {name: median(getattr(run, name) for run in runs) for name in numbers}


def print_table(results: Mapping[str, list[Outcome]]) -> None:
    print("| engine | runs | rounds/s | ms processor/round | whole, s | processor, s | MB | load |")
    print("|---|---|---|---|---|---|---|---|")
    for name, runs in results.items():
        m = _medians(runs)
        print(
            f"| {name} | {len(runs)} | {m['rounds']:.2f} | {1e3 * m['round_cpu']:.0f} "
            f"| {m['seconds']:.1f} | {m['cpu']:.1f} | {m['memory']:.0f} | {m['load']:.1f} |"
        )


def print_bars(results: Mapping[str, list[Outcome]]) -> None:
    """Print ratios of medians, with the bar beside each."""
    told = {name: _medians(runs) for name, runs in results.items()}
    own = told[OURS]
    rows: list[tuple[str, float, float]] = []
    for name, bar in ((name, bar) for name, bar in ROUNDS_BARS.items() if name in told):
        rows.append((f"rounds/s, over {name}", own["rounds"] / told[name]["rounds"], bar))
        cheaper = told[name]["round_cpu"] / own["round_cpu"]
        rows.append((f"processor time of a round, {name} over ours", cheaper, bar))
    for name in (name for name in HEAVY if name in told):
        rows.append(
            (f"whole run, {name} over ours", told[name]["seconds"] / own["seconds"], WHOLE_BAR)
        )
        rows.append((f"memory, {name} over ours", told[name]["memory"] / own["memory"], MEMORY_BAR))
    print(f"\n| {OURS} | measured | bar |\n|---|---|---|")
    for what, found, bar in rows:
        print(f"| {what} | {found:.2f} | {bar:.1f} |")


def main(repeats: int) -> None:
    """Run all contenders in turn and print what they came to."""
    adopt_orphans()
    results: dict[str, list[Outcome]] = {name: [] for name in CONTENDERS}
    for turn in range(repeats):
        for name, command in CONTENDERS.items():
            try:
                outcome = contend(command)
            except FailedRunError as error:
                # It happens to simulators that start a dozen processes; the table says how often.
                print(f"{turn + 1}/{repeats} {name}: {error}", file=sys.stderr, flush=True)
                continue
            results[name].append(outcome)
            difference = largest_difference(results["bare, one process"][0], outcome)
            assert difference < TOLERANCE, f"{name}: weights differ by {difference}"
            print(
                f"{turn + 1}/{repeats} {name}: {outcome.rounds:.2f} rounds/s, "
                f"{outcome.seconds:.1f} s, {outcome.cpu:.1f} s processor, "
                f"{outcome.memory:.0f} MB, load {outcome.load:.1f}, weights to {difference:.1e}",
                file=sys.stderr,
                flush=True,
            )
    finished = {name: runs for name, runs in results.items() if runs}
    print_table(finished)
    if OURS in finished:
        print_bars(finished)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
