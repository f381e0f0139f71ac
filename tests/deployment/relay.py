"""A TCP relay between a platform and its server, whose network can be made bad; and namespaces.

A namespace of its own has a loopback interface and nothing else: what runs there reaches the
server through the relay's port or not at all.
"""

import contextlib
import ctypes
import select
import shutil
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_CHUNK = 65536
_POLL_SECONDS = 0.01
_ROOM = 2**18  # bytes that lie in the relay, each way, as in a router's queue
T = TypeVar("T")


class Namespace:
    """A network namespace, in which functions are called; the machine's own where not allowed."""

    def __init__(self) -> None:
        self.is_apart = False
        self._thread = ThreadPoolExecutor(1, "namespace", self._enter)
        self._thread.submit(bool).result()

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if shutil.which("ip") is None or libc.unshare(_NEW_NETWORK) != 0:
            return  # not allowed: everything happens on the machine's own loopback
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.is_apart = True

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function in the namespace; processes that it starts live there."""
        return self._thread.submit(function, *arguments).result()

    def close(self) -> None:
        self._thread.shutdown()


@dataclass
class Network:
    """How bad the network is; changed while it runs.

    Attributes:
        delay: Seconds that every byte travels, each way.
        rate: Bytes in a second, each way; None for as many as there are.
        is_cut: Whether connections are ended, and new ones refused.
    """

    delay: float = 0.0
    rate: float | None = None
    is_cut: bool = False


@dataclass
class _Way:
    """One direction of a connection."""

    source: socket.socket
    target: socket.socket
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)
    size: int = 0
    due: float = 0.0


class Relay:
    """Carries connections from a port to another port."""

    def __init__(self, target: int, namespace: Namespace) -> None:
        self.network = Network()
        self._target = target
        self._listener = namespace.call(socket.create_server, ("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._forgotten: set[int] = set()
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """End all connections, and refuse new ones until `heal`."""
        self.network.is_cut = True
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for each in (end for pair in pairs for end in pair):
            _shut(each)

    def heal(self) -> None:
        self.network.is_cut = False

    def forget(self) -> int:
        """Lose whatever is sent on today's connections and tell nobody; new ones are fine."""
        with self._lock:
            self._forgotten |= {id(end) for pair in self._pairs for end in pair}
            return len(self._pairs)

    def close(self) -> None:
        self._is_closed.set()
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            if self.network.is_cut:
                _shut(inner)
                continue
            try:
                outer = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                _shut(inner)
                continue
            with self._lock:
                self._pairs.append((inner, outer))
            threading.Thread(target=self._carry, args=(inner, outer), daemon=True).start()

    def _carry(self, inner: socket.socket, outer: socket.socket) -> None:
        ways = (_Way(inner, outer), _Way(outer, inner))
        try:
            while not self._is_closed.is_set():
                self._read(ways)
                for way in ways:
                    self._write(way)
        except (OSError, ValueError):
            pass
        finally:
            _shut(inner)
            _shut(outer)
            with self._lock:
                self._pairs = [pair for pair in self._pairs if pair[0] is not inner]

    def _read(self, ways: tuple[_Way, _Way]) -> None:
        open_ = [way.source for way in ways if way.size < _ROOM]
        ready, _, _ = select.select(open_, [], [], _POLL_SECONDS)
        for way in ways:
            if way.source not in ready:
                continue
            data = way.source.recv(_CHUNK)
            if not data:
                raise ConnectionResetError
            if id(way.source) in self._forgotten:
                continue
            now, rate = time.monotonic(), self.network.rate
            way.due = max(way.due, now) + (len(data) / rate if rate else 0.0)
            way.waiting.append((way.due + self.network.delay, data))
            way.size += len(data)

    @staticmethod
    def _write(way: _Way) -> None:
        while way.waiting and way.waiting[0][0] <= time.monotonic():
            _, data = way.waiting.popleft()
            way.size -= len(data)
            way.target.sendall(data)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
