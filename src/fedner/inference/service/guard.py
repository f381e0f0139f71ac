"""What stands before every page of the service: who may ask, how much, how long, and what is noted.

In this order: the Host and Origin of a request (against DNS rebinding and other sites), its token,
its body's size and time. Every answer gets the headers that keep a browser from loading or showing
anything foreign. The log has method, path, status and milliseconds; a path that is none of ours is
not repeated, for people paste texts into the wrong place.
"""

import asyncio
import ipaddress
import logging
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedner.inference.service.answers import ServiceError, error_answer
from fedner.inference.service.settings import LOOPBACK_NAMES, WebSettings

LOG = logging.getLogger("fedner.service")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_METHODS: Final = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
# So much of a body that is too large is read and dropped: else the client sees no answer.
_MOST_DROPPED: Final = 1 << 23
_DROP_SECONDS: Final = 1.0
OTHER_PATH: Final = "(other path)"


@dataclass(frozen=True, slots=True)
class Guard:
    """An ASGI application before another one.

    Attributes:
        app: The application.
        routes: Its routes; others are not named in the log.
        open_paths: What needs no token: pages without anything of a model or a run.
        settings: Whom it serves, and how much.
    """

    app: ASGIApp
    routes: Sequence[BaseRoute]
    open_paths: frozenset[str]
    settings: WebSettings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        begun = time.perf_counter()
        exchange = _Exchange(send, receive)
        try:
            await self._serve(scope, receive, exchange)
        except ServiceError as problem:
            await exchange.refuse(problem, scope, receive)
        except Exception as error:  # noqa: BLE001 - the service goes on, and its log has no text
            LOG.error("%s", _without_words(error))
            await exchange.refuse(unexpected(), scope, receive)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "(other method)"
            milliseconds = 1000 * (time.perf_counter() - begun)
            path = self._known_path(scope)
            LOG.info("%s %s %d %.0f ms", method, path, exchange.status, milliseconds)

    async def _serve(self, scope: Scope, receive: Receive, exchange: "_Exchange") -> None:
        headers = Headers(scope=scope)
        check_host(headers, self.settings)
        token = self.settings.token
        if token is not None and scope["path"] not in self.open_paths and not token.fits(headers):
            raise _wrong_token()
        body = await _read_body(headers, receive, self.settings)
        exchange.has_body = True
        await self.app(scope, _replay(body, receive), exchange.send)

    def _known_path(self, scope: Scope) -> str:
        """Return the path of the route that a request is for."""
        for route in self.routes:
            if route.matches(scope)[0] is not Match.NONE:
                return str(getattr(route, "path", OTHER_PATH))
        return OTHER_PATH


class _Exchange:
    """What was read and answered so far; every answer gets the headers of security."""

    def __init__(self, send: Send, receive: Receive) -> None:
        self._send = send
        self._receive = receive
        self.status = 0
        self.has_body = False

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)

    async def refuse(self, problem: ServiceError, scope: Scope, receive: Receive) -> None:
        """Answer with a problem, unless another answer has begun."""
        if self.status:
            return
        is_settled = self.has_body or "Connection" in problem.headers
        if not is_settled and not await _drop(self._receive):
            problem.headers["Connection"] = "close"
        await error_answer(problem)(scope, receive, self.send)


def unexpected() -> ServiceError:
    """Return that an error of ours happened."""
    return ServiceError(
        500,
        "something is wrong in fedner itself",
        "The service goes on. Its log says where it happened.",
    )


def _wrong_token() -> ServiceError:
    return ServiceError(
        401,
        "the token is missing or wrong",
        "Send the header Authorization: Bearer TOKEN, or sign in on the page.",
        {"WWW-Authenticate": 'Bearer realm="fedner"'},
    )


def check_host(headers: Headers, settings: WebSettings) -> None:
    """Check that a request means this service, and comes from its own page.

    A page of another site can point its own name at this machine and so read from it; its requests
    then carry that name. Addresses in numbers cannot be pointed elsewhere.

    Raises:
        ServiceError: The name is not ours, or another site sent the request.
    """
    stated = headers.get("host")
    if stated is None:
        raise ServiceError(400, "the request names no host", "Send the header Host.")
    name = host_of(stated)
    if not (name in _names(settings) or _is_address(name)):
        raise ServiceError(
            421,
            "the host name of the request is not one of this service",
            "Use its address, or start it with --host-name NAME.",
        )
    origin = headers.get("origin")
    if origin is not None:
        place = origin.partition("://")[2]
        if place.lower() != stated.lower() and host_of(place) not in settings.names:
            raise ServiceError(
                403,
                "another site sent the request",
                "Use the service's own page, or a client that is not a browser.",
            )


def host_of(stated: str) -> str:
    """Return the name or address in `name:port`, without the port.

    >>> host_of("[::1]:8321"), host_of("Tagger.example.:443")
    ('::1', 'tagger.example')
    """
    if stated.startswith("["):
        return stated[1:].partition("]")[0].lower()
    return stated.partition(":")[0].lower().removesuffix(".")


def _names(settings: WebSettings) -> frozenset[str]:
    return frozenset({*LOOPBACK_NAMES, settings.host.lower(), *settings.names})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _read_body(headers: Headers, receive: Receive, settings: WebSettings) -> bytes:
    """Return the whole body of a request.

    Raises:
        ServiceError: It is too large, or did not arrive in time.
    """
    stated = headers.get("content-length", "0")
    is_large = int(stated) > settings.most_bytes if stated.isdecimal() else False
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            while not is_large:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ServiceError(400, "the client went away", "")
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                is_large = size > settings.most_bytes
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise ServiceError(
            408,
            f"the body did not arrive within {settings.body_seconds:g} seconds",
            "Send it at once.",
            {"Connection": "close"},
        ) from None
    if is_large:
        raise ServiceError(
            413,
            f"the body is larger than {settings.most_bytes:,} bytes",
            "Send one note at a time; `fedner predict` takes whole files.",
        )
    return b"".join(pieces)


async def _drop(receive: Receive) -> bool:
    """Read on for a moment and return whether the body is over.

    A client that is still sending does not look for an answer, and may never see it.
    """
    dropped = 0
    try:
        async with asyncio.timeout(_DROP_SECONDS):
            while dropped < _MOST_DROPPED:
                message = await receive()
                dropped += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return True
    except TimeoutError:
        pass
    return False


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return what gives the application the body that was read, once."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _without_words(error: BaseException) -> str:
    """Return the kind of an error and where it happened; its message may hold text."""
    frames: list[Any] = traceback.extract_tb(error.__traceback__)[-4:]
    places = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}"
