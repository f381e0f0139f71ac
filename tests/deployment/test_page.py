"""docs/hospitals.md: every command is run in its order, with nothing but names and data changed."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.runs.deployment.homes import PlatformHome
from fedner.runs.deployment.identity import fingerprint, read_key
from fedner.runs.deployment.taking_part import request_platform

PAGE = Path(__file__).parents[2] / "docs" / "hospitals.md"
BLOCKS = re.findall(r"```(sh|toml)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
COMMANDS = [line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
PROBLEMS = 2
RUNS = {f"federation {name}" for name in ("train", "status", "stop", "resume", "fetch")}
LIVE = RUNS | {"server start", "platform start"}


def written(name: str) -> str:
    """Return a settings file of the page."""
    (found,) = [block for kind, block in BLOCKS if kind == "toml" and f"# {name}\n" in block]
    return str(found)


def run(line: str, code: int = 0) -> str:
    words = shlex.split(line)
    assert words[0] == "fedner"
    result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    assert result.exit_code == code, f"{line}\n{result.output}"
    return result.output


def test_every_command_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_keys: None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(written("study.toml"))
    Path("platform.toml").write_text(
        written("platform.toml").replace("notes/", "synthetic:case-reports")
    )
    south = PlatformHome(Path("south"))
    request_platform(south, "south")
    told = fingerprint(read_key(south.key))
    seen = []
    for line in COMMANDS:
        seen.append(" ".join(line.split()[1:3]))
        if seen[-1] in LIVE:
            continue  # test_start.py and test_commands.py run them
        typed = line.replace("fl.example.org", "localhost").replace("3f0c…9a1e", told)
        typed = typed.replace("--port 8002", "--port 1")
        said = run(typed, PROBLEMS if seen[-1] == "platform check" else 0)
        if seen[-1] == "platform check":
            problems = [each for each in said.splitlines() if each.startswith("problem")]
            assert [each.split()[1] for each in problems] == ["connection"]  # nothing listens
    assert LIVE | {"federation roster"} <= set(seen)


def test_the_page_names_every_command() -> None:
    text = PAGE.read_text(encoding="utf-8")
    groups = get_command(app).commands  # type: ignore[attr-defined]
    for group in ("federation", "platform", "server"):
        for name in groups[group].commands:
            if name != "unpin":
                assert f"fedner {group} {name}" in text or f"`{name}`" in text, f"{group} {name}"
