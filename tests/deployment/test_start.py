"""`fedner server start` and `fedner platform start` with real processes, over mTLS on loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedner.engines.flare.processes import members
from fedner.engines.flare.session import AdminKit, admin_session
from fedner.errors import FednerError
from fedner.runs.deployment.checks import check_connection
from fedner.runs.deployment.removal import remove_platform, restore_platform
from fedner.runs.deployment.taking_part import installed
from fedner.runs.deployment.trial import Homes, trial_homes
from fedner.settings import Study

pytestmark = pytest.mark.deployment
SECONDS = 60.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def live(study: Study, tmp_path: Path, small_keys: None) -> Homes:
    return trial_homes(tmp_path, study, ["north", "south"], free_port())


@contextmanager
def started(home: Path, *arguments: object) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command until the block ends, in a process group of its own."""
    command = [sys.executable, "-m", "fedner", *map(str, arguments), "--home", str(home)]
    with (home.parent / f"{home.name}.out").open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        for pid in members(home):
            os.kill(pid, signal.SIGKILL)


def platform_start(live: Homes, name: str) -> tuple[object, ...]:
    settings = live.federation.path.parent / f"{name}.toml"
    settings.write_text(f'name = "{name}"\ndata = "synthetic:case-reports"\n')
    return live.platforms[name].path, "platform", "start", "--settings", settings


def connected(live: Homes) -> list[str]:
    with admin_session(AdminKit(live.federation.admin.kit, live.federation.admin.name)) as session:
        return session.connected()


def wait_for(live: Homes, names: list[str]) -> None:
    end = time.monotonic() + SECONDS
    found: object = None
    while time.monotonic() < end:
        try:
            found = connected(live)
        except FednerError as error:
            found = error
        if found == names:
            return
        time.sleep(0.5)
    said = (live.server.path.parent / "server.out").read_text()[-2000:]
    pytest.fail(f"expected {names}, found {found}\n{said}")


def wait_for_port(live: Homes) -> None:
    place = installed(live.server).place
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection((place.host, place.port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    pytest.fail((live.server.path.parent / "server.out").read_text()[-2000:])


def test_platforms_connect_are_removed_and_stop_cleanly(live: Homes) -> None:
    north, south = live.platforms["north"], live.platforms["south"]
    with started(live.server.path, "server", "start") as server:
        wait_for_port(live)
        (check,) = check_connection(north, installed(north).place)
        assert check.result == "ok"
        home, *command = platform_start(live, "north")
        with started(home, *command) as first:  # type: ignore[arg-type]
            other, *more = platform_start(live, "south")
            with started(other, *more):  # type: ignore[arg-type]
                wait_for(live, ["north", "south"])
                remove_platform(live.federation, "south")
                wait_for(live, ["north"])
            with started(other, *more):  # type: ignore[arg-type]
                refused_again(live)
                restore_platform(live.federation, "south")
            with started(other, *more):  # type: ignore[arg-type]
                wait_for(live, ["north", "south"])
            first.send_signal(signal.SIGTERM)
            assert first.wait(20) == 0
            assert members(north.path) == []
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
        assert members(live.server.path) == []
    assert members(south.path) == []
    log = (north.logs / "platform.log").read_text()
    assert "verified server identity 'localhost'" in log
    assert log.rstrip().endswith("stopped")
    assert log == (north.path.parent / "north.out").read_text()


def refused_again(live: Homes) -> None:
    """A platform that was removed asks again with its valid certificate, and is refused."""
    log = live.server.logs / "server.log"
    end = time.monotonic() + SECONDS
    while "Reject disabled client registration: south" not in log.read_text():
        assert time.monotonic() < end, log.read_text()[-2000:]
        time.sleep(0.2)
    assert connected(live) == ["north"]


def test_a_process_that_ends_by_itself_is_an_error(live: Homes) -> None:
    with started(live.server.path, "server", "start") as server:
        wait_for_port(live)
        for pid in members(live.server.path):
            os.kill(pid, signal.SIGKILL)
        assert server.wait(20) == 2
    said = (live.server.path.parent / "server.out").read_text()
    assert "FLARE's process ended by itself with code -9" in said
