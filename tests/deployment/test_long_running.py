"""Three platforms for hours of rounds: memory, files and logs do not grow beyond their rotation.

`FEDNER_HOURS=2 python -m pytest -s tests/deployment/test_long_running.py`; a tenth of an hour
unless it is said. What was seen is printed every minute, and judged at the end.
"""

import os
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import psutil
import pytest
from growth import LOGS, grown_at_one_pace, sizes_by_kind
from live import SERVER, Live, live, quick_keys, tiny_settings, until

from fedner.engines.flare.processes import members

pytestmark = [pytest.mark.deployment, pytest.mark.slow]
HOURS = float(os.environ.get("FEDNER_HOURS", "0.1"))
PER_HOUR = 3600
LOOKS = 24  # in the whole time
ROUNDS = 2_000_000
SAMPLE_SECONDS = 10
MOST_GROWTH = 0.05  # of memory, from the second quarter to the last
LEAST_GROWTH = 8e6  # bytes that are no growth
LOG_BYTES = 5 * 5_000_000
TMP_FILES = 50
SMALL_GROWTH = 50_000  # bytes
MOST_LOG = 5_100_000
# What a run keeps of every round, by design.
GROWING = ("rounds.jsonl", "disclosure-record.jsonl", "replies.jsonl", "own-progress.jsonl")


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw: memory, threads and open files by process, files by home, their sizes.

    `pace` is the rounds per second since the look before, `memory` the mean over that time.
    """

    hours: float
    rounds: int
    pace: float
    memory: dict[str, float]
    threads: dict[str, float]
    open_files: dict[str, float]
    files: dict[str, int]
    logs: dict[str, int]
    sizes: dict[str, int]


def homes(federation: Live) -> dict[str, Path]:
    platforms = {name: home.path for name, home in federation.homes.platforms.items()}
    return {SERVER: federation.homes.server.path, **platforms}


def processes_of(federation: Live) -> list[tuple[str, psutil.Process]]:
    """The processes that live, each with its role."""
    found = []
    for name, home in homes(federation).items():
        for pid in members(home):
            try:
                process = psutil.Process(pid)
                found.append((f"{name} {_role(process)}", process))
            except psutil.NoSuchProcess:
                continue
    return found


def in_use(federation: Live, what: str) -> dict[str, float]:
    """Memory, threads or open files by role."""
    found: dict[str, float] = defaultdict(float)
    for role, process in processes_of(federation):
        try:
            if what == "memory":
                found[role] += process.memory_info().rss
            else:
                found[role] += process.num_threads() if what == "threads" else process.num_fds()
        except psutil.NoSuchProcess:
            continue
    return dict(found)


def look(federation: Live, run: str, seconds: float, before: Look | None) -> Look:
    """Watch for so long, and say what was seen."""
    end, samples = time.monotonic() + seconds, []
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(SAMPLE_SECONDS, left))
        samples.append(in_use(federation, "memory"))
    sizes = {name: _sizes(home) for name, home in homes(federation).items()}
    rounds = federation.rounds(run)
    return Look(
        (0.0 if before is None else before.hours) + seconds / PER_HOUR,
        rounds,
        (rounds - (0 if before is None else before.rounds)) / seconds,
        {role: fmean(each.get(role, 0.0) for each in samples) for role in samples[-1]},
        in_use(federation, "threads"),
        in_use(federation, "open files"),
        {name: len(found) for name, found in sizes.items()},
        {
            name: sum(size for path, size in found.items() if path.startswith("logs/"))
            for name, found in sizes.items()
        },
        {f"{name}/{path}": size for name, found in sizes.items() for path, size in found.items()},
    )


def _sizes(home: Path) -> dict[str, int]:
    """The files of a home; one may be gone before it is looked at."""
    found = {}
    for path in sorted(home.rglob("*")):
        with suppress(FileNotFoundError):
            if path.is_file():
                found[str(path.relative_to(home))] = path.stat().st_size
    return found


def _role(process: psutil.Process) -> str:
    line = " ".join(process.cmdline())
    if "runner_process" in line or "worker_process" in line:
        return "job"
    return "watchdog" if "watching" in line else "start" if "fedner" in line else "parent"


def start_command(federation: Live, name: str) -> "subprocess.Popen[bytes]":
    """Start as users do, so that logs are rotated."""
    home = homes(federation)[name]
    words = ["server", "start"] if name == SERVER else ["platform", "start"]
    if name != SERVER:
        words += ["--settings", str(federation.settings[name])]
    with (federation.folder / f"{name}.out").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "fedner", *words, "--home", str(home)],
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def test_hours_of_rounds(tmp_path: Path) -> None:
    training = {"rounds": ROUNDS, "batch_size": 16, "checkpoint_every": 200, "baselines": []}
    policy = {"max_updates": 10 * ROUNDS}
    # Corpora this small are learned by heart: gradients vanish, and one day jump a thousandfold.
    settings = tiny_settings(training=training, participation={"norm_factor": 1e9})
    with quick_keys(), live(tmp_path, settings) as federation:
        for path in federation.settings.values():
            lines = "\n".join(f"{key} = {value}" for key, value in policy.items())
            path.write_text(f"{path.read_text()}\n[policy]\n{lines}\n")
        processes = [start_command(federation, name) for name in homes(federation)]
        try:
            federation.wait_connected()
            federation.submit("long")
            federation.wait_round(50, "long", seconds=120)
            seen = _watched(federation)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(60)
    _judge(seen)


def _watched(federation: Live) -> list[Look]:
    seen: list[Look] = []
    for _ in range(LOOKS):
        last = seen[-1] if seen else None
        seen.append(look(federation, "long", HOURS * PER_HOUR / LOOKS, last))
        now = seen[-1]
        memory, logs = (sum(each.values()) / 1e6 for each in (now.memory, now.logs))
        shown = f"{now.hours:5.2f} h  round {now.rounds:,}  {now.pace:.1f}/s  {memory:,.0f} MB"
        print(f"{shown}  {sum(now.files.values())} files  {logs:.1f} MB of logs", flush=True)
    until(lambda: federation.rounds("long") > seen[-1].rounds, 60, "it still trains")
    return seen


def _judge(seen: list[Look]) -> None:
    quarter = len(seen) // 4
    second, last = seen[quarter : 2 * quarter], seen[-quarter:]
    assert last[-1].rounds > second[0].rounds
    grown_roles = []
    for role in second[0].memory:
        before = fmean(each.memory[role] for each in second)
        after = fmean(each.memory[role] for each in last)
        grown = grown_at_one_pace(
            [each.hours for each in seen],
            [each.pace for each in seen],
            [each.memory.get(role, before) for each in seen],
        )
        shown = f"{before / 1e6:.1f} MB, then {after / 1e6:.1f} MB"
        print(f"{role}: {shown}; at one pace {grown / 1e6:+.1f} MB")
        if after - before >= max(LEAST_GROWTH, MOST_GROWTH * before):
            grown_roles.append(role)
        assert last[-1].open_files[role] <= second[0].open_files[role] + 5, role
        assert last[-1].threads[role] <= max(each.threads[role] for each in second) + 5, role
    for name in second[0].files:
        assert last[-1].files[name] <= max(each.files[name] for each in second) + TMP_FILES, name
        assert last[-1].logs[name] <= LOG_BYTES, name
    first, final = sizes_by_kind(second[0].sizes), sizes_by_kind(last[-1].sizes)
    growth = {path: size - first.get(path, 0) for path, size in final.items()}
    large = {path: each for path, each in growth.items() if each > SMALL_GROWTH}
    print("grown:", large)
    assert all(path.endswith(GROWING) or LOGS.search(path) for path in large), large
    logs = {path: size for path, size in last[-1].sizes.items() if LOGS.search(path)}
    assert max(logs.values()) <= MOST_LOG, logs
    assert not grown_roles, grown_roles
