"""One connection of a browser: how long it may take, and how many there may be at a time.

uvicorn waits for ever for a request that comes byte by byte, and for a client that reads nothing.
Here every phase has an end: headers that are not complete in time get 408, a request that is not
over in time loses its connection. It also says in fedner's own words that a request is no HTTP.
"""

import asyncio
import json
from typing import Any, Final

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from fedner.inference.service.answers import ServiceError, error_answer

_LINGER_SECONDS: Final = 1.0
_NO_HTTP: Final = ("the request is no HTTP/1.1 that fedner understands", "Send plain HTTP/1.1.")
_TOO_SLOW: Final = ("the request did not arrive in time", "Send it at once.")
TOO_MANY: Final = ServiceError(
    503,
    "too many connections at a time",
    "Try again in a moment.",
    {"Retry-After": "1", "Connection": "close"},
)


async def _refuse(scope: Any, receive: Any, send: Any) -> None:
    """Answer that there are too many connections."""
    await error_answer(TOO_MANY)(scope, receive, send)


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, with an end to everything; `bounded` makes one of given bounds."""

    header_seconds: float = 10.0
    total_seconds: float = 60.0
    most_connections: int = 512

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are far too many."""
        super().connection_made(transport)
        if len(self.connections) > 2 * self.most_connections:
            transport.abort()
        elif len(self.connections) > self.most_connections:
            self.app = _refuse
        self._end_after(self.header_seconds)

    def data_received(self, data: bytes) -> None:
        """Take some bytes; whoever begins a request has to come to its end."""
        if self._end is None and not self._is_at_work:
            self._end_after(self.header_seconds)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before and self._is_at_work:
            self._end_after(self.total_seconds)

    def on_response_complete(self) -> None:
        """Go on to the next request, where one has arrived already."""
        self._end_after(None)
        super().on_response_complete()
        if self._is_at_work:
            self._end_after(self.total_seconds)
        elif self.conn.trailing_data[0]:  # the beginning of the next request
            self._unset_keepalive_if_required()
            self._end_after(self.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._end_after(None)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words
        """Answer that this is no HTTP."""
        self._say(400, *_NO_HTTP)

    @property
    def _is_at_work(self) -> bool:
        cycle: Any = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _end_after(self, seconds: float | None) -> None:
        """Begin to count, or stop counting."""
        if self._end is not None:
            self._end.cancel()
        self._end = None if seconds is None else self.loop.call_later(seconds, self._over)

    def _over(self) -> None:
        """End a connection whose time is over."""
        if self._is_at_work or self.transport.is_closing():
            self.transport.abort()
        else:
            self._say(408, *_TOO_SLOW)

    def _say(self, status: int, error: str, hint: str) -> None:
        """Answer without the application, and close."""
        body = json.dumps({"error": error, "hint": hint}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        try:
            events = (
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            )
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # an answer is on its way already
            self.transport.abort()
            return
        self.transport.close()
        self._end = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)


def bounded(
    *, header_seconds: float, total_seconds: float, most_connections: int
) -> type[BoundedProtocol]:
    """Return the protocol with its bounds."""
    bounds = {
        "header_seconds": header_seconds,
        "total_seconds": total_seconds,
        "most_connections": most_connections,
    }
    return type("BoundedProtocol", (BoundedProtocol,), bounds)
