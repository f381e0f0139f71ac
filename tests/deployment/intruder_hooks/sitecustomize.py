"""Turns the job of one platform into one that means ill: INTRUDER is set.

Python runs this file in every process whose PYTHONPATH begins with its folder. What the platform
answers to the order of a round is changed after all checks of its own, by the round's number.
With CLOCK_OFF, the clock of the process is off by so many seconds.
"""

import os
import sys
import time
from typing import Any

INTRUDER, CLOCK = "INTRUDER", "CLOCK_OFF"
BIG = 2**28  # bytes, of a model of less than one megabyte
SLEEP = 7.0  # beyond the timeout of the test's study


def main() -> None:
    from fedner.federated.message_bytes import order_from_bytes
    from fedner.runs.deployment import platform_job

    honest = platform_job.answer_bytes

    def hostile(roster: Any, name: str, data: bytes) -> bytes:
        order = order_from_bytes(data)
        answer = honest(roster, name, data)
        is_hostile = order.verb == "round" and order.round in WAYS
        return WAYS[order.round](answer) if is_hostile else answer

    platform_job.answer_bytes = hostile


def _set_clock(seconds: float) -> None:
    """Let the clock of this process be off."""
    right = time.time
    time.time = lambda: right() + seconds


def _changed(answer: bytes, **changes: Any) -> bytes:
    from dataclasses import replace

    from fedner.federated.message_bytes import reply_from_bytes, to_bytes
    from fedner.tensors import SharedState

    update = reply_from_bytes(answer)
    if "each" in changes:
        held = {key: changes["each"](tensor) for key, tensor in update.tensors.items()}
        changes = {"tensors": SharedState(held)}
    return to_bytes(replace(update, **changes))


def _not_finite(answer: bytes) -> bytes:
    return answer[:-4] + b"\x00\x00\xc0\x7f"  # the last number, as float32


def _slow(answer: bytes) -> bytes:
    time.sleep(SLEEP)
    return answer


WAYS = {
    2: _not_finite,
    3: lambda answer: _changed(answer, each=lambda tensor: tensor.reshape(-1)[:1]),
    4: lambda answer: _changed(answer, each=lambda tensor: tensor * 1e9),
    5: lambda _: b"\xff" * 1000,
    6: lambda answer: _changed(answer, platform="case-reports"),
    7: lambda answer: _changed(answer, round=1),
    8: lambda _: b"\x00" * BIG,
    9: _slow,
}

if os.environ.get(CLOCK):
    _set_clock(float(os.environ[CLOCK]))
if os.environ.get(INTRUDER) and "worker_process" in " ".join(sys.orig_argv):
    main()
