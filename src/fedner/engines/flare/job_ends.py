"""How the jobs of a run ended, line by line in the run's folder at the server.

The server's job writes here; the watchdog reads who was at fault. A job that was killed leaves no
line.
"""

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

from fedner.durable import append_whole, owner_folder, write_text
from fedner.federated.failure_codes import is_code

JOB_ENDS = "jobs.jsonl"
_BEGAN = "job_began"
Outcome = Literal["done", "fault", "failed", "refused", "stopped"]
DISK_FULL = "disk-full"
# What another job can cure: a platform that is back, an orphan that has ended, room on a disk.
PASSING = ("platform-gone", "no-reply", "worker-died", "folder-in-use", DISK_FULL)
_MOST_BYTES = 2**22  # of the newest lines


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended.

    Attributes:
        outcome: "done"; "fault", where platforms were missing that may come back; or "failed",
            where another job would end in the same way; "refused", by a platform; or "stopped", by
            the coordinator.
        missing: Who did not answer at last, or refused, and the code of the failure.
        words: Why it ended, for people.
        time: When, in seconds since 1970.
        code: What the server itself lacked: "disk-full"; empty where it lacked nothing.
    """

    outcome: Outcome
    missing: Mapping[str, str] = field(default_factory=dict)
    words: str = ""
    time: float = 0.0
    code: str = ""

    @property
    def full_disks(self) -> tuple[str, ...]:
        """Whose disk was full, the server's among them."""
        named = [name for name, code in sorted(self.missing.items()) if code == DISK_FULL]
        return (*named, *(["the server"] if self.code == DISK_FULL else []))


def job_end(missing: Mapping[str, str], words: str) -> JobEnd:
    """Return how a job ended that could not go on."""
    is_passing = bool(missing) and all(code in PASSING for code in missing.values())
    return JobEnd("fault" if is_passing else "failed", dict(missing), words, time.time())


def full_disk_end(words: str) -> JobEnd:
    """Return how a job ended whose server had no room on its disk."""
    return JobEnd("fault", {}, words, time.time(), DISK_FULL)


def note_begin(folder: Path) -> None:
    """Note that the round loop of a job runs: from now on it notices by itself who is gone."""
    write_text(owner_folder(folder) / _BEGAN, f"{time.time()!r}\n", owner_only=True)


def last_begin(folder: Path) -> float:
    """Return when the round loop of a run's newest job began; 0 where none has."""
    try:
        return float((folder / _BEGAN).read_text("utf-8"))
    except (OSError, ValueError):
        return 0.0


def append_end(folder: Path, end: JobEnd) -> None:
    """Add a line, durably."""
    path = owner_folder(folder) / JOB_ENDS
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        append_whole(handle, (json.dumps(asdict(end)) + "\n").encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def read_ends(folder: Path) -> list[JobEnd]:
    """Return the lines, oldest first; one that was cut off by a crash is left out."""
    path = folder / JOB_ENDS
    if not path.is_file():
        return []
    return parse_ends(path.read_bytes()[-_MOST_BYTES:].splitlines())


def parse_ends(lines: Iterable[bytes | str]) -> list[JobEnd]:
    """Return what lines say; one that says nothing is left out."""
    return [end for end in map(_parsed, lines) if end is not None]


def faults_by_platform(ends: Sequence[JobEnd], since: float) -> dict[str, int]:
    """Return how many jobs ended since then because a platform was missing, by its name.

    A platform whose disk is full is waited for: it has not died.
    """
    counts: dict[str, int] = {}
    for before, end in pairwise((JobEnd("done"), *ends)):
        was_stopped = before.outcome == "stopped"  # the end of a job that was being stopped
        if end.outcome == "fault" and end.time >= since and not was_stopped:
            for name in end.missing.keys() - {*end.full_disks}:
                counts[name] = counts.get(name, 0) + 1
    return counts


def _parsed(line: bytes | str) -> JobEnd | None:
    try:
        table = json.loads(line)
        missing = {str(k): str(v) for k, v in table["missing"].items() if is_code(v)}
        outcome = table["outcome"]
        if outcome not in get_args(Outcome):
            return None
        code = DISK_FULL if table.get("code") == DISK_FULL else ""
        return JobEnd(outcome, missing, str(table["words"]), float(table["time"]), code)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
