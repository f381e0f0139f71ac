"""Finished streams are forgotten by one thread, at their time, unless somebody was sooner."""

import gc
import threading
import time
import tracemalloc
from typing import Any

import pytest

from fedner.engines.flare.finished_streams import Due, Forgetting, install


def test_many_wait_in_one_thread_and_are_called_in_the_order_of_their_times() -> None:
    forgetting, called, done = Forgetting(), [], threading.Event()
    before = threading.active_count()
    for _ in range(200):
        Due(forgetting, 6000, lambda: called.append("never")).start()
    with forgetting._changed:  # its thread waits, so that all of them are there before it looks
        Due(forgetting, 0.05, lambda: called.append("second")).start()
        Due(forgetting, 0.01, lambda: called.append("first")).start()
        cancelled = Due(forgetting, 0.02, lambda: called.append("cancelled"))
        cancelled.start()
        cancelled.cancel()
        Due(forgetting, 0.06, done.set).start()
    assert threading.active_count() <= before + 1
    waiting = [each for each in threading.enumerate() if each.name == "fedner-forget"]
    assert waiting
    assert all(each.daemon for each in waiting)  # else a job would not end for a minute
    assert done.wait(120)
    assert called == ["first", "second"]


def test_one_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    forgetting, done = Forgetting(), threading.Event()
    Due(forgetting, 0.0, lambda: 1 / 0).start()
    Due(forgetting, 0.01, done.set).start()
    assert done.wait(120)
    assert "was not forgotten" in caplog.text


def test_flare_forgets_a_stream_without_a_thread_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from nvflare.fuel.f3.streaming import byte_receiver

    monkeypatch.setattr(byte_receiver, "threading", threading)
    install()
    install()  # once is enough
    tasks = [byte_receiver.RxTask(number, "platform", None) for number in range(50)]
    with byte_receiver.RxTask.map_lock:
        for task in tasks:
            byte_receiver.RxTask.rx_task_map[task.origin, task.sid] = task
    before = threading.active_count()
    for task in tasks:
        task._schedule_remove_task(0.05)
    assert threading.active_count() <= before + 1
    until = time.monotonic() + 120
    while any((t.origin, t.sid) in byte_receiver.RxTask.rx_task_map for t in tasks):
        assert time.monotonic() < until
        time.sleep(0.01)


class _Cell:
    """The messages that a receiver sends, in place of a network."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def fire_and_forget(self, _: str, topic: str, target: str, message: Any, **__: Any) -> Any:
        self.sent.append((topic, dict(message.headers)))
        return {target: ""}


def _frame(stream: int, last: bool, sequence: int = 0, **headers: Any) -> Any:
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
    from nvflare.fuel.f3.message import Message
    from nvflare.fuel.f3.streaming.stream_const import StreamDataType, StreamHeaderKey

    kind = StreamDataType.FINAL if last else StreamDataType.CHUNK
    known = {
        StreamHeaderKey.STREAM_ID: stream,
        StreamHeaderKey.SEQUENCE: sequence,
        StreamHeaderKey.DATA_TYPE: kind,
        StreamHeaderKey.RELIABLE: True,
        StreamHeaderKey.CHANNEL: "channel",
        StreamHeaderKey.TOPIC: "topic",
        StreamHeaderKey.STREAM_REQ_ID: "request-7",
        MessageHeaderKey.ORIGIN: "platform",
    }
    return Message(known | {f"header-{n}": "x" * 40 for n in range(20)} | headers, b"parts")


def _received(stream: int, cell: _Cell) -> tuple[Any, Any]:
    """Receive a stream of two parts, and read it as FLARE does; return task and future."""
    from nvflare.fuel.f3.streaming.byte_receiver import RxStream, RxTask

    first, last = _frame(stream, last=False), _frame(stream, last=True, sequence=1)
    task = RxTask.find_or_create_task(first, cell)
    assert task.process_chunk(first)
    future = task.stream_future
    task.process_chunk(last)
    assert task.completed
    assert task.stream_future is future  # nobody has read it yet
    read = b"".join(iter(lambda: RxStream(task).read(3), b""))
    future.set_result(read)
    return task, future


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    from nvflare.fuel.f3.streaming import byte_receiver

    monkeypatch.setattr(byte_receiver, "threading", threading)
    monkeypatch.setattr(byte_receiver.RxTask, "rx_task_map", {})
    install()
    return byte_receiver


def test_a_stream_that_was_read_is_small_and_still_answers(installed: Any) -> None:
    from nvflare.fuel.f3.streaming.stream_const import (
        STREAM_ACK_TOPIC,
        STREAM_ERROR_TOPIC,
        StreamHeaderKey,
    )

    cell = _Cell()
    task, future = _received(1, cell)
    assert future.result() == b"partsparts"  # who reads it has it
    assert task.stream_future is not future
    assert not task.chunks
    assert list(task.headers.values()) == ["request-7"]
    cell.sent.clear()
    assert not task.process_chunk(_frame(1, last=True, sequence=1))  # it was sent again
    (_, acknowledged), *more = cell.sent
    assert not more
    assert acknowledged[StreamHeaderKey.SEQUENCE] == 1
    assert acknowledged[StreamHeaderKey.OFFSET] == len(b"partsparts")
    cell.sent.clear()
    task.stop(installed.StreamError("nobody understands it"))
    assert {topic for topic, _ in cell.sent} == {STREAM_ERROR_TOPIC, STREAM_ACK_TOPIC}
    assert all(told[StreamHeaderKey.STREAM_REQ_ID] == "request-7" for _, told in cell.sent)


def test_a_thousand_read_streams_take_little_memory(installed: Any) -> None:
    cell = _Cell()
    _received(0, cell)
    tracemalloc.start()
    try:
        for stream in range(1, 1001):
            _received(stream, cell)
            cell.sent.clear()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(installed.RxTask.rx_task_map) == 1001
    assert held < 3_000 * 1000


def test_a_stream_that_failed_keeps_its_error(installed: Any) -> None:
    cell = _Cell()
    first = _frame(1, last=False)
    task = installed.RxTask.find_or_create_task(first, cell)
    task.process_chunk(first)
    future = task.stream_future
    task.stop(installed.StreamError("cut"))
    assert task.stream_future is future
    with pytest.raises(installed.StreamError, match="cut"):
        installed.RxStream(task).read(3)
