"""Workers that send anything at all: the engine goes on, and every platform has one reply."""

import random
from typing import Any

import pytest
from linear_platform import initial, random_platform

from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.errors import FednerError
from fedner.federated.algorithms import fedner
from fedner.federated.messages import FAILURES, Broadcast, Failure, Update
from fedner.federated.platform import Platform
from fedner.federated.screening import NormRule, Screen

NAMES = ["alpha", "beta", "delta", "gamma"]

GARBAGE: list[bytes] = [
    b"",
    b"\x00\xff",
    b"[]",
    b"null",
    b"{",
    b'{"failure": ["alpha", 1, "error", "patient Jane Doe"]}',
    b'{"failure": "{}"}',
    b'{"platform": "alpha", "bytes": true}',  # and the next message is no update
    b'{"platform": "alpha", "slot": 0, "slot": 1}',
    b'{"platform": "alpha", "slot": "0", "layout": []}',
    b'{"platform": "alpha", "slot": 10000, "layout": []}',
    b"[" * 100_000,
]


def broadcast(round_: int = 1) -> Broadcast:
    return Broadcast("test", round_, initial(), batches=dict.fromkeys(NAMES, 2))


@pytest.mark.parametrize("data", GARBAGE, ids=lambda data: repr(data[:30]))
def test_a_worker_that_sends_garbage_has_failed(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Forked workers inherit it: whatever they have to say, they say this.
    monkeypatch.setattr(
        "fedner.engines.worker._Worker._send", lambda self, _: self.pipe.send_bytes(data)
    )
    local = fedner().local
    with Workers(random_platform, NAMES, local, initial(), workers=2) as engine:
        replies = list(engine.round(broadcast(), NAMES))
        assert sorted(reply.platform for reply in replies) == NAMES
        for reply in replies:
            assert isinstance(reply, Failure)
            assert reply.message == FAILURES[reply.code]
            assert reply.code in ("malformed", "worker-died")


def test_a_hostile_worker_does_not_disturb_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedner.engines import worker

    real = worker._Worker._send

    def some_lie(self: Any, message: dict[str, Any]) -> None:
        if "alpha" in self.job.names:
            chance = random.Random(message.get("round"))
            message = {**message, chance.choice(list(message)): chance.choice(["9", -1, [], None])}
            message["layout"] = [["tensors/shared.a", "float32", [10**9], 0]]
        real(self, message)

    monkeypatch.setattr(worker._Worker, "_send", some_lie)
    loads = {"alpha": 100, "beta": 1, "delta": 1, "gamma": 1}
    with Workers(
        random_platform, NAMES, fedner().local, initial(), workers=2, loads=loads
    ) as engine:
        for number in range(1, 6):
            replies = {each.platform: each for each in engine.round(broadcast(number), NAMES)}
            assert isinstance(replies["alpha"], Failure)
            assert all(isinstance(replies[name], Update) for name in NAMES[1:])


def diverged(name: str) -> Platform:
    own = random_platform(name)
    own.learner.targets.fill_(float("nan"))  # type: ignore[attr-defined]
    return own


@pytest.mark.parametrize("kind", ["serial", "workers"])
def test_a_platform_that_diverged_is_refused_and_its_worker_lives(kind: str) -> None:
    local = fedner().local
    engine = (
        InProcess(diverged, NAMES, local)
        if kind == "serial"
        else Workers(diverged, NAMES, local, initial(), workers=1)
    )
    try:
        for number in (1, 2):
            screen = Screen(NormRule())
            order = broadcast(number)
            assert list(screen.accepted_updates(engine.round(order, NAMES), order)) == []
            assert [each.code for each in screen.refusals] == ["not-finite"] * 4
    finally:
        engine.close()


def test_an_error_of_a_worker_is_told_in_fixed_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise FednerError("cannot read /home/jane/notes.txt", "epsilon is 3.9")

    monkeypatch.setattr("fedner.engines.worker.Roster.load", fail)
    with (
        Workers(random_platform, NAMES, fedner().local, initial(), workers=1) as engine,
        pytest.raises(FednerError, match="it cannot take part") as caught,
    ):
        engine.load(0)
    assert "jane" not in str(caught.value)
    assert "3.9" not in str(caught.value)


def test_scores_that_cannot_be_read_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedner.engines import worker

    real = worker._Worker._manage

    def lie(self: Any, order: dict[str, Any]) -> dict[str, Any]:
        found = real(self, order)
        if "alpha" in self.job.names:
            found["scores"]["alpha"] = {"noised": {"standard_deviation": "9"}}
        return found

    monkeypatch.setattr(worker._Worker, "_manage", lie)
    loads = {"alpha": 100, "beta": 1, "delta": 1, "gamma": 1}
    with Workers(
        random_platform, NAMES, fedner().local, initial(), workers=2, loads=loads
    ) as engine:
        assert sorted(engine.evaluate(broadcast())) == NAMES[1:]
