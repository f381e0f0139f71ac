"""A local web server for the pages of fedner: made, run and stopped.

`application` puts the guard before some routes, `listen` opens the port, and `run` serves until
SIGTERM or Ctrl-C, when requests that have begun are finished. Pages are plain files of the package.
A token lives in the page: scripts take it from the `#token=...` of the address, or from the form,
and send it as a header; it is in no address that reaches the server.
"""

import hashlib
import logging
import mimetypes
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp
from uvicorn import Config, Server

from fedner.errors import FednerError
from fedner.inference.service.answers import ServiceError, error_answer
from fedner.inference.service.connections import bounded
from fedner.inference.service.guard import Guard, unexpected
from fedner.inference.service.settings import WebSettings

__all__ = ["application", "listen", "local_server", "page_routes", "run"]

_STATUS_WORDS = {404: "there is no such page", 405: "the path does not take this method"}
_DOCS = "/docs"
# Besides writing the answer: after it no connection of a request is left.
_SECONDS_TO_SEND = 20.0


def application(
    routes: Sequence[BaseRoute], settings: WebSettings, open_paths: Sequence[str] = ()
) -> ASGIApp:
    """Return routes behind the guard.

    Args:
        routes: The pages and data.
        settings: Whom they are for.
        open_paths: What is served without the token: pages that hold no data.
    """
    handlers: Any = {HTTPException: _on_status, ServiceError: _on_problem, Exception: _on_error}
    inner = Starlette(routes=list(routes), exception_handlers=handlers)
    return Guard(inner, routes, frozenset(open_paths), settings)


def page_routes(package: str, prefix: str = "/static") -> list[Route]:
    """Return a route for every file of a package's folder, read once.

    index.html is served at "/", any other NAME.html at "/NAME".

    Args:
        package: The package that holds the files.
        prefix: Where all others are served.
    """
    routes = []
    for each in sorted(files(package).iterdir(), key=lambda file: file.name):
        if each.is_file() and not each.name.endswith((".py", ".pyc")):
            stem, _, kind = each.name.rpartition(".")
            path = (
                f"/{'' if stem == 'index' else stem}" if kind == "html" else f"{prefix}/{each.name}"
            )
            routes.append(Route(path, _file(each.name, each.read_bytes()), methods=["GET"]))
    return routes


def _file(name: str, data: bytes) -> Callable[[Request], Awaitable[Response]]:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'

    async def answer(request: Request) -> Response:
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)

    return answer


async def _on_problem(_: Request, problem: ServiceError) -> Response:
    return error_answer(problem)


async def _on_error(_: Request, __: Exception) -> Response:
    return error_answer(unexpected())  # the guard gets the error as well, and notes where it was


async def _on_status(request: Request, error: HTTPException) -> Response:
    words = _STATUS_WORDS.get(error.status_code, "the request cannot be answered")
    has_docs = any(getattr(each, "path", "") == _DOCS for each in request.app.routes)
    hint = f"GET {_DOCS} lists what there is." if has_docs else "The page itself is at /."
    return error_answer(ServiceError(error.status_code, words, hint, error.headers))


def listen(settings: WebSettings) -> socket.socket:
    """Open the port, so that a taken one is said before a model is loaded.

    Raises:
        FednerError: The port is taken, or there is no such address.
    """
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
        family, _, _, _, place = found[0]
        listening = socket.create_server(place[:2], family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FednerError(
            f"{settings.host} port {settings.port} cannot be opened: {reason}",
            "Name another with --port, or an address of this machine with --host.",
        ) from error
    # Connections inherit it. asyncio does not see that these are TCP; without it an answer, whose
    # head and body are written one by one, now and then waits 40 ms for the client's receipt.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket, host: str) -> str:
    """Return the address of the page."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}/"


class _Server(Server):
    """uvicorn's server, which ends well when it is told to stop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM and Ctrl-C; a second Ctrl-C does not wait for requests."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        kinds = (signal.SIGINT, signal.SIGTERM)
        before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def _server(app: ASGIApp, settings: WebSettings) -> _Server:
    protocol = bounded(
        header_seconds=settings.header_seconds,
        total_seconds=settings.body_seconds + settings.work_seconds + _SECONDS_TO_SEND,
        most_connections=settings.most_connections,
    )
    # Its own log has traces of errors; ours says what happened without any text.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    return _Server(
        Config(
            app,
            loop="asyncio",
            http=protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=settings.stop_seconds,
        )
    )


def run(app: ASGIApp, settings: WebSettings, listening: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    _server(app, settings).run([listening])


@contextmanager
def local_server(app: ASGIApp, settings: WebSettings) -> Iterator[str]:
    """Serve in a thread, for tests and notebooks; yields the address of the page."""
    with listen(settings) as listening:
        server = _server(app, settings)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield address_of(listening, settings.host)
        finally:
            server.should_exit = True
            thread.join(settings.stop_seconds + 5)
