"""Intruders at the server's port, and members who mean ill: one federation of real processes.

Whoever is refused is in the server's log, by the name in the certificate or by address, and the
service goes on: after every test all platforms are connected and the coordinator is answered.
"""

import contextlib
import resource
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from free_ports import free_port
from intruder import Card, caller, foreign_card, hello, is_closed, prefix, request
from live import NAMES, SERVER, Live, live, quick_keys, tiny_settings, until

from fedner.engines.flare.processes import Program, start, stop
from fedner.engines.flare.session import admin_session
from fedner.runs.deployment.homes import ServerHome
from fedner.runs.deployment.kits import ORGANISATION, Place, write_platform_kit, write_server_kit
from fedner.runs.deployment.listener import CONNECTIONS
from fedner.runs.deployment.removal import remove_platform, restore_platform
from fedner.runs.deployment.taking_part import installed

pytestmark = pytest.mark.deployment
VICTIM, OTHER, INTRUDER = NAMES
IDLE = 1000


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with quick_keys(), live(tmp_path_factory.mktemp("intruders"), tiny_settings()) as made:
        made.start()
        made.wait_connected()
        yield made


@pytest.fixture(autouse=True)
def service_goes_on(federation: Live) -> Iterator[None]:
    yield
    with admin_session(federation.kit, timeout=5) as session:
        until(lambda: session.connected() == sorted(NAMES), 60, "all are connected")
    assert all(process.poll() is None for process in federation.processes.values())


def port(federation: Live) -> int:
    return installed(federation.homes.server).place.port


def card(federation: Live, name: str) -> Card:
    home = federation.homes.platforms[name]
    return Card(home.authority, home.certificate, home.key)


def log(federation: Live, name: str = SERVER) -> str:
    return (federation.folder / f"{name}.log").read_text(errors="replace")


def logged(federation: Live, words: str, name: str = SERVER, seconds: float = 60) -> None:
    until(lambda: words in log(federation, name), seconds, f"{words!r} in the log of {name}")


def refused_at_the_door(federation: Live, shown: Card) -> None:
    closed = contextlib.suppress(ssl.SSLError, ConnectionError)
    with closed, caller(port(federation), shown) as connection:
        assert is_closed(connection)


def test_a_certificate_of_another_authority(federation: Live, tmp_path: Path) -> None:
    own = card(federation, VICTIM)
    refused_at_the_door(federation, foreign_card(tmp_path / "foreign", VICTIM, own.authority))
    logged(federation, "refused a connection from 127.0.0.1: its certificate is not accepted: ")


def test_no_certificate(federation: Live) -> None:
    refused_at_the_door(federation, Card(card(federation, VICTIM).authority))
    logged(federation, "refused a connection from 127.0.0.1: it shows no certificate")


def test_no_tls(federation: Live) -> None:
    with socket.create_connection(("127.0.0.1", port(federation)), timeout=5) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert is_closed(plain)
    logged(federation, "refused a connection from 127.0.0.1: no TLS handshake: http request")


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process open more files than usual."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_a_thousand_idle_connections(federation: Live) -> None:
    """Nobody else waits for them, the oldest are ended, and none lasts."""
    process = psutil.Process(federation.processes[SERVER].pid)
    before = process.num_fds()
    with contextlib.ExitStack() as held:
        for _ in range(IDLE):
            address = ("127.0.0.1", port(federation))
            idle = held.enter_context(socket.create_connection(address, timeout=5))
        began = time.monotonic()
        with admin_session(federation.kit, timeout=5) as session:
            assert session.connected() == sorted(NAMES)
        assert time.monotonic() - began < 9, "before the first of them is given up"
        assert process.num_fds() < before + 300
        assert is_closed(idle, 60), "the newest of them is ended, too"
    logged(federation, "refused a connection from 127.0.0.1: no TLS handshake within 10 s")
    until(lambda: process.num_fds() < before + 20, 60, "their files are closed")


@pytest.mark.usefixtures("many_files")
def test_a_member_with_too_many_connections(federation: Live) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(CONNECTIONS + 5):
            last = held.enter_context(caller(port(federation), card(federation, INTRUDER)))
        assert is_closed(last)
        logged(federation, f"refused {INTRUDER}: it has {CONNECTIONS} connections already")
        with caller(port(federation), card(federation, OTHER)) as honest:
            assert not is_closed(honest, 1), "others come in"


def test_an_oversize_frame(federation: Live) -> None:
    with caller(port(federation), card(federation, INTRUDER)) as connection:
        connection.sendall(prefix(2**31 - 2**22))
        assert is_closed(connection)
    logged(federation, f"refused {INTRUDER}: a frame that is too large")


def test_a_slow_frame_keeps_nobody_waiting(federation: Live) -> None:
    with caller(port(federation), card(federation, INTRUDER)) as connection:
        connection.sendall(hello(f"{INTRUDER}.slow"))
        for byte in prefix(2**20)[:8]:
            connection.sendall(bytes([byte]))
            began = time.monotonic()
            with caller(port(federation), card(federation, OTHER)):
                assert time.monotonic() - began < 20


def test_a_member_in_anothers_name(federation: Live) -> None:
    """FLARE's own process, with the intruder's certificate, as the victim."""
    home = federation.homes.platforms[INTRUDER]
    copied = federation.folder / "posing"
    shutil.copytree(home.path, copied)
    posing = replace(federation.program(VICTIM), home=copied, workspace=copied / "flare")
    write_platform_kit(type(home)(copied), installed(home).place, VICTIM)
    with (federation.folder / "posing.log").open("ab") as said:
        process = start(posing, said)
    try:
        words = f"authenticated as '{INTRUDER}' but claimed endpoint '{VICTIM}' requires identity"
        logged(federation, words)
    finally:
        stop(process, posing, grace=1.0)


def test_a_member_writes_in_anothers_name(federation: Live) -> None:
    with caller(port(federation), card(federation, INTRUDER)) as connection:
        connection.sendall(hello(f"{INTRUDER}.forger"))
        time.sleep(0.5)  # the greeting is worked on in another thread
        connection.sendall(request(VICTIM, SERVER, "admin", "admin"))
        logged(federation, f"refused {INTRUDER}.forger: it writes in the name of '{VICTIM}'")


def test_a_member_writes_to_another(federation: Live) -> None:
    with caller(port(federation), card(federation, INTRUDER)) as connection:
        connection.sendall(hello(f"{INTRUDER}.writer"))
        time.sleep(0.5)
        connection.sendall(request(f"{INTRUDER}.writer", VICTIM, "admin", "admin"))
        logged(federation, f"refused {INTRUDER}.writer: it writes to '{VICTIM}'")


def test_a_member_poses_as_the_server(federation: Live, tmp_path: Path) -> None:
    """Somebody leads the victim to the intruder's port; FLARE's own server listens there."""
    own, home = federation.homes.platforms[INTRUDER], ServerHome(tmp_path / "posing")
    shutil.copytree(federation.homes.server.path, home.path)
    place = Place("posing", "localhost", free_port())
    write_server_kit(home, place)
    shutil.copy(own.certificate, home.certificate)
    shutil.copy(own.key, home.key)
    server = Program(home.path, home.workspace, ORGANISATION)
    victim_home = tmp_path / "victim"
    shutil.copytree(federation.homes.platforms[VICTIM].path, victim_home)
    write_platform_kit(type(own)(victim_home), place, VICTIM)
    victim = replace(federation.program(VICTIM), home=victim_home, workspace=victim_home / "flare")
    with _both(server, victim, tmp_path) as (_, victim_log):
        words = "refused whoever answers at localhost as the federation's server"
        until(lambda: words in victim_log.read_text(), 40, words)
        assert "unsuitable certificate purpose" in victim_log.read_text()


@contextlib.contextmanager
def _both(server: Program, victim: Program, folder: Path) -> Iterator[tuple[Path, Path]]:
    logs = folder / "server.log", folder / "victim.log"
    running: list[tuple[subprocess.Popen[bytes], Program]] = []
    try:
        for program, path in zip((server, victim), logs, strict=True):
            with path.open("ab") as said:
                running.append((start(program, said), program))
        yield logs
    finally:
        for process, program in running:
            stop(process, program, grace=1.0)


def test_a_removed_platform(federation: Live) -> None:
    """It is refused from that moment, and after a start of its own; the others go on."""
    remove_platform(federation.homes.federation, INTRUDER)
    try:
        federation.kill_all(INTRUDER)
        federation.start(INTRUDER)
        until(lambda: _is_refused(federation), 30, "the server refuses it by name")
        with admin_session(federation.kit) as session:
            assert session.connected(5) == sorted((VICTIM, OTHER))
    finally:
        restore_platform(federation.homes.federation, INTRUDER)
        federation.kill_all(INTRUDER)
        federation.start(INTRUDER)
        federation.wait_connected()


def _is_refused(federation: Live) -> bool:
    return any(INTRUDER in line and "disabled" in line for line in log(federation).splitlines())
