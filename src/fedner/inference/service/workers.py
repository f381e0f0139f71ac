"""The threads that do the work of a service: as many as processors, and a bounded queue.

Work never runs on the event loop, so a long note delays no other request's headers. Where the
queue is full, the answer is 503 at once: who waits for ever learns nothing.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from fedner.inference.service.answers import ServiceError

Result = TypeVar("Result")


class Workers:
    """Threads with a bounded queue; used from one event loop.

    Args:
        num_threads: How many requests are worked on at a time.
        most_waiting: How many more may wait.
        seconds: How long a request may take, waiting included.
    """

    def __init__(self, num_threads: int, most_waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="fedner-service")
        self._most = num_threads + most_waiting
        self._seconds = seconds
        self._num_taken = 0
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return what a function returns in a thread.

        Raises:
            ServiceError: The queue is full, or the work took too long.
        """
        if self._num_taken >= self._most:
            raise ServiceError(
                503,
                f"{self._most} requests are being worked on or wait: no more are taken",
                "Try again in a moment.",
                {"Retry-After": "1"},
            )
        with self._lock:
            self._num_taken += 1
        submitted = self._pool.submit(work)
        submitted.add_done_callback(self._done)  # also of work that nobody waits for any more
        try:
            return await asyncio.wait_for(asyncio.wrap_future(submitted), self._seconds)
        except TimeoutError:
            raise ServiceError(
                503,
                f"the answer was not found within {self._seconds:g} seconds",
                "Send a shorter text, or try again when the service is less busy.",
                {"Retry-After": "5"},
            ) from None

    def _done(self, submitted: "Future[Result]") -> None:  # noqa: ARG002 - its result is elsewhere
        with self._lock:
            self._num_taken -= 1

    def close(self) -> None:
        """End the threads; what waits is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
