"""`fedner federation train`, `status`, `stop`, `resume`, `fetch` on a live federation; `trial`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live import assert_same_states, until
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.engines.flare.processes import members
from fedner.engines.in_process import InProcess
from fedner.models.checkpoint import load_tagger
from fedner.runs.coordinator import coordinate
from fedner.runs.deployment.federation import read_federation_study
from fedner.runs.deployment.trial_run import Trial, running_trial, trial_settings
from fedner.runs.platform_file import read_platform
from fedner.runs.site import open_site
from fedner.runs.site_answer import SiteAnswer
from fedner.settings import Settings

pytestmark = pytest.mark.deployment
ROUNDS = 120
NUMBER = 2


def short(rounds: int) -> Settings:
    settings = trial_settings(NUMBER, num_sentences=60)
    changes = {"rounds": rounds, "batch_size": 8, "evaluate_every": 100, "checkpoint_every": 5}
    training = settings.training.model_copy(update=changes | {"baselines": ()})
    return settings.model_copy(update={"training": training})


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("trial")
    with running_trial(folder, short(ROUNDS), print) as running:
        yield running
    for home in (running.homes.server, *running.homes.platforms.values()):
        assert members(home.path) == []


def fedner(*words: object, code: int = 0) -> str:
    """Run a command in this process; return what it printed."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)
    said = f"{result.output}{result.exception}"
    if code == 2:
        assert result.exception is not None, said
        return said
    assert result.exit_code == code, said
    return result.output


def federation(trial: Trial, command: str, *words: object, code: int = 0) -> str:
    return fedner("federation", command, "--home", trial.homes.federation.path, *words, code=code)


def status(trial: Trial) -> dict[str, Any]:
    found = json.loads(federation(trial, "status", "--json"))
    assert isinstance(found, dict)
    return found


def rounds(trial: Trial, run: str) -> int:
    path = trial.homes.server.runs / run / "rounds.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow  # two minutes: CI has 20 in all
def test_a_run_is_refused_stopped_resumed_and_fetched(trial: Trial, tmp_path: Path) -> None:
    assert status(trial)["run"] is None
    connected = {each["name"] for each in status(trial)["members"] if each["connected"]}
    assert connected == set(trial.homes.platforms)
    _refused_and_stopped(trial)
    run = json.loads(federation(trial, "train", "--detach", "--json", "--run", "second"))["run"]
    assert run == "second"
    until(lambda: rounds(trial, run) >= 7, 90, "seven rounds")
    assert "is running" in federation(trial, "train", code=2)
    said = federation(trial, "stop")
    assert f"run {run} was stopped" in said
    stopped_at = rounds(trial, run)
    assert stopped_at < ROUNDS
    shown = status(trial)["run"]
    assert (shown["phase"], shown["round"], shown["rounds"]) == ("stopped", stopped_at, ROUNDS)
    assert shown["loss"] > 0
    done = json.loads(federation(trial, "resume", "--json"))
    assert (done["phase"], done["round"], done["num_jobs"]) == ("done", ROUNDS, 2)
    assert {each["state"] for each in done["platforms"].values()} == {"reported"}
    assert "is done" in federation(trial, "resume", code=2)
    _same_as_undisturbed(trial, run, tmp_path / "reference")
    _results_at_home(trial, run)
    _fetched(trial, run)


def _refused_and_stopped(trial: Trial) -> None:
    """A policy that allows fewer rounds: the reason arrives, and nobody is asked again."""
    name, home = sorted(trial.homes.platforms.items())[0]
    settings = home.path / "platform.toml"
    before = settings.read_text()
    settings.write_text(before.replace("max_rounds = 1000", "max_rounds = 1"))
    assert settings.read_text() != before
    said = federation(trial, "train", "--run", "first", code=2)
    assert f"{name}: its policy allows fewer rounds" in said
    settings.write_text(before)
    shown = status(trial)["run"]
    assert (shown["run"], shown["phase"], shown["round"]) == ("first", "refused", 0)
    jobs = len(list(trial.homes.server.jobs.glob("*/meta")))
    time.sleep(5)
    assert len(list(trial.homes.server.jobs.glob("*/meta"))) == jobs, "nobody is asked again"
    assert status(trial)["run"]["phase"] == "refused"


def _same_as_undisturbed(trial: Trial, run: str, folder: Path) -> None:
    study = read_federation_study(trial.homes.federation)

    def answer(name: str) -> SiteAnswer:
        own = read_platform(trial.homes.platforms[name].path / "platform.toml")
        return SiteAnswer(open_site(study, own, folder / "platforms" / name))

    with contextlib.closing(InProcess(answer, study.names)) as engine:
        coordinate(study, engine, folder, run_name=run)
    assert_same_states(trial.homes.server.runs / run / "server", folder / "server")


def _results_at_home(trial: Trial, run: str) -> None:
    for home in trial.homes.platforms.values():
        for name in ("scores.json", "MODEL_CARD.md", "report.html"):
            assert (home.runs / run / name).is_file()


def _fetched(trial: Trial, run: str) -> None:
    records = json.loads(federation(trial, "fetch", "--json"))
    assert (records["run"], records["model"]) == (run, None)
    assert {"rounds.jsonl", "score_reports.json", "coordinator.html"} <= set(records["files"])
    assert "does not release" in federation(trial, "fetch")
    participant = next(iter(trial.homes.platforms.values()))
    for home in (trial.newcomer, participant):
        found = json.loads(fedner("federation", "fetch", "--home", home.path, "--json"))
        assert all(each.startswith("model/") for each in found["files"])
        assert load_tagger(Path(found["model"])).facts["method"] == "shared"
        assert not list(home.path.glob(".session-*"))
    federation(trial, "remove", "newcomer")
    said = fedner("federation", "fetch", "--home", trial.newcomer.path, code=2)
    assert "refuses the certificate of newcomer" in said


@pytest.mark.slow
def test_the_trial_ends_all_its_processes_when_it_is_told_to_stop(tmp_path: Path) -> None:
    homes = [tmp_path / "out" / name for name in ("server", "platforms/case-reports")]
    command = [sys.executable, "-m", "fedner", "federation", "trial", "-n", "2", "--out"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            [*command, str(tmp_path / "out")], stdout=said, stderr=said, start_new_session=True
        )
    try:
        until(lambda: all(members(home) for home in homes), 90, "both run")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        left = [pid for home in homes for pid in members(home)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert left == []
    assert "all processes are stopped" in (tmp_path / "said").read_text()


@pytest.mark.slow
def test_the_trial_from_beginning_to_end(tmp_path: Path) -> None:
    found = json.loads(
        fedner("federation", "trial", "-n", 2, "--rounds", 4, "--json", "--out", tmp_path / "out")
    )
    assert (found["rounds"], found["jobs"]) == (4, 1)
    assert set(found["platforms"]) == {"case-reports", "forum-posts"}
    for each in found["platforms"].values():
        assert set(each["strict_f1"]) == {"local-only", "federated"}
        assert {"MODEL_CARD.md", "report.html", "disclosure-record.jsonl"} == set(each["files"])
    assert {"model/model.json", "model/model.safetensors"} <= set(found["newcomer"])
    for home in ("server", "platforms/case-reports", "platforms/forum-posts"):
        assert members(tmp_path / "out" / home) == []
