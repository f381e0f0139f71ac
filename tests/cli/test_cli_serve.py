"""`fedner serve`: which taggers it offers, what it refuses before it starts, how it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import fedner
from fedner.cli.app import app
from fedner.errors import FednerError

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from fedner.cli.serve import _name_and_path
from fedner.runs.served_taggers import offers_of

SMALL = {"hidden": 8, "filters": 8, "character_filters": 8}


def make_tagger(folder: Path) -> Path:
    """Make what looks like a saved tagger from outside."""
    folder.mkdir(parents=True)
    (folder / "model.json").write_text("{}")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    for platform, method in (
        ("north", "federated"), ("north", "local-only"),
        ("south", "centralized"), ("south", "federated"),
    ):  # fmt: skip
        make_tagger(path / "platforms" / platform / "taggers" / method)
    (path / "settings.json").write_text("{}")
    make_tagger(path / "model")
    return path


def test_a_run_offers_the_taggers_of_its_platforms_and_the_shared_model(run: Path) -> None:
    names = [each.name for each in offers_of(run)]
    assert names == [
        "north/federated", "north/local-only", "south/federated", "south/centralized", "shared",
    ]  # fmt: skip
    north = offers_of(run, "study", ["north"])
    assert [(each.name, each.platform, each.method) for each in north] == [
        ("study/north/federated", "north", "federated"),
        ("study/north/local-only", "north", "local-only"),
    ]
    with pytest.raises(FednerError, match="no platform 'nroth'"):
        offers_of(run, None, ["nroth"])


def test_a_tagger_by_itself_is_called_by_its_folder_or_as_named(tmp_path: Path) -> None:
    folder = make_tagger(tmp_path / "mine")
    assert [each.name for each in offers_of(folder)] == ["mine"]
    assert [each.name for each in offers_of(folder, "a")] == ["a"]
    with pytest.raises(FednerError, match="no such folder"):
        offers_of(tmp_path / "nowhere")


def test_name_and_path_are_taken_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _name_and_path("a=b/c") == ("a", Path("b/c"))
    assert _name_and_path("b/c") == (None, Path("b/c"))
    Path("odd=name").mkdir()
    assert _name_and_path("odd=name") == (None, Path("odd=name"))
    for wrong in ("=b", "a="):
        with pytest.raises(FednerError, match="no name or no path"):
            _name_and_path(wrong)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "no such folder"),
        (["nowhere", "--host", "192.0.2.7"], "there is no token"),
        (["nowhere", "--host-name", "tagger.example"], "there is no token"),
        (["nowhere", "--token-file", "missing"], "the token cannot be read"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_is_loaded(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDNER_SERVICE_TOKEN", raising=False)
    result = CliRunner().invoke(app, ["serve", *arguments])
    assert isinstance(result.exception, FednerError)
    assert said in result.exception.message


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(app, ["serve", "nowhere"])
    assert isinstance(result.exception, FednerError)
    assert "fedner[serve]" in result.exception.hint


def test_it_serves_until_sigterm_and_logs_no_text(tmp_path: Path) -> None:
    corpus = fedner.synthetic_corpus("social-posts", 20, seed=1)
    fedner.Tagger.train(corpus, epochs=1, model=SMALL).save(tmp_path / "tagger")
    token = "0123456789abcdef-secret"
    command = ["serve", f"t={tmp_path / 'tagger'}", "--port", "0", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "fedner", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "FEDNER_SERVICE_TOKEN": token},
    ) as server:  # fmt: skip
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        assert told["models"] == ["t"]
        body = {"text": "words of a patient"}
        with httpx.Client(verify=False) as web:  # noqa: S501 - no TLS here
            assert web.post(f"{told['address']}predict", json=body).status_code == 401
            web.headers["Authorization"] = f"Bearer {token}"
            assert web.post(f"{told['address']}predict", json=body).json()["model"] == "t"
            assert web.get(f"{told['address']}patient").status_code == 404
        server.send_signal(signal.SIGTERM)
        _, log = server.communicate(timeout=60)
        assert server.returncode == 0
    assert "POST /predict 401" in log
    assert "POST /predict 200" in log
    assert "GET (other path) 404" in log
    assert log.endswith("stopped\n")
    assert "patient" not in log
    assert token not in log
