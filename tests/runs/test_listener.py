"""The server's open port: who stays connected, and in whose name members write."""

import logging
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="needs the extra flare")

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

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
        ("north.job.part", "north", "server", None),
        ("north.job.part", "job", "server", "it writes in the name of 'job'"),
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
    assert found == "it writes in the name of " + ascii("a\nb" + "c" * 99)[:60]
    assert "\n" not in found


def test_a_refusal_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1.0]  # the machine has just begun
    monkeypatch.setattr(listener.time, "monotonic", lambda: now[0])
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            refusals.add("north", "too much")
        refusals.add("south", "too much")
        now[0] += 59.9
        refusals.add("north", "too much")
        now[0] += 0.1
        refusals.add("north", "too much")
    assert {record.name for record in caplog.records} == {"fedner.runs.deployment.listener"}
    assert [record.getMessage() for record in caplog.records] == [
        "refused north: too much",
        "refused south: too much",
        "refused north: too much (3 more since it was last said)",
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


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A certificate that vouches for itself, with its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )  # fmt: skip
    path = tmp_path / "both.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made)
    return path


def strangers(kind: str) -> ssl.SSLContext | None:
    """How somebody calls who has no certificate; None leaves at once."""
    if kind == "leaves":
        return None
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize(
    ("kind", "said"), [("leaves", None), ("shows nothing", "it shows no certificate")]
)
def test_what_openssl_says_of_strangers_is_understood(
    kind: str, said: str | None, authority: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its words, from real handshakes: a release that changes them must not go unnoticed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    ours, theirs = socket.socketpair()

    def call() -> None:
        stranger = strangers(kind)
        with theirs, suppress(OSError):
            if stranger is not None:
                stranger.wrap_socket(theirs).recv(1)

    thread = threading.Thread(target=call)
    thread.start()
    with context.wrap_socket(ours, server_side=True, do_handshake_on_connect=False) as secure:
        assert Doorkeeper(Refusals()).admit(secure, ("10.0.0.1", 1)) is None
    thread.join()
    told = [record.getMessage() for record in caplog.records]
    assert told == ([] if said is None else [f"refused a connection from 10.0.0.1: {said}"])


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
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        wanted = {"KEEPIDLE": 5, "KEEPINTVL": 5, "KEEPCNT": 3, "USER_TIMEOUT": 20_000}
        for name, value in wanted.items():
            if option := getattr(socket, f"TCP_{name}", None):  # Linux has them all
                assert connection.getsockopt(socket.IPPROTO_TCP, option) == value


def test_limits_are_those_that_were_thought_through() -> None:
    """A ping or two must fit into a life; of open files select() knows 1,024."""
    found = {name: getattr(listener, name) for name in dir(listener) if name.isupper()}
    stated = {
        "HANDSHAKE_SECONDS": 10.0, "HANDSHAKES": 200, "BACKLOG": 128, "CONNECTIONS": 32,
        "FRAME_BYTES": 64 * 2**20, "PING_SECONDS": 5, "LIFE_SECONDS": 25.0,
        "JOB_LIFE_SECONDS": 120.0,
    }  # fmt: skip
    assert {name: value for name, value in found.items() if name[0] != "_"} == stated


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
    (said,) = [record.getMessage() for record in caplog.records]
    who = "refused whoever answers at 127.0.0.1 as the federation's server"
    assert said.startswith(f"{who}: no TLS handshake: ")
    assert "wrong version number" in said
