"""Forgets finished streams in one thread, and makes them small until then.

FLARE remembers a message that it received for as long as its sender may send parts of it again,
about a minute, and starts a thread for each of them that does nothing but wait. Short rounds made
thousands of such threads. Here one thread forgets all of them, in the order of their times.

All that is needed in that minute is an acknowledgement for a part that comes twice. FLARE keeps
13 kB for it: headers, queues, locks. At 27 rounds a second of three platforms that was 80 MB, and
memory rose and fell with the pace of rounds. What nobody needs any more is let go when the message
has been read.
"""

import heapq
import itertools
import logging
import threading
import time
from functools import cache
from typing import Any

_KEPT_HEADERS = ("STREAM_REQ_ID", "OPTIONAL")  # an error that comes late is answered with them


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
        """Begin to wait; a stream that is to be forgotten gets small as soon as it was read."""
        task: Any = getattr(self._callback, "__self__", None)
        if getattr(task, "completed", False) and task.stream_future is not None:
            task.stream_future.add_done_callback(_make_small, task)
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


def _make_small(task: Any) -> None:
    """Let go of all that a stream held while it was read; who reads it holds what was read."""
    from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey

    if task.failed or not task.eos:
        return
    task.stream_future = _read_future()
    task.waiter = task.stream_future.waiter
    task.chunks = ()
    kept = [getattr(StreamHeaderKey, name) for name in _KEPT_HEADERS]
    task.headers = {key: task.headers[key] for key in kept if key in (task.headers or {})}


@cache
def _read_future() -> Any:
    """Return what stands for the future of every stream that was read: done, and empty."""
    from nvflare.fuel.f3.streaming.stream_types import StreamFuture

    future = StreamFuture(0)
    future.set_result(None)
    return future


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
