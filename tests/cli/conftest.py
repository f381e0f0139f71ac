"""The command line in the tests' own process: a process for each command would load torch anew."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedner.cli import app as cli


@pytest.fixture
def fedner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Run a command as `fedner` does, in an empty folder: its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedner", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            cli.main()
        said = capsys.readouterr()
        return int(done.value.code or 0), said.out, said.err

    return run
