"""Whom the service listens to, with which token, and how much it takes.

Guarantee: beyond this machine, and under any name but this machine's own, nothing is served without
a token. Tokens are compared in constant time and never shown.
"""

import hashlib
import hmac
import ipaddress
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers

from fedner.errors import FednerError

TOKEN_VARIABLE: Final = "FEDNER_SERVICE_TOKEN"
LEAST_TOKEN: Final = 16
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_MAKE_ONE: Final = "Make one with: openssl rand -hex 32 > token && chmod 600 token"


@dataclass(frozen=True, slots=True)
class Token:
    """What whoever asks has to know.

    Attributes:
        secret: The token; never shown.
    """

    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) < LEAST_TOKEN or not self.secret.isascii() or " " in self.secret:
            raise FednerError(
                f"the token has {len(self.secret)} characters; expected at least {LEAST_TOKEN} "
                "ASCII letters, digits and signs, without blanks",
                _MAKE_ONE,
            )

    def fits(self, headers: Headers) -> bool:
        """Whether a request carries the token, compared in constant time."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        # Digests have the same length: not even that of the token shows.
        own, other = (
            hashlib.sha256(each.encode("utf-8", "surrogateescape")).digest()
            for each in (self.secret, given.strip())
        )
        return hmac.compare_digest(own, other) and kind.lower() == "bearer"


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Where a service listens and what it takes.

    Attributes:
        host: The address; loopback unless a token is set.
        port: The port; 0 takes a free one.
        token: What every request for data has to carry; None asks for none.
        names: Further host names it goes by, such as that of a reverse proxy.
        most_bytes: The size of a request's body.
        header_seconds: How long a request's headers may take.
        body_seconds: How long its body may take.
        work_seconds: How long an answer may be worked on.
        most_connections: Connections at a time; more are answered with 503.
        stop_seconds: How long requests that have begun may go on after the service is stopped.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    token: Token | None = None
    names: tuple[str, ...] = ()
    most_bytes: int = 1 << 20
    header_seconds: float = 10.0
    body_seconds: float = 10.0
    work_seconds: float = 30.0
    most_connections: int = 512
    stop_seconds: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(name.lower() for name in self.names))
        if self.token is not None:
            return
        where = "" if is_loopback(self.host) else f"{self.host} is open to other machines"
        if self.names:
            where = f"{', '.join(self.names)} is a name for other machines"
        if where:
            raise FednerError(
                f"{where}, and there is no token",
                f"Name one with --token-file or {TOKEN_VARIABLE}. {_MAKE_ONE}",
            )

    @property
    def is_open(self) -> bool:
        """Whether other machines reach it directly."""
        return not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path | None, environment: Mapping[str, str] = os.environ) -> Token | None:
    """Return the token in a file, else the one in the environment, if there is any.

    Raises:
        FednerError: The file cannot be read, others may read it, or it holds no good token.
    """
    if path is None:
        held = environment.get(TOKEN_VARIABLE, "").strip()
        return Token(held) if held else None
    try:
        mode = path.stat().st_mode
        words = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise FednerError(f"{path}: the token cannot be read: {reason}", _MAKE_ONE) from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FednerError(
            f"{path}: found mode {stat.S_IMODE(mode):04o}; expected a token that only its owner "
            "may read",
            f"chmod 600 {path}, and make another token if somebody may have read this one.",
        )
    return Token(words)
