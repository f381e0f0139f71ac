"""What rounds leave in cycles is let go every few seconds; what was there before is left alone."""

import gc
import threading
import weakref

import pytest

from fedner.engines.flare import garbage
from fedner.engines.flare.garbage import Garbage


class Message:
    """Refers to itself, as FLARE's messages do through their futures."""

    def __init__(self) -> None:
        self.own = self


def test_cycles_of_rounds_are_gone_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(garbage.time, "monotonic", lambda: now[0])
    collector = Garbage()
    gc.disable()
    try:
        # After the first round, soon after it, and some seconds later.
        for seconds, is_left in ((0.0, False), (4.9, True), (0.2, False)):
            now[0] += seconds
            left = weakref.ref(Message())
            collector.collect()
            assert (left() is not None) == is_left
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()


def test_a_process_without_rounds_collects_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_SECONDS", 0.01)
    gone, ended = threading.Event(), threading.Event()
    gc.disable()
    thread = garbage.collect_always(ended)
    try:
        weakref.finalize(Message(), gone.set)
        assert thread.daemon  # it keeps no process alive
        assert gone.wait(120.0), "the cycle is still there"
    finally:
        ended.set()
        thread.join(120.0)  # else it collects in the midst of other tests
        gc.enable()
        gc.unfreeze()
    assert not thread.is_alive()


def test_free_memory_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []
    monkeypatch.setattr(garbage, "_give_back", lambda: given_back.append)
    Garbage().collect()
    gc.unfreeze()
    assert given_back == [0]
