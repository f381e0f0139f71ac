"""The engine across machines: orders and replies as bytes over links that can break.

A link calls one platform. While a reply is awaited the platform is pinged, so that one whose
process, machine or network ended is noticed within seconds, however long a round may take. It then
counts as gone until a ping comes through again.

A platform that reads its data and builds its model may be silent for a while, since Python answers
no ping meanwhile. Until its first work is done it is given longer. One whose pings fail at once has
no connection: it is given the time to make another one, and no more.
"""

import logging
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from fedner.engines.allocator import keep_freed_memory
from fedner.federated.message_bytes import reply_from_bytes, to_bytes
from fedner.federated.messages import Failure, Order, Reply, Verb, failure
from fedner.federated.tensor_bytes import NotFiniteError

OK = "ok"
PING_SECONDS = 1.5  # between two pings
PING_TIMEOUT = 2.0
GONE_SECONDS = 4.2  # without a sign of life
CUT_SECONDS = 3.0  # the same, without a connection
STARTING_SECONDS = 60.0  # without one, before the first work is done
_WORK: frozenset[Verb] = frozenset({"round", "sum", "evaluate", "finish"})
_FOR_EVER = 30 * 24 * 3600.0  # FLARE wants a number
_NEAR_END = 0.1
_PING_TRAVEL = 0.2
_THREADS_PER_PLATFORM = 8  # calls that hang until their timeout, beside the live one
_log = logging.getLogger(__name__)


class Link(Protocol):
    """Calls one platform; a call that fails raises, whatever the reason."""

    def ask(self, data: bytes, timeout: float) -> tuple[str, bytes]:
        """Hand over an order; return a code and the reply."""

    def ping(self, timeout: float) -> None:
        """Come back if the platform is alive."""


class StoppedError(Exception):
    """The job was stopped: nobody is to be asked any more."""


@dataclass(frozen=True, slots=True)
class _Came:
    """What a thread found out.

    Attributes:
        name: The platform.
        sequence: The call that it belongs to; 0 for a ping.
        data: The reply; None where there is none.
        code: Why there is none.
        error: What ends the whole run; None where only one platform is concerned.
        is_cut: Whether a ping failed at once, and not by silence.
    """

    name: str
    sequence: int
    data: bytes | None = None
    code: str = ""
    error: BaseException | None = None
    is_cut: bool = False


@dataclass(slots=True)
class _Pulse:
    """When a platform was last heard of, and whether a ping is under way.

    Attributes:
        heard: The last sign of life.
        is_pinged: Whether a ping is under way.
        pinged: When the last one was sent.
        is_gone: Whether it counts as gone.
        is_cut: Whether the last ping failed at once.
        has_worked: Whether it has done work in this job, so that it reads and builds no more.
    """

    heard: float
    is_pinged: bool = False
    pinged: float = 0.0
    is_gone: bool = False
    is_cut: bool = False
    has_worked: bool = False


@dataclass(slots=True)
class _Call:
    """One call of `ask`: who is awaited, and with what round."""

    sequence: int
    awaited: dict[str, int]
    end: float | None
    is_work: bool = False
    failed: list[Reply] = field(default_factory=list)


class FlareEngine:
    """The engine of a deployed federation; use it as a context manager, or close it."""

    def __init__(
        self,
        links: Mapping[str, Link],
        names: Sequence[str],
        *,
        ping_seconds: float = PING_SECONDS,
        gone_seconds: float = GONE_SECONDS,
        cut_seconds: float = CUT_SECONDS,
        starting_seconds: float = STARTING_SECONDS,
    ) -> None:
        """Make the engine.

        Args:
            links: The platforms that can be called.
            names: All platforms of the study; those without a link are gone from the beginning.
            ping_seconds: How long after a sign of life a platform that is awaited is pinged.
            gone_seconds: How long without any a platform counts as gone.
            cut_seconds: The same of one that has no connection.
            starting_seconds: The same of one that has not yet worked, and whose connection stands.
        """
        keep_freed_memory()
        self._links = dict(links)
        self._names = sorted(names)
        self._ping_seconds = ping_seconds
        self._gone_seconds = gone_seconds
        self._cut_seconds = min(cut_seconds, gone_seconds)
        self._starting_seconds = starting_seconds
        self._sequence = 0
        self._missing: dict[str, str] = {}
        self._awaited: Mapping[str, int] = {}
        self._came: queue.SimpleQueue[_Came] = queue.SimpleQueue()
        self._pulses = {name: _Pulse(time.monotonic()) for name in self._links}
        num_threads = max(1, len(self._links)) * _THREADS_PER_PLATFORM
        self._threads = ThreadPoolExecutor(num_threads, "fedner-ask")
        self._pings = ThreadPoolExecutor(max(1, len(self._links)), "fedner-ping")

    def __enter__(self) -> "FlareEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def platforms(self) -> Sequence[str]:
        """The platforms, sorted by name."""
        return self._names

    @property
    def missing(self) -> Mapping[str, str]:
        """Who did not answer the last order, and the code of the failure."""
        return self._missing

    @property
    def gone(self) -> Mapping[str, str]:
        """Who was there when the job began and is gone now, and the code of that failure."""
        return {name: "platform-gone" for name, pulse in self._pulses.items() if pulse.is_gone}

    @property
    def lost(self) -> Mapping[str, str]:
        """Who ended a job that was stopped: those who are gone, else those who fell silent.

        FLARE stops a whole job about two seconds after one platform's process has ended, which is
        before that platform counts as gone. One that is at work has answered a ping by then.
        """
        silent = time.monotonic() - self._ping_seconds - _PING_TRAVEL
        quiet = [name for name in self._awaited if self._pulses[name].heard < silent]
        cut = [name for name in quiet if self._pulses[name].is_cut]
        return self.gone or dict.fromkeys(sorted(cut or quiet), "platform-gone")

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        """Hand each platform its order, and give replies as they come.

        Raises:
            StoppedError: The job was stopped.
        """
        self._missing = {}
        for reply in self._asked(orders, timeout):
            if isinstance(reply, Failure):
                self._missing[reply.platform] = reply.code
            yield reply

    def _asked(self, orders: Mapping[str, Order], timeout: float | None) -> Iterator[Reply]:
        self._sequence += 1
        call = _Call(self._sequence, {}, None if timeout is None else time.monotonic() + timeout)
        self._awaited = call.awaited
        call.is_work = any(order.verb in _WORK for order in orders.values())
        self._send(call, orders, timeout)
        yield from call.failed
        while call.awaited:
            found = self._next(self._patience(call))
            if found is not None:
                yield from self._take(call, found)
            yield from self._give_up(call)

    def close(self) -> None:
        """Wait for nobody; may be called twice."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pings.shutdown(wait=False, cancel_futures=True)

    def _send(self, call: _Call, orders: Mapping[str, Order], timeout: float | None) -> None:
        """Start all calls; who cannot be called has failed already."""
        self._hear_late()
        forms: dict[int, bytes | None] = {}
        for name in sorted(orders):
            order = orders[name]
            if id(order) not in forms:
                forms[id(order)] = _bytes_of(order)
            data = forms[id(order)]
            if data is None:
                call.failed.append(failure(name, order.round, "order-refused"))
            elif name not in self._links or self._is_gone(name):
                call.failed.append(failure(name, order.round, "platform-gone"))
            else:
                self._pulses[name].heard = time.monotonic()
                call.awaited[name] = order.round
                limit = _FOR_EVER if timeout is None else timeout
                self._threads.submit(self._ask, name, call.sequence, data, limit)

    def _hear_late(self) -> None:
        """Take what came since the last call; before the first order is sent, or it would be lost.

        Raises:
            StoppedError: The job was stopped.
        """
        while not self._came.empty():
            self._hear(self._came.get_nowait())

    def _is_gone(self, name: str) -> bool:
        """Whether a platform is gone still; it is pinged again, for the next call."""
        pulse = self._pulses[name]
        if pulse.is_gone:
            self._ping(name)
        return pulse.is_gone

    def _patience(self, call: _Call) -> float:
        """Return how long nothing need be done if nothing comes."""
        now = time.monotonic()
        pulses = [self._pulses[name] for name in call.awaited]
        ends = [pulse.heard + self._limit(pulse) for pulse in pulses]
        ends += [max(p.heard, p.pinged) + self._pause(p) for p in self._idle(call)]
        if call.end is not None:
            ends.append(call.end)
        return max(0.0, min(ends) - now)

    def _limit(self, pulse: _Pulse) -> float:
        """Return after how many seconds of silence a platform counts as gone."""
        if pulse.is_cut:
            return self._cut_seconds
        return self._gone_seconds if pulse.has_worked else self._starting_seconds

    def _pause(self, pulse: _Pulse) -> float:
        """Return how long after a ping the next one follows: a connection may be made again."""
        return self._ping_seconds / 3 if pulse.is_cut else self._ping_seconds

    def _idle(self, call: _Call) -> list[_Pulse]:
        return [self._pulses[name] for name in call.awaited if not self._pulses[name].is_pinged]

    def _next(self, seconds: float) -> _Came | None:
        try:
            return self._came.get(timeout=seconds)
        except queue.Empty:
            return None

    def _take(self, call: _Call, found: _Came) -> Iterator[Reply]:
        """Give the reply that came, where it is one to this call."""
        self._hear(found)
        if found.sequence != call.sequence or found.name not in call.awaited:
            return  # a ping, or a reply that is too late
        round_ = call.awaited.pop(found.name)
        pulse = self._pulses[found.name]
        if found.code == "platform-gone":
            pulse.is_gone = True
        pulse.has_worked = pulse.has_worked or (call.is_work and not found.code)
        yield _reply(found, round_)

    def _hear(self, found: _Came) -> None:
        """Note a sign of life.

        Raises:
            StoppedError: The job was stopped.
        """
        if found.error is not None:
            raise found.error
        pulse = self._pulses[found.name]
        if found.sequence == 0:
            pulse.is_pinged, pulse.is_cut = False, found.is_cut
        if not found.code:
            pulse.heard, pulse.is_gone = time.monotonic(), False

    def _give_up(self, call: _Call) -> Iterator[Reply]:
        """Give failures for those who are gone or late, and ping those who were silent."""
        now = time.monotonic()
        for name in list(call.awaited):
            pulse = self._pulses[name]
            if now - pulse.heard >= self._limit(pulse):
                pulse.is_gone = True
                yield failure(name, call.awaited.pop(name), "platform-gone")
            elif call.end is not None and now >= call.end:
                yield failure(name, call.awaited.pop(name), "no-reply")
            elif now - max(pulse.heard, pulse.pinged) >= self._pause(pulse):
                self._ping(name)

    def _ping(self, name: str) -> None:
        pulse = self._pulses[name]
        if not pulse.is_pinged:
            pulse.is_pinged, pulse.pinged = True, time.monotonic()
            self._pings.submit(self._pinged, name)

    def _ask(self, name: str, sequence: int, data: bytes, timeout: float) -> None:
        """Call a platform, in a thread."""
        end = time.monotonic() + timeout
        try:
            code, reply = self._links[name].ask(data, timeout)
            is_reply = code == OK and isinstance(reply, bytes)
            came = _Came(name, sequence, reply) if is_reply else _Came(name, sequence)
            self._came.put(came)
        except StoppedError as error:
            self._came.put(_Came(name, sequence, error=error))
        except TimeoutError:
            # FLARE also says so of a connection that ended long before.
            code = "no-reply" if time.monotonic() >= end - _NEAR_END else "platform-gone"
            self._came.put(_Came(name, sequence, code=code))
        except Exception as error:  # noqa: BLE001 - whatever broke, the platform cannot be reached
            # Its kind alone: the text of an error may be another party's.
            _log.warning("platform %s cannot be reached: %s", name, type(error).__name__)
            self._came.put(_Came(name, sequence, code="platform-gone"))

    def _pinged(self, name: str) -> None:
        """Ping a platform, in a thread."""
        end = time.monotonic() + PING_TIMEOUT
        try:
            self._links[name].ping(PING_TIMEOUT)
            self._came.put(_Came(name, 0))
        except StoppedError as error:
            self._came.put(_Came(name, 0, error=error))
        except Exception:  # noqa: BLE001 - whatever broke, no sign of life came
            is_cut = time.monotonic() < end - _NEAR_END
            self._came.put(_Came(name, 0, code="no-reply", is_cut=is_cut))


def _bytes_of(order: Order) -> bytes | None:
    try:
        return to_bytes(order)
    except NotFiniteError:
        return None


def _reply(found: _Came, round_: int) -> Reply:
    """Return a reply that is its platform's own, or why there is none."""
    if found.code:
        return failure(found.name, round_, found.code)
    if found.data is None:
        return failure(found.name, round_, "malformed")
    try:
        reply = reply_from_bytes(found.data)
    except Exception:  # noqa: BLE001 - whatever a platform sent, the coordinator goes on
        return failure(found.name, round_, "malformed")
    if reply.platform != found.name:  # nobody answers for another one
        return failure(found.name, round_, "malformed")
    return reply
