"""Where the listener hooks into FLARE: what is passed on, what is refused, what is said."""

import logging
import socket
import ssl
from collections import Counter, OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="needs the extra flare")

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers import socket_conn, tcp_driver
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.drivers.tcp_driver import TcpStreamServer
from nvflare.fuel.f3.sfm.heartbeat_monitor import HeartbeatMonitor

from fedner.runs.deployment import listener
from fedner.runs.deployment.listener import Doorkeeper, Refusals

HOOKED = (
    (TcpStreamServer, "__init__"),
    (TcpStreamServer, "finish_request"),
    (TcpStreamServer, "daemon_threads"),
    (TcpStreamServer, "request_queue_size"),
    (SocketConnection, "__init__"),
    (SocketConnection, "read_frame"),
    (CoreCell, "_process_received_msg"),
    (HeartbeatMonitor, "_check_heartbeat"),
    (tcp_driver, "get_ssl_context"),
    (socket_conn, "MAX_FRAME_SIZE"),
)


@pytest.fixture
def flare(monkeypatch: pytest.MonkeyPatch) -> None:
    """FLARE as it was before: hooks of a test are undone at its end."""
    for place, name in HOOKED:
        monkeypatch.setattr(place, name, getattr(place, name))


class Told:
    """Refusals that are kept."""

    def __init__(self) -> None:
        self.kinds: list[tuple[str, str]] = []

    def add(self, who: str, why: str) -> None:
        self.kinds.append((who, why))


class Doors:
    """Admits by a name that is given; None refuses."""

    def __init__(self, name: str | None) -> None:
        self.name, self.asked, self.released = name, 0, [""][:0]

    def admit(self, _request: object, _address: object) -> str | None:
        self.asked += 1
        return self.name

    def release(self, name: str) -> None:
        self.released.append(name)


ADDRESS = ("10.0.0.1", 1)


def guarded_server(doors: Doors, ssl_context: object) -> Any:
    class Server:
        daemon_threads, request_queue_size = False, 5

        def __init__(self, ssl_context: object) -> None:
            self.ssl_context = ssl_context
            self.socket = SimpleNamespace(do_handshake_on_connect=True)
            self.finished: list[object] = []

        def finish_request(self, request: object, address: object) -> None:
            assert address == ADDRESS
            self.finished.append(request)
            if request == "breaks":
                raise OSError("cut")

    listener._guard_handshakes(Server, doors)  # type: ignore[arg-type]
    return Server(ssl_context=ssl_context)


def test_the_thread_that_accepts_does_no_handshake() -> None:
    server = guarded_server(Doors("north"), "tls")
    assert not server.socket.do_handshake_on_connect
    assert (server.daemon_threads, server.request_queue_size) == (True, listener.BACKLOG)
    assert type(server).finish_request.is_guarded
    assert guarded_server(Doors("north"), None).socket.do_handshake_on_connect


def test_whoever_is_admitted_stays_and_is_released() -> None:
    doors = Doors("north")
    server = guarded_server(doors, "tls")
    server.finish_request("call", ADDRESS)
    with pytest.raises(OSError, match="cut"):
        server.finish_request("breaks", ADDRESS)
    assert server.finished == ["call", "breaks"]
    assert doors.released == ["north", "north"]


def test_whoever_is_refused_gets_no_further() -> None:
    doors = Doors(None)
    server = guarded_server(doors, "tls")
    server.finish_request("call", ADDRESS)
    assert (server.finished, doors.released) == ([], [])


def test_the_loopback_port_of_jobs_has_no_doorkeeper() -> None:
    doors = Doors(None)
    server = guarded_server(doors, None)
    server.finish_request("call", ADDRESS)
    assert (server.finished, doors.asked) == (["call"], 0)


@pytest.mark.usefixtures("flare")
@pytest.mark.parametrize(
    ("peer", "code", "said"),
    [
        ("north", CommError.BAD_DATA, "north"),
        (None, CommError.BAD_DATA, "a process of this machine"),
        ("north", CommError.CLOSED, None),
    ],
)
def test_a_frame_of_a_wrong_length_is_said_and_ends(
    peer: str | None, code: str, said: str | None
) -> None:
    class Connection:
        def __init__(self) -> None:
            self.conn_props = {"peer_cn": peer}

        def read_frame(self) -> bytes:
            assert isinstance(self, Connection)
            raise CommError(code, "length")

    told = Told()
    listener._guard_frames(Connection, told)  # type: ignore[arg-type]
    with pytest.raises(CommError):
        Connection().read_frame()
    words = f"a frame that is too large, or too small: {CommError(code, 'length')}"
    assert told.kinds == ([] if said is None else [(said, words)])
    assert socket_conn.MAX_FRAME_SIZE == listener.FRAME_BYTES


@pytest.mark.usefixtures("flare")
def test_a_sound_frame_passes() -> None:
    class Connection:
        def read_frame(self) -> bytes:
            assert isinstance(self, Connection)
            return b"frame"

    listener._guard_frames(Connection, Told())  # type: ignore[arg-type]
    assert Connection().read_frame() == b"frame"


OUTSIDE = SimpleNamespace(get_conn_properties=lambda: {"peer_cn": "north"})
INSIDE = SimpleNamespace(get_conn_properties=dict)
FORGED = {"cn__origin": "south", "cn__destination": "server"}
SOUND = {"cn__origin": "north", "cn__destination": "server"}


@pytest.mark.parametrize(
    ("own", "connection", "headers", "is_dropped"),
    [
        ("server", OUTSIDE, FORGED, True),
        ("server", OUTSIDE, None, True),
        ("server", OUTSIDE, SOUND, False),
        ("server", INSIDE, FORGED, False),
        ("server", None, FORGED, False),
        ("north", OUTSIDE, FORGED, False),
    ],
)
def test_messages_in_anothers_name_are_dropped_at_the_server(
    own: str, connection: object, headers: object, is_dropped: bool
) -> None:
    class Cell:
        my_info = SimpleNamespace(fqcn=own)

        def _process_received_msg(self, *given: object) -> str:
            assert isinstance(self, Cell)
            assert given == (endpoint, connection, message)
            return "received"

    told = Told()
    listener._guard_names(Cell, told)  # type: ignore[arg-type]
    message = SimpleNamespace(headers=headers)
    endpoint = SimpleNamespace(name="north")
    found = Cell()._process_received_msg(endpoint, connection, message)
    assert found == (None if is_dropped else "received")
    whose = "'south'" if headers else "nobody"
    words = [("north", f"it writes in the name of {whose}")]
    assert told.kinds == (words if is_dropped else [])


class Silent:
    """FLARE's record of a connection on which nothing comes."""

    def __init__(self, name: str) -> None:
        self.last_activity, self.is_closed = 5.0, False
        self.sfm_endpoint = SimpleNamespace(endpoint=SimpleNamespace(name=name)) if name else None
        self.conn = SimpleNamespace(close=self._close)

    def _close(self) -> None:
        self.is_closed = True


@pytest.mark.usefixtures("flare")
def test_silent_connections_are_closed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, told, now = [None][:0], Told(), [100.0]
    monkeypatch.setattr(HeartbeatMonitor, "_check_heartbeat", looked.append)
    monkeypatch.setattr(listener.time, "monotonic", lambda: now[0])
    listener._guard_life(told)  # type: ignore[arg-type]
    held = {"a": Silent("north"), "b": Silent(""), "c": Silent("north.job")}
    monitor = SimpleNamespace(conns=held, interval=0)
    HeartbeatMonitor._check_heartbeat(monitor)
    now[0] += listener.LIFE_SECONDS + 1
    HeartbeatMonitor._check_heartbeat(monitor)
    assert [each.is_closed for each in held.values()] == [True, True, False]
    assert {who for who, _ in told.kinds} == {
        "the connection of north",
        "the connection of somebody without a name",
    }
    assert {why for _, why in told.kinds} == {"nothing came for too long"}
    assert monitor.interval == listener.PING_SECONDS
    assert looked == [monitor, monitor], "FLARE's own look"


@pytest.fixture
def caller(flare: None, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A process that calls; what FLARE's own parts were given."""
    begun: list[Any] = []
    monkeypatch.setattr(
        SocketConnection, "__init__", lambda *given, **named: begun.append((given, named))
    )
    monkeypatch.setattr(HeartbeatMonitor, "_check_heartbeat", lambda _: None)
    context = ssl.create_default_context()
    monkeypatch.setattr(
        tcp_driver,
        "get_ssl_context",
        lambda params, ssl_server: context if params or ssl_server else None,
    )
    listener.install_caller()
    return begun


def test_a_connection_that_stands_waits_for_ever_and_is_kept_alive(caller: list[Any]) -> None:
    held = object.__new__(SocketConnection)
    with socket.socket() as network, socket.socket(socket.AF_UNIX) as local:
        for each in (network, local):
            each.settimeout(5)
            SocketConnection.__init__(held, each, 1, more=2)
            assert each.gettimeout() is None
        assert network.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not local.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert caller == [((held, each, 1), {"more": 2}) for each in (network, local)]


@pytest.mark.usefixtures("caller")
def test_only_those_who_call_have_a_timed_handshake() -> None:
    assert tcp_driver.get_ssl_context({}, ssl_server=False) is None
    assert isinstance(tcp_driver.get_ssl_context({}, ssl_server=True), ssl.SSLContext)
    timed = tcp_driver.get_ssl_context({"secure": True}, ssl_server=False)
    assert isinstance(timed, listener._TimedContext)
    assert isinstance(timed._refusals, Refusals)
    assert timed._context is tcp_driver.get_ssl_context({"secure": True}, ssl_server=True)


@pytest.mark.usefixtures("flare")
def test_everything_is_hooked_once() -> None:
    before = {(place, name): getattr(place, name) for place, name in HOOKED}
    listener.install()
    once = {(place, name): getattr(place, name) for place, name in HOOKED}
    assert [name for (_, name), each in once.items() if each is before[_, name]] == []
    listener.install()
    listener.install_caller()
    assert {key: getattr(*key) for key in once} == once


@pytest.mark.usefixtures("flare")
def test_who_is_refused_goes_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoreCell, "_process_received_msg", lambda *_: "received")
    told = Told()
    listener.install(told)  # type: ignore[arg-type]
    cell = SimpleNamespace(my_info=SimpleNamespace(fqcn="server"))
    given = SimpleNamespace(name="north"), OUTSIDE, SimpleNamespace(headers=FORGED)
    assert CoreCell._process_received_msg(cell, *given) is None
    nameless = SimpleNamespace(
        settimeout=lambda _: None, do_handshake=lambda: None, getpeercert=dict
    )
    TcpStreamServer.finish_request(SimpleNamespace(ssl_context="tls"), nameless, ADDRESS)
    frames = SimpleNamespace(
        closing=False, conn_props={"peer_cn": "south"}, read_into=lambda *_: None,
        sock=SimpleNamespace(),
    )  # fmt: skip
    with pytest.raises(CommError):
        SocketConnection.read_frame(frames)
    assert [who for who, _ in told.kinds] == ["north", "a connection from 10.0.0.1", "south"]


@pytest.mark.usefixtures("caller")
def test_what_a_caller_ends_is_logged(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    monitor = SimpleNamespace(conns={"a": Silent("server")}, interval=0)
    HeartbeatMonitor._check_heartbeat(monitor)
    clock[0] += listener.LIFE_SECONDS + 1
    HeartbeatMonitor._check_heartbeat(monitor)
    assert monitor.conns["a"].is_closed
    assert "refused the connection of server: nothing came for too long" in caplog.text


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(listener.time, "monotonic", lambda: now[0])
    return now


def test_kinds_that_are_old_make_room_for_new_ones(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        for number in range(listener._MOST_KINDS):
            refusals.add(f"address {number}", "no TLS")
        clock[0] += listener._SILENCE
        refusals.add("north", "too much")
        refusals.add("address 0", "no TLS")
    assert [record.getMessage() for record in caplog.records][-2:] == [
        "refused north: too much",
        "refused address 0: no TLS",
    ]


class Handshake:
    """A connection that looks at its doorkeeper meanwhile."""

    def __init__(self, doors: Doorkeeper) -> None:
        self.doors, self.seconds, self.was_waiting = doors, [0.0, None][:0], False

    def settimeout(self, seconds: float | None) -> None:
        self.seconds.append(seconds)

    def do_handshake(self) -> None:
        self.was_waiting = id(self) in self.doors._waiting

    def getpeercert(self) -> dict[str, Any]:
        return {"subject": ((("commonName", "north"),),)}


def test_a_handshake_is_noted_while_it_lasts() -> None:
    doors = Doorkeeper(Refusals())
    connection = Handshake(doors)
    assert doors.admit(connection, ("10.0.0.1", 1)) == "north"
    assert connection.was_waiting
    assert connection.seconds == [listener.HANDSHAKE_SECONDS, None]
    assert not doors._waiting
    doors.release("north")
    assert not doors._held, "whoever is gone is forgotten"


def test_a_handshake_that_was_ended_for_others_is_forgotten_already() -> None:
    doors = Doorkeeper(Refusals())

    class Ended(Handshake):
        def do_handshake(self) -> None:
            doors._waiting.clear()
            raise ConnectionResetError

    assert doors.admit(Ended(doors), ADDRESS) is None


@pytest.fixture
def locked() -> Doorkeeper:
    """A doorkeeper whose tables are changed under its lock alone."""
    doors = Doorkeeper(Refusals())

    def check() -> None:
        assert doors._lock.locked()

    class Held(Counter[str]):
        def __setitem__(self, key: str, value: int) -> None:
            check()
            super().__setitem__(key, value)

    class Waiting(OrderedDict[int, Any]):
        def __setitem__(self, key: int, value: object) -> None:
            check()
            super().__setitem__(key, value)

        def pop(self, *given: Any) -> Any:  # type: ignore[override]
            check()
            return super().pop(*given)

    doors._held, doors._waiting = Held(), Waiting()
    return doors


def test_tables_change_under_their_lock_alone(locked: Doorkeeper) -> None:
    assert locked.admit(Handshake(locked), ("10.0.0.1", 1)) == "north"
    locked.release("north")
    refusals = Refusals()

    class Last(dict[tuple[str, str], float]):
        def __setitem__(self, key: tuple[str, str], value: float) -> None:
            assert refusals._lock.locked()
            super().__setitem__(key, value)

    refusals._last = Last()
    refusals.add("north", "too much")


def test_addresses_that_are_none() -> None:
    assert listener._host(("10.0.0.1", 1)) == "10.0.0.1"
    assert listener._host(()) == listener._host("") == listener._host("socket") == "this machine"


def test_nobody_has_no_name() -> None:
    with pytest.raises(ValueError, match="without a name"):
        listener.common_name(None)
