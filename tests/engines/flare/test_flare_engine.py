"""The engine over links that break: same bits as the serial one, and nobody waits for the dead."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from parity import check_parity

import fedner.engines.flare.engine as engine_module
from fedner.engines.flare.engine import OK, FlareEngine, StoppedError
from fedner.engines.roster import MakeAnswer, Roster
from fedner.federated.message_bytes import order_from_bytes, to_bytes
from fedner.federated.messages import Failure, Order, Update


class Clock:
    """Seconds that pass only while this process runs: on a busy machine they take longer."""

    STEP = 0.01

    def __init__(self) -> None:
        self.now = 1000.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._tick, daemon=True)
        self.thread.start()

    def _tick(self) -> None:
        while not self.ended.wait(self.STEP):
            self.now += self.STEP

    def wait(self, seconds: float, event: threading.Event | None = None) -> bool:
        """Wait for an event so long; return whether it came."""
        end, awaited = self.now + seconds, event or threading.Event()
        while self.now < end and not self.ended.is_set():  # no thread outlives its test
            if awaited.wait(self.STEP):
                return True
        return awaited.is_set()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The clock of the engine and of the links."""
    made = Clock()
    monkeypatch.setattr(engine_module, "time", SimpleNamespace(monotonic=lambda: made.now))
    yield made
    made.ended.set()
    made.thread.join()


class RosterLink:
    """A platform in this process, behind its byte form, in a thread of its own."""

    def __init__(self, make: MakeAnswer, name: str) -> None:
        self.name = name
        self.roster = Roster(make, [name])
        self.worker = ThreadPoolExecutor(1)

    def ask(self, data: bytes, timeout: float) -> tuple[str, bytes]:
        return OK, self.worker.submit(self._reply, data).result(timeout)

    def ping(self, timeout: float) -> None:
        pass

    def _reply(self, data: bytes) -> bytes:
        return to_bytes(self.roster.answer(self.name, order_from_bytes(data)))


class LinkedEngine(FlareEngine):
    def __init__(self, make: MakeAnswer, names: Sequence[str]) -> None:
        self.links = {name: RosterLink(make, name) for name in names}
        super().__init__(self.links, names)

    def close(self) -> None:
        super().close()
        for link in self.links.values():
            link.worker.submit(link.roster.close).result()
            link.worker.shutdown()


def test_same_bits_as_the_serial_engine(tmp_path: Path) -> None:
    check_parity(LinkedEngine, tmp_path)


class Scripted:
    """A link that does what a test says."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.clock = clock
        self.is_alive = True
        self.is_silent = False
        self.error: Exception | None = None
        self.reply: bytes | None = None
        self.code = OK
        self.patience: float | None = None  # in place of what the engine grants
        self.held = threading.Event()
        self.held.set()
        self.pings = 0
        self.at_ping: dict[int, Callable[[], None]] = {}

    def ask(self, data: bytes, timeout: float) -> tuple[str, bytes]:
        round_ = order_from_bytes(data).round
        if not self.clock.wait(self.patience or timeout, self.held):
            raise TimeoutError
        if self.error is not None:
            raise self.error
        return self.code, to_bytes(Update(self.name, round_)) if self.reply is None else self.reply

    def ping(self, timeout: float) -> None:
        self.pings += 1
        self.at_ping.get(self.pings, lambda: None)()
        if not self.is_alive:
            raise ConnectionError
        if self.is_silent:
            self.clock.wait(timeout)
            raise TimeoutError

    def revive(self) -> None:
        self.is_alive = True


@pytest.fixture
def links(clock: Clock) -> Iterator[dict[str, Scripted]]:
    made = {name: Scripted(name, clock) for name in ("a", "b")}
    yield made
    for link in made.values():
        link.held.set()  # a thread that waits would keep the process from its end


def asked(
    engine: FlareEngine, round_: int = 1, timeout: float | None = None
) -> dict[str, str | int]:
    """The rounds that were answered, or the codes of failures, by platform."""
    order = Order("run", round_)
    found = engine.ask(dict.fromkeys(engine.platforms, order), timeout)
    return {each.platform: each.code if isinstance(each, Failure) else each.round for each in found}


def quick(links: dict[str, Scripted]) -> FlareEngine:
    return FlareEngine(links, list(links), ping_seconds=0.05, gone_seconds=0.3)


def test_a_platform_that_answers_no_ping_is_gone_and_stops_nobody(
    links: dict[str, Scripted], clock: Clock
) -> None:
    links["b"].held.clear()
    links["b"].is_alive = False
    with quick(links) as engine:
        began = clock.now
        assert asked(engine) == {"a": 1, "b": "platform-gone"}
        assert clock.now - began < 2
        assert engine.missing == engine.gone == {"b": "platform-gone"}
        began = clock.now
        assert asked(engine, 2)["b"] == "platform-gone"
        assert clock.now - began < 0.2  # nobody waits for it again
        links["b"].is_alive = True
        links["b"].held.set()
        number = 3
        while asked(engine, number)["b"] != number:  # until a ping came through
            assert clock.now - began < 10
            clock.wait(0.01)
            number += 1
        assert engine.missing == engine.gone == {}


def test_a_slow_platform_that_answers_pings_is_waited_for(
    links: dict[str, Scripted], clock: Clock
) -> None:
    links["b"].held.clear()
    links["b"].at_ping[10] = links["b"].held.set
    began = clock.now
    with quick(links) as engine:
        assert asked(engine) == {"a": 1, "b": 1}
    assert clock.now - began > 0.4, "longer than it takes to be gone"


def test_a_platform_that_is_silent_while_it_builds_is_waited_for_once(
    links: dict[str, Scripted], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "PING_TIMEOUT", 0.2)
    links["b"].held.clear()
    links["b"].is_silent = True
    links["b"].at_ping[4] = links["b"].held.set  # after more than 0.6 seconds
    with quick(links) as engine:
        assert asked(engine) == {"a": 1, "b": 1}
        links["b"].held.clear()  # it has worked: now silence says that it is gone
        began = clock.now
        assert asked(engine, 2) == {"a": 2, "b": "platform-gone"}
        assert clock.now - began < 1


def test_a_platform_without_a_connection_is_given_less_time(
    links: dict[str, Scripted], clock: Clock
) -> None:
    links["b"].held.clear()
    links["b"].is_alive = False  # pings fail at once
    limits = {"ping_seconds": 0.1, "gone_seconds": 30.0, "cut_seconds": 0.3}
    with FlareEngine(links, list(links), **limits) as engine:
        began = clock.now
        assert asked(engine) == {"a": 1, "b": "platform-gone"}
        assert 0.29 <= clock.now - began < 2


def test_a_connection_that_is_made_again_in_time_is_no_end(
    links: dict[str, Scripted], clock: Clock
) -> None:
    links["b"].held.clear()
    links["b"].is_alive = False
    links["b"].at_ping = {4: links["b"].revive, 11: links["b"].held.set}
    limits = {"ping_seconds": 0.15, "gone_seconds": 30.0, "cut_seconds": 0.8}
    began = clock.now
    with FlareEngine(links, list(links), **limits) as engine:
        assert asked(engine) == {"a": 1, "b": 1}
    assert clock.now - began > 0.9, "longer than without a connection"


def test_what_is_no_work_yet_leaves_the_longer_limit(
    links: dict[str, Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "PING_TIMEOUT", 0.2)
    with quick(links) as engine:
        assert [each.round for each in engine.ask({"b": Order("run", 1, verb="load")})] == [1]
        links["b"].held.clear()
        links["b"].is_silent = True
        links["b"].at_ping[4] = links["b"].held.set
        assert asked(engine, 1)["b"] == 1
        # And it is not waited for without end.
        links["a"].held.clear()
        links["a"].is_silent = True
    with FlareEngine(
        links, ["a"], ping_seconds=0.05, gone_seconds=0.1, starting_seconds=0.5
    ) as engine:
        assert asked(engine, 1) == {"a": "platform-gone"}


def test_beyond_its_timeout_it_is_late_and_its_reply_is_dropped(
    links: dict[str, Scripted], clock: Clock
) -> None:
    links["b"].held.clear()
    links["b"].patience = 1e9  # its reply comes, and too late
    with quick(links) as engine:
        assert asked(engine, 1, timeout=0.2) == {"a": 1, "b": "no-reply"}
        links["b"].held.set()
        began = clock.now
        while engine._came.empty():  # until the late one, or that there is none, has come
            assert clock.now - began < 10
            clock.wait(0.01)
        assert asked(engine, 2) == {"a": 2, "b": 2}


@pytest.mark.parametrize("error", [ConnectionError("text that stays here"), TimeoutError()])
def test_a_broken_call_is_noticed_at_once(
    links: dict[str, Scripted],
    clock: Clock,
    error: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    links["a"].error = error
    with FlareEngine(links, list(links)) as engine:
        began = clock.now
        assert asked(engine) == {"a": "platform-gone", "b": 1}
        assert clock.now - began < 1
    is_logged = "platform a cannot be reached: ConnectionError" in caplog.text
    assert is_logged == isinstance(error, ConnectionError)
    assert "text that stays here" not in caplog.text


@pytest.mark.parametrize(
    ("code", "reply"),
    [
        ("refused", b""),
        (OK, b"nonsense"),
        (OK, to_bytes(Order("run", 1))),
        (OK, to_bytes(Update("b", 1))),  # in another's name
        ("", b""),
    ],
)
def test_what_is_no_reply_of_its_platform_is_malformed(
    links: dict[str, Scripted], code: str, reply: bytes
) -> None:
    links["a"].code, links["a"].reply = code, reply
    with quick(links) as engine:
        assert asked(engine) == {"a": "malformed", "b": 1}


def test_a_platform_without_a_link_is_gone(links: dict[str, Scripted]) -> None:
    with FlareEngine(links, ["a", "b", "c"]) as engine:
        assert engine.platforms == ["a", "b", "c"]
        assert asked(engine) == {"a": 1, "b": 1, "c": "platform-gone"}
        assert engine.gone == {}  # it was left out before: nobody died


def test_a_job_that_was_stopped_asks_nobody(links: dict[str, Scripted]) -> None:
    links["b"].error = StoppedError()
    with quick(links) as engine, pytest.raises(StoppedError):
        asked(engine)


def test_who_ended_a_job_that_was_stopped(
    links: dict[str, Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLARE stops a job before the platform whose process ended counts as gone."""
    monkeypatch.setattr(engine_module, "_PING_TRAVEL", 0.1)
    links["b"].held.clear()
    links["b"].is_alive = False
    links["b"].error = StoppedError()
    links["b"].at_ping[5] = links["b"].held.set  # after 0.3 seconds, and 0.4 without a connection
    with FlareEngine(links, list(links), ping_seconds=0.3, gone_seconds=30) as engine:
        with pytest.raises(StoppedError):
            asked(engine)
        assert engine.gone == {}
        assert engine.lost == {"b": "platform-gone"}


def test_nobody_ended_a_job_that_a_person_stopped(links: dict[str, Scripted]) -> None:
    links["b"].held.clear()
    links["b"].error = StoppedError()
    links["b"].at_ping[6] = links["b"].held.set
    with FlareEngine(links, list(links), ping_seconds=0.1, gone_seconds=30) as engine:
        with pytest.raises(StoppedError):
            asked(engine)
        assert engine.lost == {}
