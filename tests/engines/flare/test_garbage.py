"""What a round leaves in cycles is let go after it, and what was there before is not looked at."""

import gc
import weakref

from fedner.engines.flare.garbage import Garbage


class Message:
    """Refers to itself, as FLARE's messages do through their futures."""

    def __init__(self) -> None:
        self.own = self


def test_cycles_of_a_round_are_gone_after_it() -> None:
    garbage = Garbage()
    gc.disable()
    try:
        for _ in range(2):  # the first time freezes what is there
            left = weakref.ref(Message())
            assert left() is not None
            garbage.collect()
            assert left() is None
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()
