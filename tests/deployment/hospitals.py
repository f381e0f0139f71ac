"""Hospitals on this machine: a folder for each machine, letters between them, commands alone.

Nothing is imported of what the commands do: every step is a process of `fedner`, as on the page
docs/hospitals.md.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedner.engines.flare.processes import end_members

_STEP_SECONDS = 120.0
_STOP_SECONDS = 30.0


@dataclass
class Machine:
    """One party's machine: its commands run in its own folder."""

    folder: Path
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def fedner(self, *words: object, code: int = 0, seconds: float = _STEP_SECONDS) -> str:
        """Run a command to its end; return what it printed."""
        done = subprocess.run(
            self._command(words), cwd=self.folder, env=self._environment(), timeout=seconds,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        shown = f"{self.folder.name}: fedner {' '.join(map(str, words))}"
        assert done.returncode == code, f"{shown}\n{done.stdout}\n{done.stderr}"
        return done.stdout + (done.stderr if code else "")

    def told(self, *words: object, seconds: float = _STEP_SECONDS) -> dict[str, Any]:
        """Run a command with --json; return what it printed."""
        found = json.loads(self.fedner(*words, "--json", seconds=seconds))
        assert isinstance(found, dict)
        return found

    def start(self, *words: object) -> "subprocess.Popen[bytes]":
        """Start a command that stays in the foreground, as systemd does."""
        process = subprocess.Popen(
            self._command(words), cwd=self.folder, env=self._environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def send(self, name: str, to: "Machine") -> None:
        """Send a letter: a file in this machine's folder."""
        shutil.copy(self.folder / name, to.folder / name)

    def stop(self) -> None:
        """Send SIGTERM; end what does not stop cleanly."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for home in filter(Path.is_dir, self.folder.iterdir()):
            end_members(home, 0.0)

    def _command(self, words: tuple[object, ...]) -> list[str]:
        return [sys.executable, "-m", "fedner", *map(str, words)]

    def _environment(self) -> dict[str, str]:
        # Bits depend on the number of threads; across machines every process has one.
        return dict(os.environ) | {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}


@contextmanager
def machines(folder: Path, *names: str) -> Iterator[dict[str, Machine]]:
    """Give machines by name; end all their processes."""
    found = {}
    for name in names:
        found[name] = Machine(folder / name)
        found[name].folder.mkdir(parents=True)
    try:
        yield found
    finally:
        for each in reversed(found.values()):
            each.stop()


def found_within(seconds: float, look: Any, what: str) -> Any:
    """Look again and again until something is found."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.5)
    return found
