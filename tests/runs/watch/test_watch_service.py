"""The page's server: the newest state, told once; a token where one is set; damage is shown."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette")
from fedner.inference.service.settings import Token, WebSettings
from fedner.inference.service.web import local_server
from fedner.runs.watch import watcher as watching
from fedner.runs.watch.folders import local_source
from fedner.runs.watch.service import watch_application
from fedner.runs.watch.snapshot import Snapshot, Standing
from fedner.runs.watch.watcher import Watcher, state_json
from watched_runs import append, begin_run, record_of, study_of

SECRET = "0123456789abcdef0123"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = begin_run(tmp_path / "run", study_of())
    append(folder, record_of(1))
    return folder


@pytest.fixture
def page(folder: Path) -> Iterator[httpx.Client]:
    settings = WebSettings(port=0, stop_seconds=1)
    with (
        Watcher(local_source(folder)) as watcher,
        local_server(watch_application(watcher, settings), settings) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        yield client


def until(page: httpx.Client, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the first state that fits; what is never told ends the test."""
    for _ in range(1_000):
        state: dict[str, Any] = page.get("/state").json()["state"]
        if holds(state):
            return state
        time.sleep(0.02)
    raise AssertionError(f"never told: {state}")


def test_a_state_is_sent_once_and_again_when_it_has_changed(
    page: httpx.Client, folder: Path
) -> None:
    first = page.get("/state").json()
    assert first["state"]["round"] == 1
    assert page.get("/state", params={"since": first["tag"]}).json() == {"tag": None}
    append(folder, record_of(2))
    state = until(page, lambda state: state["round"] == 2)
    assert state["loss"][0]["points"][1][:2] == [2, 2]
    assert page.get("/state", params={"since": first["tag"]}).json()["state"] == state


def test_a_record_that_is_damaged_is_shown_beside_what_was_read(
    page: httpx.Client, folder: Path
) -> None:
    append(folder, record_of(5))
    state = until(page, lambda state: state["problem"] is not None)
    assert "line 2 has round 5" in state["problem"]["message"]
    assert state["round"] == 1


def test_a_run_whose_folder_is_gone_is_not_said_to_be_resumable(
    page: httpx.Client, folder: Path
) -> None:
    elsewhere = folder.rename(folder.with_name("elsewhere"))
    state = until(page, lambda state: state["problem"] is not None)
    assert "is gone" in state["problem"]["message"]
    assert state["standing"]["phase"] == "failed"
    assert "--resume" not in state["standing"]["words"]
    assert state["round"] == 1, "what was read stays"
    elsewhere.rename(folder)
    until(page, lambda state: state["problem"] is None)


def test_a_path_that_is_not_there_is_answered_without_pages_of_another_service(
    page: httpx.Client,
) -> None:
    assert page.get("/docs").status_code == 404
    assert "/docs" not in page.get("/nothing").json()["hint"]


def test_the_page_loads_nothing_from_elsewhere(page: httpx.Client) -> None:
    html = page.get("/")
    assert html.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in html.headers["content-security-policy"]
    for name in ("watch.js", "chart.js", "watch.css", "look.css", "session.js", "watch.svg"):
        text = page.get(f"/static/{name}").raise_for_status().text
        assert "http" not in text.replace("http://www.w3.org/", "")
    assert "http" not in html.text


def test_with_a_token_the_page_is_open_and_the_run_is_not(folder: Path) -> None:
    settings = WebSettings(port=0, token=Token(SECRET), stop_seconds=1)
    with (
        Watcher(local_source(folder)) as watcher,
        local_server(watch_application(watcher, settings), settings) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        assert client.get("/").status_code == 200
        assert client.get("/static/watch.js").status_code == 200
        assert client.get("/state").status_code == 401
        headers = {"Authorization": f"Bearer {SECRET}"}
        assert client.get("/state", headers=headers).json()["state"]["round"] == 1


def test_a_state_has_the_numbers_that_a_picture_needs() -> None:
    from fedner.runs.watch.snapshot import Curve
    from fedner.runs.watch.thinned import Point

    points = (Point(1, 1, 2.0, 2.0, 2.0), Point(2, 3, 1.23456789, 1.0, 1.5))
    shown = Snapshot("t", "r", "local", Standing("running"), loss=(Curve("a", points),))
    stated = json.loads(json.dumps(state_json(shown)))
    assert stated["loss"][0]["points"] == [[1, 1, 2], [2, 3, 1.23457, 1, 1.5]]
    assert stated["standing"]["is_over"] is False
