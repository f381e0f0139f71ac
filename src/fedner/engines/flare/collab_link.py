"""A link over FLARE's Collab: mutual TLS, and callers whose names FLARE has checked."""

from collections.abc import Sequence
from typing import Any

from fedner.engines.flare.engine import OK, StoppedError

_REST_SECONDS = 2.0


class CollabLink:
    """Calls one platform through its Collab proxy."""

    def __init__(self, proxy: Any) -> None:
        self._proxy = proxy

    def ask(self, data: bytes, timeout: float) -> tuple[str, bytes]:
        """Hand over an order; return a code and the reply.

        Raises:
            StoppedError: The job was stopped.
            TimeoutError: No reply in time.
            ConnectionError: Anything else; nothing that the platform said is in it.
        """
        reply = self._call("ask", timeout, data=data)
        if not isinstance(reply, (list, tuple)) or len(reply) != 2:
            return "", b""
        return reply[0], reply[1]

    def ping(self, timeout: float) -> None:
        """Come back if the platform is alive; without a connection to it this fails at once."""
        # FLARE says of an optional call at once that there is no connection, and gives None for an
        # answer; other calls it tries to send until their timeout, as it should an order.
        if self._call("ping", timeout, is_optional=True) != OK:
            raise ConnectionError

    def _call(
        self, method: str, timeout: float, *, is_optional: bool = False, **arguments: object
    ) -> object:
        from nvflare.collab.api.exceptions import CollabCallError, RunAborted

        try:
            return getattr(self._proxy(timeout=timeout, optional=is_optional), method)(**arguments)
        except RunAborted:
            raise StoppedError from None
        except CollabCallError as error:
            if isinstance(error.cause, TimeoutError):
                raise TimeoutError from None
            raise ConnectionError from None


def let_platforms_rest(proxies: Sequence[Any]) -> None:
    """Let platforms look less often for FLARE's own tasks: none comes once a job has begun."""
    for proxy in proxies[:1]:  # all share the server's runner
        proxy.backend.engine.server.server_runner.config.task_request_interval = _REST_SECONDS
