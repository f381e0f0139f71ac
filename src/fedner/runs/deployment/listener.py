"""The server's open port: who may stay connected, and in whose name members write.

FLARE's listener does a TLS handshake before it accepts the next connection, so that one silent
stranger keeps out everybody; refused handshakes are not logged; nothing bounds how many
connections one member holds, or how large a frame it announces; and a member may write in the
name of another. Here

- handshakes are done beside each other, within `HANDSHAKE_SECONDS`; of too many, the oldest ends;
- a member holds at most `CONNECTIONS` connections, and a frame has at most `FRAME_BYTES`;
- connections whose other end is gone are ended, by the kernel (`keep_alive`) or where no frame
  came for `LIFE_SECONDS` although FLARE's pings were sent (somebody between forgot them);
- a member writes in its own name, and to the server alone;
- whoever is refused is logged: by the name in the certificate, else by address.

`install` hooks into FLARE before the server listens, `install_caller` before anybody connects to
it. tests/engines/flare/test_flare_contract.py tells if a release moves those places.
"""

import logging
import socket
import ssl
import threading
import time
from collections import Counter, OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

HANDSHAKE_SECONDS = 10.0
HANDSHAKES = 200  # under way at a time; FLARE waits with select(), which ends at 1,024 files
BACKLOG = 128  # connections that wait to be accepted; FLARE has 5
CONNECTIONS = 32  # of one member; a platform has one for itself and one for each job
FRAME_BYTES = 2**26  # FLARE cuts messages into frames of 1 MB
PING_SECONDS = 5  # without a frame, before FLARE's ping is sent; FLARE looks every 5 s
LIFE_SECONDS = 25.0  # without a frame from the other end
JOB_LIFE_SECONDS = 120.0  # the same of a job's process, which is silent while it builds its model
_KEEPALIVE = (
    ("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 20_000),
)  # fmt: skip
_SILENCE = 60.0  # seconds in which the same refusal is not logged again
_MOST_KINDS = 1000
_SERVER = "server"
_LEFT = "UNEXPECTED_EOF_WHILE_READING"
_REASONS = {"PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate"}
_log = logging.getLogger(__name__)


class Refusals:
    """Logs who was refused and why; each kind once a minute, with how often it came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], float] = {}
        self._held_back: Counter[tuple[str, str]] = Counter()

    def add(self, who: str, why: str) -> None:
        """Log a refusal.

        Args:
            who: The name in the certificate, or the address of somebody without one.
            why: What was wrong.
        """
        kind, now = (who, why), time.monotonic()
        with self._lock:
            if now - self._last.get(kind, -_SILENCE) < _SILENCE:
                self._held_back[kind] += 1
                return
            if len(self._last) >= _MOST_KINDS:
                self._last = {k: at for k, at in self._last.items() if now - at < _SILENCE}
            if len(self._last) >= _MOST_KINDS:
                return
            self._last[kind] = now
            more = self._held_back.pop(kind, 0)
        again = f" ({more:,} more since it was last said)" if more else ""
        _log.warning("refused %s: %s%s", who, why, again)


class Doorkeeper:
    """Decides which connections stay."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, socket.socket] = OrderedDict()
        self._held: Counter[str] = Counter()

    def admit(self, connection: Any, address: Any) -> str | None:
        """Do the TLS handshake of a connection; return the member's name, or None to close it."""
        who = f"a connection from {_host(address)}"
        self._wait(connection)
        try:
            connection.settimeout(HANDSHAKE_SECONDS)
            connection.do_handshake()
            connection.settimeout(None)
            name = common_name(connection.getpeercert())
        except (OSError, ValueError) as error:  # SSLError and TimeoutError among them
            if (why := _reason(error)) is not None:
                self._refusals.add(who, why)
            return None
        finally:
            with self._lock:
                self._waiting.pop(id(connection), None)
        return self._hold(name)

    def release(self, name: str) -> None:
        """Forget a connection of a member."""
        with self._lock:
            self._held[name] -= 1
            if not self._held[name]:
                del self._held[name]

    def _wait(self, connection: Any) -> None:
        """Note a handshake that begins; of too many the oldest is ended."""
        with self._lock:
            self._waiting[id(connection)] = connection
            oldest = None
            if len(self._waiting) > HANDSHAKES:
                _, oldest = self._waiting.popitem(last=False)
        if oldest is not None:
            _end(oldest)

    def _hold(self, name: str) -> str | None:
        with self._lock:
            if self._held[name] < CONNECTIONS:
                self._held[name] += 1
                return name
        self._refusals.add(name, f"it has {CONNECTIONS} connections already")
        return None


def _end(connection: Any) -> None:
    """End a connection on which another thread waits."""
    try:
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        return  # it has ended


def _host(address: Any) -> str:
    return str(address[0]) if isinstance(address, tuple) and address else "this machine"


def _reason(error: Exception) -> str | None:
    """Return why a handshake failed; None where the other end just left."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return f"no TLS handshake within {HANDSHAKE_SECONDS:.0f} s"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or _LEFT
        told = _REASONS.get(reason, f"no TLS handshake: {reason.replace('_', ' ').lower()}")
        return None if reason == _LEFT else told
    return None if isinstance(error, OSError) else f"no TLS handshake: {error}"


def common_name(certificate: Any) -> str:
    """Return the name in a certificate.

    Raises:
        ValueError: It has none.
    """
    for part in (certificate or {}).get("subject", ()):
        for key, value in part:
            if key == "commonName" and value:
                return str(value)
    raise ValueError("a certificate without a name")


def keep_alive(connection: Any) -> None:
    """Let the kernel end a connection whose other end is gone, however quiet it is."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        if hasattr(socket, option):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def foreign(headers: Any, member: str) -> str | None:
    """Return what is wrong with a message that a member sent to the server; None for nothing.

    Args:
        headers: Those of the message.
        member: The cell at the other end, whose name FLARE has compared with its certificate.
    """
    root = member.split(".", maxsplit=1)[0]
    origin, destination = headers.get("cn__origin"), headers.get("cn__destination")
    if not _is_of(origin, root):
        return f"it writes in the name of {_shown(origin)}"
    if not _is_of(destination, _SERVER):
        return f"it writes to {_shown(destination)}"
    return None


def _is_of(name: object, root: str) -> bool:
    return isinstance(name, str) and (name == root or name.startswith(f"{root}."))


def _shown(name: object) -> str:
    """Return a name that somebody else wrote, fit for one line of a log."""
    return ascii(name)[:60] if isinstance(name, str) else "nobody"


def install(refusals: Refusals | None = None) -> None:
    """Guard the listener of this process; once is enough."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
    from nvflare.fuel.f3.drivers.tcp_driver import TcpStreamServer

    if getattr(TcpStreamServer.finish_request, "is_guarded", False):
        return
    refusals = refusals or Refusals()
    install_caller()
    _guard_handshakes(TcpStreamServer, Doorkeeper(refusals))
    _guard_frames(SocketConnection, refusals)
    _guard_names(CoreCell, refusals)


def install_caller() -> None:
    """Let no connection of this process hang for ever, neither when it begins nor later."""
    from nvflare.fuel.f3.drivers import tcp_driver
    from nvflare.fuel.f3.drivers.socket_conn import SocketConnection

    refusals = Refusals()
    begin, context_of = SocketConnection.__init__, tcp_driver.get_ssl_context
    if getattr(begin, "is_guarded", False):
        return

    def begin_guarded(self: Any, sock: Any, *args: Any, **kwargs: Any) -> None:
        sock.settimeout(None)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            keep_alive(sock)
        begin(self, sock, *args, **kwargs)

    def timed_context_of(params: Any, ssl_server: bool) -> Any:
        context = context_of(params, ssl_server=ssl_server)
        return context if context is None or ssl_server else _TimedContext(context, refusals)

    begin_guarded.is_guarded = True  # type: ignore[attr-defined]
    _guard_life(refusals)
    SocketConnection.__init__ = begin_guarded
    tcp_driver.get_ssl_context = timed_context_of


def _guard_life(refusals: Refusals) -> None:
    """Let FLARE's pings end the connections on which nothing comes back."""
    from nvflare.fuel.f3.sfm.heartbeat_monitor import HeartbeatMonitor

    check = HeartbeatMonitor._check_heartbeat
    silences = Silences()

    def check_guarded(self: Any) -> None:
        self.interval = PING_SECONDS
        for connection in list(self.conns.values()):
            if silences.is_dead(connection, time.monotonic()):
                who = f"the connection of {_peer(connection) or 'somebody without a name'}"
                refusals.add(who, "nothing came for too long")
                connection.conn.close()
        check(self)

    HeartbeatMonitor._check_heartbeat = check_guarded


class Silences:
    """Knows how long nothing came on each connection; a clock that is set changes nothing."""

    def __init__(self) -> None:
        self._since: WeakKeyDictionary[Any, tuple[float, float]] = WeakKeyDictionary()

    def is_dead(self, connection: Any, now: float) -> bool:
        """Whether a connection has been silent for too long.

        Args:
            connection: FLARE's record of it.
            now: Seconds, of a clock that nobody sets.
        """
        last, since = self._since.get(connection, (None, now))
        if last != connection.last_activity:
            since = now
            self._since[connection] = connection.last_activity, now
        limit = JOB_LIFE_SECONDS if "." in _peer(connection) else LIFE_SECONDS
        return now - since > limit


def _peer(connection: Any) -> str:
    """Return the cell at the other end; empty before it has said its name."""
    held = connection.sfm_endpoint
    return "" if held is None else str(held.endpoint.name)


class _TimedContext:
    """A TLS context whose connections give up where nobody answers, and say who is no server."""

    def __init__(self, context: ssl.SSLContext, refusals: Refusals) -> None:
        self._context, self._refusals = context, refusals

    def wrap_socket(self, connection: socket.socket) -> ssl.SSLSocket:
        """Return the connection, which is limited until it stands."""
        connection.settimeout(HANDSHAKE_SECONDS)
        wrapped = self._context.wrap_socket(connection)
        connect = wrapped.connect

        def connect_told(address: Any) -> None:
            try:
                connect(address)
            except ssl.SSLError as error:
                who = f"whoever answers at {_host(address)} as the federation's server"
                if (why := _reason(error)) is not None:
                    self._refusals.add(who, why)
                raise

        wrapped.connect = connect_told  # type: ignore[method-assign, assignment]
        return wrapped


def _guard_handshakes(servers: Any, doorkeeper: Doorkeeper) -> None:
    begin, finish = servers.__init__, servers.finish_request

    def begin_guarded(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if self.ssl_context:
            self.socket.do_handshake_on_connect = False  # not in the thread that accepts

    def finish_guarded(self: Any, request: Any, address: Any) -> None:
        if not self.ssl_context:
            finish(self, request, address)
        elif (name := doorkeeper.admit(request, address)) is not None:
            try:
                finish(self, request, address)
            finally:
                doorkeeper.release(name)

    finish_guarded.is_guarded = True  # type: ignore[attr-defined]
    servers.__init__, servers.finish_request = begin_guarded, finish_guarded
    servers.daemon_threads = True
    servers.request_queue_size = BACKLOG


def _guard_frames(connections: Any, refusals: Refusals) -> None:
    """Let a frame of a member have a sound length, and say so where it has not."""
    from nvflare.fuel.f3.comm_error import CommError
    from nvflare.fuel.f3.drivers import socket_conn

    socket_conn.MAX_FRAME_SIZE = FRAME_BYTES
    read = connections.read_frame

    def read_guarded(self: Any) -> Any:
        try:
            return read(self)
        except CommError as error:
            if error.code == CommError.BAD_DATA:
                name = self.conn_props.get("peer_cn") or "a process of this machine"
                refusals.add(name, f"a frame that is too large, or too small: {error}")
            raise

    connections.read_frame = read_guarded


def _guard_names(cells: Any, refusals: Refusals) -> None:
    """Drop messages of members that are in another's name, or for others than the server."""
    receive = cells._process_received_msg

    def receive_guarded(self: Any, endpoint: Any, connection: Any, message: Any) -> Any:
        if self.my_info.fqcn == _SERVER and _is_outside(connection):
            problem = foreign(message.headers or {}, endpoint.name)
            if problem is not None:
                refusals.add(endpoint.name, problem)
                return None
        return receive(self, endpoint, connection, message)

    cells._process_received_msg = receive_guarded


def _is_outside(connection: Any) -> bool:
    """Whether a connection came over mutual TLS: the server's own processes show nothing."""
    return bool(connection and connection.get_conn_properties().get("peer_cn"))
