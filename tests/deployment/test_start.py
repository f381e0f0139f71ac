"""`fedner server start` and `fedner platform start` with real processes, over mTLS on loopback."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port

from fedner.engines.flare.processes import members
from fedner.engines.flare.session import AdminKit, AdminSession, admin_session
from fedner.runs.deployment import homes
from fedner.runs.deployment.kits import write_admin_kit
from fedner.runs.deployment.removal import remove_platform, restore_platform
from fedner.runs.deployment.taking_part import installed
from fedner.runs.deployment.trial import Homes, trial_homes
from fedner.settings import Study

pytestmark = [
    pytest.mark.deployment,
    # FLARE's sessions leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SECONDS = 240.0
CHECKED = """
name = "{name}"
data = "synthetic:case-reports"
num_sentences = 60
label_map = {{ Drug = "", Dosage = "" }}
"""


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


def platform_start(live: Homes, name: str) -> tuple[Any, ...]:
    settings = live.federation.path.parent / f"{name}.toml"
    settings.write_text(f'name = "{name}"\ndata = "synthetic:case-reports"\n')
    return live.platforms[name].path, "platform", "start", "--settings", settings


def wait_for(session: AdminSession, names: list[str]) -> None:
    end = time.monotonic() + SECONDS
    while (found := session.connected()) != names:
        assert time.monotonic() < end, f"expected {names}, found {found}"
        time.sleep(0.2)


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


def test_a_platform_connects_is_removed_and_stops_cleanly(live: Homes) -> None:
    south, admin = live.platforms["south"], live.federation.admin
    home, *command = platform_start(live, "south")
    with started(live.server.path, "server", "start") as server:
        wait_for_port(live)
        assert checked(live, "south") == (0, "ok", "the server admits south")
        with admin_session(AdminKit(admin.kit, admin.name)) as session:
            with started(home, *command):
                wait_for(session, ["south"])
                refused_as_admin(live)
                remove_platform(live.federation, "south")
                wait_for(session, [])
            code, result, words = checked(live, "south")
            assert (code, result) == (2, "problem")
            assert words == "the federation's server refuses the certificate of south"
            with started(home, *command) as again:
                wait_for_words(live.server.logs / "server.log", "Reject disabled client")
                assert session.connected() == []
                restore_platform(live.federation, "south")
                again.send_signal(signal.SIGTERM)
                assert again.wait(20) == 0
                assert members(south.path) == []
            with started(home, *command):
                wait_for(session, ["south"])
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
        assert members(live.server.path) == []
    log = (south.logs / "platform.log").read_text()
    assert "verified server identity 'localhost'" in log
    assert log.rstrip().endswith("stopped")
    assert log == (south.path.parent / "south.out").read_text()


def checked(live: Homes, name: str) -> tuple[int, str, str]:
    """What `fedner platform check` says of the connection, which stands, and of membership."""
    settings = live.federation.path.parent / "checked.toml"
    settings.write_text(CHECKED.format(name=name))
    home = live.platforms[name].path
    command = ["platform", "check", "--json", "--home", home, "--settings", settings]
    done = subprocess.run(
        [sys.executable, "-m", "fedner", *map(str, command)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = {each["subject"]: each for each in json.loads(done.stdout)["checks"]}
    assert told["connection"]["result"] == "ok"
    assert "Traceback" not in done.stderr
    assert not list(home.glob(".session-*"))
    return done.returncode, told["membership"]["result"], told["membership"]["found"]


def refused_as_admin(live: Homes) -> None:
    """A platform that plays an admin with its own certificate may do nothing."""
    home = live.platforms["south"]
    kit = homes.AdminKit(live.federation.path.parent / "played", "south")
    write_admin_kit(kit, installed(home).place)
    shutil.copy(home.key, kit.key)
    shutil.copy(home.certificate, kit.certificate)
    shutil.copy(home.authority, kit.authority)
    with admin_session(AdminKit(kit.kit, kit.name)) as session:
        for act in (lambda: session.refuse("north"), session.connected, session.jobs):
            with pytest.raises(Exception, match="not authorized"):
                act()


def wait_for_words(path: Path, words: str) -> None:
    end = time.monotonic() + SECONDS
    while words not in path.read_text():
        assert time.monotonic() < end, path.read_text()[-2000:]
        time.sleep(0.2)


def arguments_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def killed(live: Homes, module: str) -> None:
    """Kill the process that runs a module for the server."""
    (pid,) = [each for each in members(live.server.path) if module in arguments_of(each)]
    os.kill(pid, signal.SIGKILL)


def test_a_watchdog_that_is_killed_comes_back_and_a_dead_server_is_an_error(live: Homes) -> None:
    login = "user session for watchdog@"
    with started(live.server.path, "server", "start") as server:
        wait_for_port(live)
        log = live.server.logs / "server.log"
        wait_for_words(log, login)
        killed(live, "fedner.runs.deployment.watching")
        end = time.monotonic() + SECONDS
        while log.read_text().count(login) < 2:
            assert time.monotonic() < end, log.read_text()[-2000:]
            time.sleep(0.2)
        killed(live, "fedner.runs.deployment.server_process")
        assert server.wait(30) == 2
        assert members(live.server.path) == []
    said = (live.server.path.parent / "server.out").read_text()
    assert "FLARE's process ended by itself with code -9" in said
