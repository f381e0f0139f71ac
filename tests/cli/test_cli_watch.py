"""`fedner watch`: its table, its JSON, its export, and what it refuses."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedner.cli.app import app, main
from watched_runs import append, begin_run, missing_in, record_of, study_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = begin_run(tmp_path / "run", study_of())
    records = [record_of(number) for number in range(1, 6)]
    append(folder, *records[:4], missing_in(records[4], "social-posts"))
    return folder


def output(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["watch", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_once_prints_a_table_and_ends(folder: Path) -> None:
    said = output(folder, "--once")
    assert "round 5 of 20" in said
    assert "stopped: after round 5" in said
    assert "social-posts" in said
    assert "no answer" in said


def test_machines_get_the_present_state(folder: Path) -> None:
    stated = json.loads(output(folder, "--json"))
    assert (stated["round"], stated["rounds"], stated["view"]) == (5, 20, "local")
    assert stated["standing"]["phase"] == "stopped"
    assert stated["platforms"][0]["bytes_up"] == 5_000
    assert "problem" not in stated


def test_an_export_tells_how_to_look_at_it(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    said = output(folder, "--tensorboard", tmp_path / "tb")
    assert f"tensorboard --logdir {tmp_path / 'tb'}" in said.replace("\n", "")
    assert "5 rounds of run, stopped" in said
    stated = json.loads(output(folder, "--tensorboard", tmp_path / "tb", "--json"))
    assert (stated["run"], stated["rounds"]) == ("run", 5)
    assert list((tmp_path / "tb" / "run").glob("events.out.tfevents.*"))


def refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str | Path
) -> str:
    monkeypatch.setattr(sys, "argv", ["fedner", "watch", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_folder_without_a_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(monkeypatch, capsys, tmp_path)
    assert f"{tmp_path} holds no run" in said


def test_beyond_this_machine_a_token_is_needed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FEDNER_SERVICE_TOKEN", raising=False)
    said = refusal(monkeypatch, capsys, folder, "--host", "0.0.0.0")  # noqa: S104
    assert "0.0.0.0 is open to other machines, and there is no token" in said


@pytest.mark.parametrize("name", ["starlette", "uvicorn"])
def test_without_the_extra_it_says_what_to_install(
    name: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from importlib import util

    found = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda each: None if each == name else found(each))
    said = refusal(monkeypatch, capsys, folder)
    assert f"the page needs {name}" in said
    assert "fedner[serve]" in said
