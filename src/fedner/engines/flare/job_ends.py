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

from fedner.durable import owner_folder
from fedner.federated.messages import is_code

JOB_ENDS = "jobs.jsonl"
Outcome = Literal["done", "fault", "failed", "stopped"]
# What another job can cure: a platform that is back, or an orphan that has ended.
PASSING = ("platform-gone", "no-reply", "worker-died", "folder-in-use")
_MOST_BYTES = 2**22  # of the newest lines


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended.

    Attributes:
        outcome: "done"; "fault", where platforms were missing that may come back; or "failed",
            where another job would end in the same way; or "stopped", by the coordinator.
        missing: Who did not answer at last, and the code of the failure.
        words: Why it ended, for people.
        time: When, in seconds since 1970.
    """

    outcome: Outcome
    missing: Mapping[str, str] = field(default_factory=dict)
    words: str = ""
    time: float = 0.0


def job_end(missing: Mapping[str, str], words: str) -> JobEnd:
    """Return how a job ended that could not go on."""
    is_passing = bool(missing) and all(code in PASSING for code in missing.values())
    return JobEnd("fault" if is_passing else "failed", dict(missing), words, time.time())


def append_end(folder: Path, end: JobEnd) -> None:
    """Add a line, durably."""
    path = owner_folder(folder) / JOB_ENDS
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, (json.dumps(asdict(end)) + "\n").encode())
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
    """Return how many jobs ended since then because a platform was missing, by its name."""
    counts: dict[str, int] = {}
    for before, end in pairwise((JobEnd("done"), *ends)):
        was_stopped = before.outcome == "stopped"  # the end of a job that was being stopped
        if end.outcome == "fault" and end.time >= since and not was_stopped:
            for name in end.missing:
                counts[name] = counts.get(name, 0) + 1
    return counts


def _parsed(line: bytes | str) -> JobEnd | None:
    try:
        table = json.loads(line)
        missing = {str(k): str(v) for k, v in table["missing"].items() if is_code(v)}
        outcome = table["outcome"]
        if outcome not in get_args(Outcome):
            return None
        return JobEnd(outcome, missing, str(table["words"]), float(table["time"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
