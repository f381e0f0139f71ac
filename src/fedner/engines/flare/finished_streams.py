"""Forgets finished streams in one thread.

FLARE remembers a message that it received for as long as its sender may send parts of it again,
about a minute, and starts a thread for each of them that does nothing but wait. Short rounds made
thousands of such threads. Here one thread forgets all of them, in the order of their times.
"""

import heapq
import itertools
import logging
import threading
import time
from typing import Any


class Forgetting:
    """Calls back at given times, from one thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, Due]] = []
        self._thread: threading.Thread | None = None

    def add(self, due: "Due", seconds: float) -> None:
        """Call back after so many seconds, unless it is cancelled before."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), due))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="fedner-forget", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            self._next().call()

    def _next(self) -> "Due":
        """Wait for the earliest one."""
        with self._changed:
            while not self._due or self._due[0][0] > time.monotonic():
                left = self._due[0][0] - time.monotonic() if self._due else None
                self._changed.wait(left)
            return heapq.heappop(self._due)[2]


class Due:
    """Stands for `threading.Timer` where FLARE makes one: `start` and `cancel`."""

    def __init__(self, forgetting: Forgetting, seconds: float, callback: Any) -> None:
        self.daemon = True
        self._forgetting, self._seconds = forgetting, seconds
        self._callback: Any = callback

    def start(self) -> None:
        """Begin to wait."""
        self._forgetting.add(self, self._seconds)

    def cancel(self) -> None:
        """Call nothing; what the call would need is let go."""
        self._callback = None

    def call(self) -> None:
        """Call back; what goes wrong concerns this stream alone, and is logged."""
        callback, self._callback = self._callback, None
        if callback is None:
            return
        try:
            callback()
        except Exception:
            logging.getLogger(__name__).exception("a finished stream was not forgotten")


class _Threading:
    """The module `threading` as `byte_receiver` sees it: another `Timer`, all else as it is."""

    def __init__(self, forgetting: Forgetting) -> None:
        self._forgetting = forgetting

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)

    def Timer(self, seconds: float, callback: Any) -> Due:  # noqa: N802 - the name in `threading`
        """Return what waits without a thread of its own."""
        return Due(self._forgetting, seconds, callback)


def install() -> None:
    """Let one thread forget the finished streams of this process."""
    from nvflare.fuel.f3.streaming import byte_receiver

    if byte_receiver.threading is threading:
        byte_receiver.threading = _Threading(Forgetting())
