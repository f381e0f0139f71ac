"""Finished streams are forgotten by one thread, at their time, unless somebody was sooner."""

import threading
import time

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
