"""`fedner federation`, `fedner platform` and `fedner server`, as people type them."""

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.errors import FednerError
from fedner.runs.deployment import identity, removal, starting
from fedner.settings import Study, study_toml

NAMES = ("north", "south")


def study_with(*names: str, newcomers: tuple[str, ...] = ()) -> str:
    study = Study(
        title="Side effects",
        release={"newcomers": newcomers},
        training={"rounds": 2},
        platforms=[{"name": name, "public_size": 40, "labels": ["ADE"]} for name in names],
    )
    return study_toml(study)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(identity, "KEY_BITS", 2048)
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(study_with(*NAMES))
    return tmp_path


def invoke(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def read(*arguments: object, code: int = 0) -> Any:
    return json.loads(invoke(*arguments, "--json", code=code))


def create(*more: object) -> Any:
    return read("federation", "create", "study.toml", "--host", "localhost", "--port", 1, *more)


def test_from_create_to_install() -> None:
    made = create("--server-home", "server")
    assert made["name"] == "side-effects"
    assert made["platforms"] == list(NAMES)
    asked = read("platform", "request", "north")
    approved = read(
        "federation", "approve", "north.request.json", "--fingerprint", asked["fingerprint"]
    )
    assert approved["fingerprint"] == asked["fingerprint"]
    assert (approved["kind"], approved["approval"]) == ("platform", "north.approval.json")
    done = read(
        "platform", "install", "north.approval.json", "--authority", made["authority"].upper()
    )
    assert (done["server"], done["study"]) == ("localhost:1", made["study"])
    shown = read("platform", "show", "--home", "north")
    assert shown["fingerprint"] == asked["fingerprint"]
    assert shown["authority"] == made["authority"]
    assert shown["days_left"] == 364
    assert read("server", "show")["authority"] == made["authority"]


def test_people_read_the_same() -> None:
    said = invoke("federation", "create", "study.toml", "--host", "fl.example.org")
    assert "next, on fl.example.org: fedner server request fl.example.org" in said
    said = invoke("platform", "request", "north")
    assert "north.request.json: send it to the coordinator" in said
    assert "approved the platform north" in invoke("federation", "approve", "north.request.json")
    said = invoke("platform", "install", "north.approval.json")
    assert "compare the authority with the coordinator by telephone" in said
    assert "certificate ends:" in invoke("platform", "show", "--home", "north")
    assert "north" in invoke("federation", "members")


def test_a_server_on_another_machine_asks_for_itself() -> None:
    create()
    assert not Path("server").exists()
    read("server", "request", "localhost")
    read("federation", "approve", "localhost.request.json", "--out", "server.approval.json")
    read("server", "install", "server.approval.json")
    assert Path("server/flare/local/resources.json").is_file()
    kinds = {each["kind"] for each in read("federation", "members")["members"]}
    assert kinds == {"coordinator", "server", "watchdog"}


def test_a_wrong_fingerprint_is_not_approved() -> None:
    create()
    read("platform", "request", "north")
    with pytest.raises(FednerError, match="expected 0000"):
        invoke("federation", "approve", "north.request.json", "--fingerprint", "0" * 64)
    assert not Path("north.approval.json").exists()
    assert len(read("federation", "members")["members"]) == 1


def test_a_platform_is_added_later() -> None:
    create()
    Path("study.toml").write_text(study_with(*NAMES, "west"))
    assert read("federation", "update", "study.toml")["not_approved"] == ["north", "south", "west"]
    read("platform", "request", "west")
    read("federation", "approve", "west.request.json")
    assert "not approved yet: north, south" in invoke("federation", "update", "study.toml")


def test_an_approval_of_another_study_shows_what_changed() -> None:
    create()
    read("platform", "request", "north")
    read("federation", "approve", "north.request.json")
    assert read("platform", "install", "north.approval.json")["changes"] == []
    Path("study.toml").write_text(study_with(*NAMES, "west"))
    new = read("federation", "update", "study.toml")["study"]
    read("federation", "approve", "north.request.json")
    with pytest.raises(FednerError, match="another study than the one installed in north"):
        invoke("platform", "install", "north.approval.json")
    assert read("platform", "show", "--home", "north")["study"] != new
    said = invoke("platform", "install", "north.approval.json", "--accept-study")
    assert "changed platforms.west.public_size: nothing -> 40" in said
    assert read("platform", "show", "--home", "north")["study"] == new


def test_a_platform_is_removed_even_when_the_server_is_away() -> None:
    create("--server-home", "server")
    read("platform", "request", "north")
    read("federation", "approve", "north.request.json")
    with pytest.raises(FednerError, match="marked as removed, but the server still") as caught:
        invoke("federation", "remove", "north")
    assert "fedner federation remove north" in caught.value.hint
    members = read("federation", "members")["members"]
    assert [each["name"] for each in members if each["removed"]] == ["north"]
    assert "removed" in invoke("federation", "members")


def test_members_warn_of_certificates_that_end() -> None:
    create("--days", 12)
    said = invoke("federation", "members")
    assert "warning: the certificate of coordinator@fedner.local ends on" in said
    before = read("federation", "members")["members"][0]
    after = read("federation", "renew")
    assert (before["days_left"], after["days_left"]) == (11, 364)
    assert before["fingerprint"] == after["fingerprint"]
    assert "warning" not in invoke("federation", "members")


def test_pins_and_checks() -> None:
    create()
    for name in NAMES:
        read("platform", "request", name)
        read("federation", "approve", f"{name}.request.json")
        read("platform", "install", f"{name}.approval.json")
    other = read("platform", "show", "--home", "south")["fingerprint"]
    first = read("platform", "pin", "south", "0" * 64, "--home", "north")
    assert first == {"name": "south", "pinned": "0" * 64, "before": None}
    spoken = " ".join(other[at : at + 4] for at in range(0, 64, 4)).upper()
    again = read("platform", "pin", "south", spoken, "--home", "north")
    assert again == {"name": "south", "pinned": other, "before": "0" * 64}
    invoke("platform", "pin", "south", other, "--home", "north")
    assert read("platform", "show", "--home", "north")["pins"] == {"south": other}
    assert "pinned south:" in invoke("platform", "show", "--home", "north")
    invoke("federation", "roster", "--out", "roster.json")
    written = read("federation", "roster", "--out", "roster.json")
    assert written["roster"] == "roster.json"
    assert {"north", "south"} <= {*written["members"]}
    Path("platform.toml").write_text('name = "north"\ndata = "synthetic:case-reports"\n')
    command = ("platform", "check", "--settings", "platform.toml", "--roster", "roster.json")
    found = read(*command, code=2)
    assert found["ready"] is False
    assert {each["subject"]: each["result"] for each in found["checks"]}["pins"] == "ok"
    said = invoke(*command, code=2)
    assert "not ready: fix the problems above" in said
    assert read("platform", "unpin", "south", "--home", "north")["pinned"] is None
    assert read("platform", "show", "--home", "north")["pins"] == {}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("federation members", "federation is not the folder of a federation"),
        ("platform show --home north", "north is not the home of a platform"),
        ("server start", "server is not the home of a server"),
        ("server install nothing.json", "server is not the home of a server"),
        ("platform install nothing.json", r"nothing\.json cannot be read"),
        ("federation approve nothing.json", r"nothing\.json cannot be read"),
    ],
)
def test_what_is_not_there_is_named(command: str, message: str) -> None:
    with pytest.raises(FednerError, match=message) as caught:
        invoke(*command.split())
    assert caught.value.hint


def test_start_refuses_what_cannot_run(place: Path) -> None:
    create("--server-home", "server")
    read("platform", "request", "north")
    Path("platform.toml").write_text('name = "north"\ndata = "synthetic:case-reports"\n')
    with pytest.raises(FednerError, match="no approval is installed"):
        invoke("platform", "start", "--settings", "platform.toml")
    read("federation", "approve", "north.request.json")
    read("platform", "install", "north.approval.json")
    Path("other.toml").write_text('name = "south"\ndata = "synthetic:case-reports"\n')
    with pytest.raises(FednerError, match=r"is of 'south'; .* is the home of 'north'"):
        invoke("platform", "start", "--settings", "other.toml", "--home", "north")
    Path("server/flare/startup/server.key").chmod(0o644)
    with pytest.raises(FednerError, match="can be read by others"):
        invoke("server", "start")


def test_without_flare_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(FednerError, match="needs nvflare and cryptography") as caught:
        invoke("platform", "request", "north")
    assert "pip install 'fedner[flare]'" in caught.value.hint


def test_a_taken_port_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("--host", "localhost", "--port", port, "--server-home", "server")
        read("federation", "create", "study.toml", *arguments)
        with pytest.raises(FednerError, match=f"port {port} cannot be used here"):
            invoke("server", "start")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_home_runs_once() -> None:
    from fedner.federated.folder_lock import held_by_this_process

    create("--server-home", "server")
    ready, hold = os.pipe()
    child = os.fork()
    if child == 0:
        with held_by_this_process(Path("server")):
            os.write(hold, b"x")
            time.sleep(600)
        os._exit(0)
    try:
        os.read(ready, 1)
        with pytest.raises(FednerError, match="is running already, in another process"):
            invoke("server", "start")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_start_prints_lines_of_json_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What FLARE says is passed on; here it says one line and ends."""
    create("--server-home", "server")
    invoke("platform", "request", "north")
    invoke("federation", "approve", "north.request.json")
    invoke("platform", "install", "north.approval.json")
    Path("platform.toml").write_text('name = "north"\ndata = "synthetic:case-reports"\n')
    monkeypatch.setattr(starting, "_run", lambda _program, log, *_: log('said "this"'))
    monkeypatch.setattr(starting, "_require_free_port", lambda _: None)
    for command, begins in (
        (("platform", "start", "--settings", "platform.toml"), "north connects to localhost:1"),
        (("server", "start"), "server on localhost:1"),
    ):
        lines = [json.loads(line) for line in invoke(*command, "--json").splitlines()]
        assert [line["from"] for line in lines] == ["fedner", "flare"]
        assert begins in lines[0]["line"]
        assert lines[1]["line"] == 'said "this"'
        assert invoke(*command).splitlines()[-1] == 'said "this"', "people read text"
    log = Path("north/logs/platform.log").read_text()
    assert log.count('said "this"') == 2, "the file in the home stays text"
    assert "{" not in log


def test_removing_and_restoring_say_so_to_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    create()
    invoke("platform", "request", "north")
    invoke("federation", "approve", "north.request.json")
    told: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        removal,
        "_tell_server",
        lambda _home, name, _again, is_removed: told.append((name, is_removed)),
    )
    assert read("federation", "remove", "north") == {"name": "north", "removed": True}
    assert read("federation", "restore", "north") == {"name": "north", "removed": False}
    assert told == [("north", True), ("north", False)]


def test_a_run_needs_members_the_federations_study_and_a_server() -> None:
    create()
    with pytest.raises(FednerError, match="not approved, or removed: north, south"):
        invoke("federation", "train")
    Path("other.toml").write_text(study_with("north"))
    with pytest.raises(FednerError, match="that of the federation in federation is"):
        invoke("federation", "train", "other.toml")
    for name in NAMES:
        invoke("platform", "request", name)
        invoke("federation", "approve", f"{name}.request.json")
    for command in ("train", "status", "stop", "resume", "fetch"):
        with pytest.raises(FednerError, match="localhost:1 cannot be reached"):
            invoke("federation", command)


def test_a_newcomer_that_the_study_names_is_approved_and_takes_no_part() -> None:
    Path("study.toml").write_text(study_with(*NAMES, newcomers=("east",)))
    create()
    for name in ("east", "nobody"):
        invoke("platform", "request", name)
    invoke("federation", "approve", "east.request.json")
    invoke("platform", "install", "east.approval.json")
    with pytest.raises(FednerError, match="no platform 'nobody'"):
        invoke("federation", "approve", "nobody.request.json")
    with pytest.raises(FednerError, match="not approved, or removed: north, south"):
        invoke("federation", "train")
    with pytest.raises(FednerError, match="localhost:1 cannot be reached"):
        invoke("federation", "fetch", "--home", "east")
