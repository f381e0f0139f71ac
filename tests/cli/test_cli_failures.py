"""How commands fail: a message and a hint, JSON where JSON was asked for, and never a trace."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from fedner.cli import app as cli
from fedner.cli.failures import INTERNAL, INTERRUPTED, USER_ERROR, failure_of

NOTHING = "/nowhere/at/all"
COMMANDS = {
    "data inspect": [NOTHING],
    "data convert": [NOTHING, "out.jsonl", "--to", "jsonl"],
    "data split": [NOTHING, "out"],
    "data platforms": [NOTHING],
    "data overlap": [NOTHING, NOTHING],
    "data formats": [NOTHING],
    "embeddings inspect": [NOTHING, "--corpus", NOTHING],
    "privacy plan": ["--examples", "10", "--batch-size", "5", "--epochs", "1", "--delta", "0.01"],
    "privacy open": [
        "ledger", "--epsilon", "1", "--delta", "0.5", "--unit", "patient", "--public-size", "100",
    ],
    "privacy budget": [NOTHING, "--epsilon", "2"],
    "privacy spent": [NOTHING],
    "privacy audit": [NOTHING],
    "demo": ["--epochs", "0"],
    "init": [f"{__file__}/federation.toml"],
    "check": [NOTHING],
    "reproduce": ["fedner-table1", "--data", NOTHING],
    "train": [NOTHING],
    "study write": [NOTHING, "--out", "out"],
    "study check": [NOTHING],
    "evaluate": [NOTHING],
    "compare": [NOTHING, NOTHING],
    "report": [NOTHING],
    "errors": [NOTHING, "--platform", "x"],
    "predict": [NOTHING, "-"],
    "suggest": [NOTHING, "-", "--out", "out.json"],
    "redact": [NOTHING, __file__, "--out", "out"],
    "serve": [NOTHING],
    "watch": [NOTHING],
    "redaction key": [__file__],
    "redaction calibrate": [NOTHING, NOTHING, "--recall", "0.9"],
    "export": [NOTHING, "--to", "out"],
    "join": [NOTHING, "--data", "synthetic:forum-posts", "--out", "out"],
    "score": [NOTHING, NOTHING],
    "models": [],
    "federation create": [NOTHING, "--host", "localhost"],
    "federation approve": [NOTHING],
    "federation members": [],
    "federation renew": [],
    "federation update": [NOTHING],
    "federation train": [],
    "federation status": [],
    "federation stop": [],
    "federation resume": [],
    "federation fetch": [],
    "federation trial": ["-n", "0"],
    "federation roster": ["--out", "out"],
    "federation remove": ["north"],
    "federation restore": ["north"],
    "platform pin": ["north", "ab", "--home", NOTHING],
    "platform unpin": ["north", "--home", NOTHING],
    "platform start": ["--settings", NOTHING],
    "server start": [],
    "platform record": ["--home", NOTHING],
    "platform request": ["no name"],
    "platform install": [NOTHING],
    "platform show": ["--home", NOTHING],
    "platform check": ["--settings", NOTHING],
    "server request": ["no host"],
    "server install": [NOTHING],
    "server show": [],
}  # fmt: skip


def every_command() -> dict[str, typer.core.TyperCommand]:
    found = {}
    for name, command in typer.main.get_command(cli.app).commands.items():
        inner = getattr(command, "commands", None)
        if inner is None:
            found[name] = command
        else:
            found |= {f"{name} {each}": one for each, one in inner.items()}
    return found


def test_every_command_is_tried() -> None:
    assert COMMANDS.keys() == every_command().keys()


@pytest.mark.parametrize(
    "name",
    ["", "data", "embeddings", "privacy", "federation", "platform", "server", *COMMANDS],
)
def test_help_fits_80_columns_and_breaks_no_choice(
    name: str, fedner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    code, out, _ = fedner(*name.split(), "--help")
    assert code == 0
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    for line in out.splitlines():
        choices = line.replace("<=", "").replace(">=", "")  # ranges of numbers are no choices
        assert choices.count("<") == choices.count(">"), f"choices are cut: {line}"
    usage = out.partition("Usage: ")[2].splitlines()[0]
    assert not any(word.strip("{}[].").islower() for word in usage.split() if word[0] in "{[")


def error_in(output: str) -> dict:
    record = json.loads(output)
    assert record.keys() == {"error"}
    assert list(record["error"]) == ["kind", "message", "hint", "problems"]
    assert record["error"]["message"]
    return record["error"]


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_usage_is_json_where_asked_for(name: str, fedner) -> None:
    assert any("--json" in each.opts for each in every_command()[name].params)
    code, out, err = fedner(*name.split(), "--no-such-option", "--json")
    assert (code, err) == (USER_ERROR, "")
    assert error_in(out)["kind"] == "usage"
    code, out, err = fedner(*name.split(), "--no-such-option")
    assert (code, out) == (USER_ERROR, "")
    assert "--no-such-option" in err


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"models"}))
def test_errors_are_json_where_asked_for(name: str, fedner, tmp_path: Path) -> None:
    code, out, err = fedner(*name.split(), *COMMANDS[name], "--json")
    assert (code, err) == (USER_ERROR, "")
    error = error_in(out)
    assert error["kind"] in ("input", "system")
    assert error["hint"]
    code, out, err = fedner(*name.split(), *COMMANDS[name])
    assert code == USER_ERROR
    assert err.startswith("error: ")
    assert "\nhint: " in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_problems_are_listed_one_by_one(fedner, tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text("x = 1\n")
    error = error_in(fedner("train", "f.toml", "--json")[1])
    assert {"key", "found", "expected", "hint"} == error["problems"][0].keys()
    (tmp_path / "c.jsonl").write_text('{"id": "1", "text": "a"}\n{"id"\n')
    error = error_in(
        fedner("data", "convert", "c.jsonl", "o.conll", "--to", "columns", "--json")[1]
    )
    (problem,) = error["problems"]
    assert (problem["file"], problem["line"], problem["kind"]) == ("c.jsonl", 2, "malformed line")
    assert problem["hint"]


def test_a_word_after_the_dashes_is_no_option(fedner) -> None:
    code, out, err = fedner("data", "inspect", "--", "--json")
    assert (code, out) == (USER_ERROR, "")
    assert "--json: no such file" in err


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a/b"), "system", USER_ERROR),
        (PermissionError(errno.EACCES, "Permission denied", "a/b"), "system", USER_ERROR),
        (KeyError("x"), "internal", INTERNAL),
        (RuntimeError("broken"), "internal", INTERNAL),
        (KeyboardInterrupt(), "stopped", INTERRUPTED),
    ],
)
def test_whatever_else_happens(
    error: BaseException, kind: str, code: int, fedner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_options: object) -> None:
        raise error

    assert failure_of(error).kind == kind
    monkeypatch.setattr(cli, "app", broken)
    found, out, err = fedner("models", "--json")
    assert (found, err) == (code, "")
    assert error_in(out)["kind"] == kind
    found, out, err = fedner("models")
    assert (found, out) == (code, "")
    assert "error: " in err
    monkeypatch.setattr(sys, "argv", ["fedner", "models", "--debug"])
    with pytest.raises(type(error)):
        cli.main()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_behind_standard_output(options: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "fedner", "data", "platforms", *options]
        result = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == USER_ERROR
    assert "No space left" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr


STOPPED_WHILE_LOADING = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "fedner.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from fedner.cli import main
main()
"""


def test_ctrl_c_while_the_program_loads_shows_no_trace() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_WHILE_LOADING], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: stopped\n")
