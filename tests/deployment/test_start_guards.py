"""What a start and a removal see to, without FLARE's processes: files, ports, locks, words."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedner.errors import FednerError
from fedner.federated.folder_lock import FolderInUseError
from fedner.runs.deployment import certificate_check, removal, starting
from fedner.runs.deployment.expiry import Expiry
from fedner.runs.deployment.federation import read_federation
from fedner.runs.deployment.kits import Place
from fedner.runs.deployment.starting import start_platform, start_server
from fedner.runs.deployment.trial import Homes


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would have been run."""
    found: list[Any] = []
    monkeypatch.setattr(starting, "_run", lambda program, *_: found.append(program))
    monkeypatch.setattr(starting, "_require_free_port", lambda _: None)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "north.toml"
    path.write_text('name = "north"\ndata = "synthetic:case-reports"\n')
    return path


def edited(path: Path) -> str:
    """Let somebody allow everything in a file of FLARE; return what it held."""
    before = path.read_text()
    path.write_text("{}")
    return before


def test_edits_of_flares_files_do_not_last(homes: Homes, settings: Path, ran: list[Any]) -> None:
    north, server = homes.platforms["north"], homes.server
    names = ("local/resources.json", "local/authorization.json")
    held = {home.workspace / name: "" for home in (north, server) for name in names}
    held |= dict.fromkeys((server.watchdog.kit / "startup").glob("*.json"), "")
    assert len(held) > 4, "the watchdog has files of FLARE too"
    start_platform(north, settings)
    start_server(server)
    before = {path: edited(path) for path in held}
    start_platform(north, settings)
    start_server(server)
    assert {path: path.read_text() for path in held} == before
    assert [program.name for program in ran] == ["north", None] * 2


def test_settings_of_another_platform_start_nothing(
    homes: Homes, settings: Path, ran: list[Any]
) -> None:
    with pytest.raises(FednerError, match=r"is of 'north'; .* is the home of 'south'"):
        start_platform(homes.platforms["south"], settings)
    assert not ran


@pytest.mark.parametrize("kind", ["platform", "server"])
def test_a_certificate_of_somebody_else_starts_nothing(
    homes: Homes, settings: Path, ran: list[Any], kind: str
) -> None:
    home = homes.platforms["north"] if kind == "platform" else homes.server
    home.certificate.write_bytes(homes.platforms["south"].certificate.read_bytes())
    starts = {
        "platform": lambda: start_platform(homes.platforms["north"], settings),
        "server": lambda: start_server(homes.server),
    }
    with pytest.raises(FednerError, match=r"certificate .* is not that of"):
        starts[kind]()
    assert not ran


def test_a_home_runs_once(
    homes: Homes, settings: Path, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Path] = []

    def in_use(folder: Path) -> None:
        held.append(folder)
        raise FolderInUseError("in use")

    monkeypatch.setattr(starting, "held_by_this_process", in_use)
    with pytest.raises(FednerError, match="is running already, in another process"):
        start_platform(homes.platforms["north"], settings)
    with pytest.raises(FednerError, match="is running already, in another process"):
        start_server(homes.server)
    assert held == [homes.platforms["north"].path, homes.server.path]
    assert not ran


def test_a_log_has_five_files_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, homes: Homes
) -> None:
    """As docs/operating.md says: of fedner's own log, and of FLARE's."""
    monkeypatch.setattr(starting, "LOG_BYTES", 100)
    with starting._log(tmp_path / "logs" / "platform.log", as_json=False) as say:
        for number in range(100):
            say(f"line {number}")
    held = sorted((tmp_path / "logs").iterdir())
    assert len(held) == 5
    assert sum(path.stat().st_size for path in held) <= 500
    assert "line 99" in (tmp_path / "logs" / "platform.log").read_text()
    config = json.loads((homes.server.workspace / "local/log_config.json").read_text())
    bounds = [each for each in config["handlers"].values() if "backupCount" in each]
    assert bounds
    assert {(each["maxBytes"], each["backupCount"]) for each in bounds} == {(5_000_000, 4)}


def test_a_certificate_that_ends_soon_is_said_at_the_start(
    homes: Homes, settings: Path, ran: list[Any], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(certificate_check, "expiry", lambda ends: Expiry(ends, 10))
    start_platform(homes.platforms["north"], settings)
    start_server(homes.server)
    said = capsys.readouterr().out
    assert said.count("warning: certificate of ") == 2
    assert "Renew it: fedner platform request north" in said
    assert len(ran) == 2


def test_jobs_of_a_server_that_died_are_closed(
    homes: Homes, ran: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    job = homes.server.jobs / "0b5b0f39-3a5e-4d6c-9a31-1d6f0f2b7c11"
    job.mkdir(parents=True)
    (job / "meta").write_text(json.dumps({"status": "RUNNING", "job_id": job.name}))
    start_server(homes.server)
    assert f"job {job.name} ended with the server that ran it" in capsys.readouterr().out
    assert json.loads((job / "meta").read_text())["status"] == "FINISHED:EXECUTION_EXCEPTION"
    assert ran


def test_a_port_that_somebody_has_is_said_before_anything_starts(
    homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(starting, "_run", lambda program, *_: ran.append(program))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        installed = starting.installed(homes.server).model_copy(update={"port": port})
        monkeypatch.setattr(starting, "installed", lambda _: installed)
        with pytest.raises(FednerError, match=f"port {port} cannot be used here"):
            start_server(homes.server)
    assert not ran
    starting._require_free_port(Place("x", "localhost", port))


class Session:
    """A session with a server that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.is_away = False

    def refuse(self, name: str) -> None:
        self._tell("refuse", name)

    def admit(self, name: str) -> None:
        self._tell("admit", name)

    def _tell(self, what: str, name: str) -> None:
        if self.is_away:
            raise ConnectionError("away")
        self.told.append((what, name))


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()

    @contextmanager
    def opened(_: object) -> Iterator[Session]:
        yield made

    monkeypatch.setattr(removal, "coordinator_session", opened)
    return made


def is_removed(homes: Homes, name: str) -> bool:
    member = read_federation(homes.federation).member(name)
    assert member is not None
    return member.removed is not None


def test_a_removed_platform_is_marked_and_the_server_refuses_it(
    homes: Homes, session: Session
) -> None:
    removal.remove_platform(homes.federation, "south")
    assert session.told == [("refuse", "south")]
    assert is_removed(homes, "south")
    removal.restore_platform(homes.federation, "south")
    assert session.told[1:] == [("admit", "south")]
    assert not is_removed(homes, "south")


def test_a_server_that_is_away_leaves_a_platform_removed(homes: Homes, session: Session) -> None:
    session.is_away = True
    with pytest.raises(FednerError, match="but the server still admits it: away"):
        removal.remove_platform(homes.federation, "south")
    assert is_removed(homes, "south"), "it is not renewed"
    with pytest.raises(FednerError, match="south: the server still refuses it: away") as caught:
        removal.restore_platform(homes.federation, "south")
    assert is_removed(homes, "south"), "until the server admits it"
    assert "fedner federation restore south" in caught.value.hint
