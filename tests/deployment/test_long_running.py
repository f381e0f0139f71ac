"""Three platforms for hours of rounds: memory, files and logs do not grow beyond their rotation.

`FEDNER_HOURS=2 python -m pytest -s tests/deployment/test_long_running.py`; a tenth of an hour
unless it is said. What was seen is printed every minute, and judged at the end.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import psutil
import pytest
from live import SERVER, Live, live, quick_keys, tiny_settings, until

from fedner.engines.flare.processes import members

pytestmark = [pytest.mark.deployment, pytest.mark.slow]
HOURS = float(os.environ.get("FEDNER_HOURS", "0.1"))
PER_HOUR = 3600
LOOKS = 24  # in the whole time
ROUNDS = 2_000_000
MOST_GROWTH = 0.05  # of memory, from the second quarter to the last
LEAST_GROWTH = 8e6  # bytes that are no growth
LOG_BYTES = 5 * 5_000_000
TMP_FILES = 50
SMALL_GROWTH = 50_000  # bytes
LOGS = (".log", "log.txt")  # rotated
MOST_LOG = 5_100_000
# What a run keeps of every round, by design.
GROWING = ("rounds.jsonl", "disclosure-record.jsonl", "replies.jsonl")


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw: memory, threads and open files by process, files by home, their sizes."""

    rounds: int
    memory: dict[str, float]
    threads: dict[str, int]
    open_files: dict[str, int]
    files: dict[str, int]
    logs: dict[str, int]
    sizes: dict[str, int]


def homes(federation: Live) -> dict[str, Path]:
    platforms = {name: home.path for name, home in federation.homes.platforms.items()}
    return {SERVER: federation.homes.server.path, **platforms}


def look(federation: Live, run: str) -> Look:
    memory: dict[str, float] = {}
    threads: dict[str, int] = {}
    opened: dict[str, int] = {}
    for name, home in homes(federation).items():
        for pid in members(home):
            try:
                process = psutil.Process(pid)
                role = f"{name} {_role(process)}"
                memory[role] = memory.get(role, 0.0) + process.memory_info().rss
                threads[role] = threads.get(role, 0) + process.num_threads()
                opened[role] = opened.get(role, 0) + process.num_fds()
            except psutil.NoSuchProcess:
                continue
    places = homes(federation).items()
    files = {name: sum(1 for path in home.rglob("*") if path.is_file()) for name, home in places}
    logs = {
        name: sum(path.stat().st_size for path in (home / "logs").glob("*") if path.is_file())
        for name, home in places
    }
    sizes = {
        f"{name}/{path.relative_to(home)}": path.stat().st_size
        for name, home in places
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }
    return Look(federation.rounds(run), memory, threads, opened, files, logs, sizes)


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
    seen = []
    for number in range(LOOKS):
        time.sleep(HOURS * PER_HOUR / LOOKS)
        seen.append(look(federation, "long"))
        memory, logs = (sum(each.values()) / 1e6 for each in (seen[-1].memory, seen[-1].logs))
        hours, files = (number + 1) * HOURS / LOOKS, sum(seen[-1].files.values())
        shown = f"{hours:5.2f} h  round {seen[-1].rounds:,}  {memory:,.0f} MB  {files} files"
        print(f"{shown}  {logs:.1f} MB of logs", flush=True)
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
        print(f"{role}: {before / 1e6:.1f} MB, then {after / 1e6:.1f} MB")
        if after - before >= max(LEAST_GROWTH, MOST_GROWTH * before):
            grown_roles.append(role)
        assert last[-1].open_files[role] <= second[0].open_files[role] + 5, role
        assert last[-1].threads[role] <= max(each.threads[role] for each in second) + 5, role
    for name in second[0].files:
        assert last[-1].files[name] <= max(each.files[name] for each in second) + TMP_FILES, name
        assert last[-1].logs[name] <= LOG_BYTES, name
    grown = {
        path: size - second[0].sizes.get(path, 0)
        for path, size in last[-1].sizes.items()
        if size - second[0].sizes.get(path, 0) > SMALL_GROWTH
    }
    print("grown:", grown)
    assert all(path.endswith((*GROWING, *LOGS)) for path in grown), grown
    logs = {path: size for path, size in last[-1].sizes.items() if path.endswith(LOGS)}
    assert max(logs.values()) <= MOST_LOG, logs
    assert not grown_roles, grown_roles
