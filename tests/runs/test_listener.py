"""The server's open port: who stays connected, and in whose name members write."""

import logging
import socket
import ssl
import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="needs the extra flare")

from fedner.runs.deployment import listener
from fedner.runs.deployment.listener import Doorkeeper, Refusals, Silences, common_name, foreign


def headers(origin: object, destination: object) -> dict[str, object]:
    return {"cn__origin": origin, "cn__destination": destination}


@pytest.mark.parametrize(
    ("member", "origin", "destination", "problem"),
    [
        ("north", "north", "server", None),
        ("north", "north.job", "server.job", None),
        ("north.job", "north", "server", None),
        ("north", "south", "server", "it writes in the name of 'south'"),
        ("north", "north-2", "server", "it writes in the name of 'north-2'"),
        ("north", "server", "server", "it writes in the name of 'server'"),
        ("north", None, "server", "it writes in the name of nobody"),
        ("north", "north", "south", "it writes to 'south'"),
        ("north", "north", "north", "it writes to 'north'"),
        ("north", "north", "serverless", "it writes to 'serverless'"),
    ],
)
def test_members_write_in_their_own_name_to_the_server(
    member: str, origin: object, destination: object, problem: str | None
) -> None:
    assert foreign(headers(origin, destination), member) == problem


def test_what_somebody_else_wrote_is_one_short_line_of_the_log() -> None:
    found = foreign(headers("a\nb" + "c" * 99, "server"), "north") or ""
    assert "in the name of" in found
    assert "\n" not in found
    assert len(found) < 100


def test_a_refusal_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(listener.time, "monotonic", lambda: now[0])
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            refusals.add("north", "too much")
        refusals.add("south", "too much")
        now[0] += 61
        refusals.add("north", "too much")
    assert [record.getMessage() for record in caplog.records] == [
        "refused north: too much",
        "refused south: too much",
        "refused north: too much (2 more since it was last said)",
    ]


def test_a_flood_of_kinds_is_not_logged_without_end(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        for number in range(1200):
            refusals.add(f"address {number}", "no TLS")
    assert len(caplog.records) == 1000


class Connection:
    """A connection whose handshake is told."""

    def __init__(self, error: Exception | None = None, name: str = "north") -> None:
        self.error, self.name = error, name

    def settimeout(self, seconds: float | None) -> None:
        self.seconds = seconds

    def do_handshake(self) -> None:
        assert self.seconds == listener.HANDSHAKE_SECONDS
        if self.error is not None:
            raise self.error

    def getpeercert(self) -> dict[str, Any]:
        return {"subject": ((("organizationName", "x"),), (("commonName", self.name),))}


def test_a_member_holds_so_many_connections(caplog: pytest.LogCaptureFixture) -> None:
    doors = Doorkeeper(Refusals())
    for _ in range(listener.CONNECTIONS):
        assert doors.admit(Connection(), ("10.0.0.1", 1)) == "north"
    assert doors.admit(Connection(), ("10.0.0.1", 1)) is None
    assert doors.admit(Connection(name="south"), ("10.0.0.1", 1)) == "south"
    doors.release("north")
    assert doors.admit(Connection(), ("10.0.0.1", 1)) == "north"
    assert "refused north: it has 32 connections already" in caplog.text


def test_a_handshake_that_fails_is_logged_by_address(caplog: pytest.LogCaptureFixture) -> None:
    doors, address = Doorkeeper(Refusals()), ("10.0.0.1", 1)
    assert doors.admit(Connection(TimeoutError()), address) is None
    assert doors.admit(Connection(name=""), address) is None
    expected = ("no TLS handshake within 10 s", "no TLS handshake: a certificate without a name")
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"refused a connection from 10.0.0.1: {words}" for words in expected]


@pytest.mark.parametrize("error", [ConnectionResetError(), ssl.SSLEOFError(8, "EOF")])
def test_whoever_leaves_is_not_refused(error: OSError, caplog: pytest.LogCaptureFixture) -> None:
    """Commands try whether the port is reachable; nothing is wrong with that."""
    assert Doorkeeper(Refusals()).admit(Connection(error), ("10.0.0.1", 1)) is None
    assert caplog.records == []


def test_of_too_many_handshakes_the_oldest_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKES", 2)
    doors = Doorkeeper(Refusals())
    pairs = [socket.socketpair() for _ in range(3)]
    try:
        for ours, _ in pairs:
            doors._wait(ours)
        assert pairs[0][1].recv(1) == b"", "the oldest is ended"
        pairs[1][1].setblocking(False)
        with pytest.raises(BlockingIOError):
            pairs[1][1].recv(1)
    finally:
        for pair in pairs:
            for end in pair:
                end.close()


def test_a_certificate_without_a_name() -> None:
    with pytest.raises(ValueError, match="without a name"):
        common_name({"subject": ((("commonName", ""),),)})


class Held:
    """FLARE's record of a connection."""

    def __init__(self, name: str) -> None:
        self.last_activity = 5.0
        self.sfm_endpoint = SimpleNamespace(endpoint=SimpleNamespace(name=name)) if name else None


@pytest.mark.parametrize(
    ("name", "limit"),
    [("north", listener.LIFE_SECONDS), ("north.job", listener.JOB_LIFE_SECONDS), ("", 25.0)],
)
def test_silent_connections_end_and_others_do_not(name: str, limit: float) -> None:
    silences, connection = Silences(), Held(name)
    assert not silences.is_dead(connection, 100.0)
    assert not silences.is_dead(connection, 100.0 + limit)
    connection.last_activity = 1e9  # a clock that was set is a sign of life like any other
    assert not silences.is_dead(connection, 200.0 + limit)
    assert not silences.is_dead(connection, 200.0 + 2 * limit)
    assert silences.is_dead(connection, 200.1 + 2 * limit)


def test_the_kernel_ends_connections_whose_other_end_is_gone() -> None:
    with socket.socket() as connection:
        listener.keep_alive(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000


def test_a_caller_gives_up_a_handshake_that_nobody_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.2)
    context = ssl.create_default_context()
    context.check_hostname = False
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as plain:
        secure = listener._TimedContext(context, Refusals()).wrap_socket(plain)
        with secure, pytest.raises(TimeoutError):
            secure.connect(silent.getsockname())


def test_a_caller_says_who_is_no_server(caplog: pytest.LogCaptureFixture) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as plain:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        secure = listener._TimedContext(context, Refusals()).wrap_socket(plain)
        with secure, pytest.raises(ssl.SSLError):
            secure.connect(server.getsockname())
        thread.join()
    assert "refused whoever answers at 127.0.0.1 as the federation's server" in caplog.text
