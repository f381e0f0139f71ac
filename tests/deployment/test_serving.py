"""What the server tells of its runs, and to whom."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedner.engines.flare.job_ends import JobEnd, append_end, read_ends
from fedner.engines.flare.session import JobState
from fedner.engines.flare.watchdog import Limits, Standing, decide
from fedner.errors import FednerError
from fedner.runs.deployment.fetching import fetch_files
from fedner.runs.deployment.serving import CHUNK_BYTES, Caller, Desk

COORDINATOR = Caller("coordinator@fedner.local", "coordinator")
NORTH, OTHER, NEW = Caller("north", ""), Caller("other", ""), Caller("new", "")
RUN = "side-effects-1"


def make_run(desk: Desk, name: str = RUN, **release: object) -> Path:
    """A finished run that shares a whole model."""
    folder = desk.runs / name
    (folder / "model" / "encoder").mkdir(parents=True)
    (folder / "server").mkdir()
    study = {"platforms": [{"name": "north"}, {"name": "south"}], "release": release}
    (folder / "study.json").write_text(json.dumps(study))
    (folder / "rounds.jsonl").write_text("".join(f'{{"round": {at}}}\n' for at in (1, 2, 3)))
    (folder / "score_reports.json").write_text("{}")
    (folder / "server" / "state").write_text("shared weights")
    (folder / "model" / "model.json").write_text('{"facts": {"study": "abc"}}')
    (folder / "model" / "encoder" / "weights.bin").write_bytes(os.urandom(CHUNK_BYTES + 7))
    return folder


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path.resolve() / "runs", tmp_path / "disabled_clients.json")


def files(desk: Desk, caller: Caller, run: str = RUN) -> set[str]:
    return set(desk.answer(caller, ["files", run])["files"])


MODEL = {"model/model.json", "model/encoder/weights.bin"}
RECORDS = {"study.json", "rounds.jsonl", "score_reports.json"}


@pytest.mark.parametrize(
    ("release", "may"),
    [
        ({}, {"north"}),
        ({"to": "participants", "newcomers": ["new"]}, {"north", "new"}),
        ({"to": "public"}, {"north", "new", "other", "coordinator@fedner.local"}),
    ],
)
def test_the_model_goes_to_those_whom_the_study_names(
    desk: Desk, release: dict[str, object], may: set[str]
) -> None:
    make_run(desk, **release)
    for caller in (NORTH, OTHER, NEW, COORDINATOR):
        expected = MODEL if caller.name in may else set()
        records = RECORDS if caller.is_coordinator else set()
        assert files(desk, caller) == expected | records
        for place in sorted(MODEL):
            said = desk.answer(caller, ["read", RUN, place, "0"])
            assert ("data" in said) == (place in expected), (caller, place)


def test_nothing_but_named_files_is_read(desk: Desk) -> None:
    folder = make_run(desk, to="public")
    (folder / "model" / "link").symlink_to(folder / "server" / "state")
    (folder / "model" / "away").symlink_to(folder / "server")
    assert files(desk, COORDINATOR) == MODEL | RECORDS
    for place in ("server/state", "model/../server/state", "model/link", "model/away/state", "/"):
        assert "error" in desk.answer(COORDINATOR, ["read", RUN, place, "0"])
    for run in ("..", "../runs/" + RUN, RUN + "/server", "", "other"):
        assert "error" in desk.answer(COORDINATOR, ["files", run])


def test_an_unfinished_run_has_no_model_for_anybody(desk: Desk) -> None:
    folder = make_run(desk, to="public")
    (folder / "score_reports.json").unlink()
    assert files(desk, NORTH) == set()
    assert desk.answer(NORTH, ["files", "-"]) == {"error": "no run is finished yet"}


def test_removed_platforms_and_other_admins_get_nothing(desk: Desk) -> None:
    make_run(desk, to="public")
    desk.removed.write_text(json.dumps({"disabled_clients": ["north"]}))
    assert desk.answer(NORTH, ["files", RUN]) == {"error": "this platform was removed"}
    assert files(desk, OTHER) == MODEL
    watchdog = Caller("watchdog@fedner.local", "watchdog")
    assert desk.answer(watchdog, ["files", RUN]) == {"error": "not for this identity"}
    desk.removed.write_text("harmed")
    assert desk.answer(OTHER, ["files", RUN]) == {"error": "the server cannot answer that"}


def test_progress_and_stop_are_the_coordinators(desk: Desk) -> None:
    folder = make_run(desk)
    with (folder / "rounds.jsonl").open("a") as handle:
        handle.write('{"round": 4')  # still being written
    for words in (["progress", RUN, "0"], ["stop", RUN]):
        assert desk.answer(NORTH, words) == {"error": "only the coordinator may ask that"}
    told = desk.answer(COORDINATOR, ["progress", RUN, "1"])
    assert [json.loads(line)["round"] for line in told["rounds"]] == [2, 3]
    assert (told["newest"], told["reported"]) == (3, True)
    newest = desk.answer(COORDINATOR, ["progress", RUN, "-1"])
    assert [json.loads(line)["round"] for line in newest["rounds"]] == [3]
    assert read_ends(folder) == []


def test_the_watchdog_leaves_a_stopped_run_alone(desk: Desk) -> None:
    folder = make_run(desk)
    append_end(folder, JobEnd("fault", {"north": "platform-gone"}, "gone", 10.0))
    job = JobState("1", RUN, "FINISHED:EXECUTION_EXCEPTION", 1.0)
    standing = Standing([job], read_ends(folder), ["north"], None, ["north"], 20.0, 1.0, 2**40)
    assert decide(standing, Limits()).step == "submit"
    assert desk.answer(COORDINATOR, ["stop", RUN]) == {"stopped": RUN}
    standing = Standing([job], read_ends(folder), ["north"], None, ["north"], 20.0, 1.0, 2**40)
    assert decide(standing, Limits()).step == "over"


@pytest.mark.parametrize(
    "words", [[], ["bogus"], ["files"], ["progress", RUN, "x"], ["read", RUN, "a", "b", "c", "d"]]
)
def test_a_question_that_makes_no_sense_is_refused_in_fixed_words(
    desk: Desk, words: list[str]
) -> None:
    make_run(desk)
    assert set(desk.answer(COORDINATOR, words)) == {"error"}


class Asked:
    """A session with a desk, without a network."""

    def __init__(self, desk: Desk, caller: Caller, at: str = "files", **forged: object) -> None:
        self._desk, self._caller, self._at, self._forged = desk, caller, at, forged

    def ask(self, *words: str) -> dict[str, Any]:
        found = self._desk.answer(self._caller, words)
        if "error" in found:
            raise FednerError(found["error"])
        return found | (self._forged if words[0] == self._at else {})


def test_what_is_fetched_is_what_the_server_holds(desk: Desk, tmp_path: Path) -> None:
    folder = make_run(desk, newcomers=["new"])
    fetched = fetch_files(Asked(desk, NEW), tmp_path / "models")  # type: ignore[arg-type]
    assert (fetched.run, set(fetched.files), fetched.study) == (RUN, MODEL, "abc")
    assert fetched.model == tmp_path / "models" / RUN / "model"
    for place in MODEL:
        assert (fetched.folder / place).read_bytes() == (folder / place).read_bytes()
        assert (fetched.folder / place).stat().st_mode & 0o777 == 0o600
    records = fetch_files(Asked(desk, COORDINATOR), tmp_path / "own")  # type: ignore[arg-type]
    assert set(records.files) == RECORDS
    assert records.model is None
    assert "does not release" in records.no_model


def test_a_server_cannot_write_elsewhere_or_something_else(desk: Desk, tmp_path: Path) -> None:
    make_run(desk, newcomers=["new"])
    out = tmp_path / "out"
    for place in ("../x", "/etc/x", "model/../../x", "server/state", "model/a/b/c/d"):
        forged = Asked(desk, NEW, files={place: {"bytes": 0, "sha256": ""}})
        with pytest.raises(FednerError, match="may not offer"):
            fetch_files(forged, out)  # type: ignore[arg-type]
    other = base64.b64encode(b"other").decode()
    with pytest.raises(FednerError, match="did not arrive"):
        fetch_files(Asked(desk, NEW, at="read", data=other), out)  # type: ignore[arg-type]
    card = desk.answer(NEW, ["files", RUN])["files"]["model/model.json"]
    listed = {"model/model.json": card | {"sha256": "0" * 64}}
    with pytest.raises(FednerError, match="did not arrive"):
        fetch_files(Asked(desk, NEW, files=listed), out)  # type: ignore[arg-type]
    with pytest.raises(FednerError, match="run name"):
        fetch_files(Asked(desk, NEW, run="../x"), out)  # type: ignore[arg-type]
    assert not out.exists()


def test_flares_server_needs_no_torch() -> None:
    code = "import sys, fedner.runs.deployment.server_process; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
