"""Memory of a fresh process: what it held at most since it began, and nothing of its parent's."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

_STATUS = Path("/proc/self/status")


def peak_megabytes() -> float:
    """Return the most that this process held at once.

    `ru_maxrss` is inherited from the process that started this one; where the system tells the
    high-water mark of this process alone (Linux), that is taken.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def in_fresh_process(module: str, *arguments: str) -> Any:
    """Run `python -m module ...` and return the JSON of its last line."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])
