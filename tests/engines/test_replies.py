"""Workers that send anything at all: the engine goes on, and every platform has one reply."""

import random
from typing import Any

import pytest
from linear_platform import initial, random_platform

from fedner.engines.frames import INLINE, ORDER, REPLY, STOP, Frame
from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.errors import FednerError
from fedner.federated.algorithms import fedner
from fedner.federated.answering import answers
from fedner.federated.failure_codes import FAILURES
from fedner.federated.message_bytes import to_bytes
from fedner.federated.messages import VERBS, Failure, Order, Update, Verb
from fedner.federated.platform import Platform
from fedner.federated.screening import NormRule, Screen

NAMES = ["alpha", "beta", "delta", "gamma"]

INLINE_HEAD = Frame(INLINE, 1).to_bytes()
GARBAGE: list[bytes] = [
    b"",
    b"\x00\xff",
    b"[]",
    b"\xff" * 40,
    Frame(REPLY, 1, slot=10_000, length=8).to_bytes(),
    Frame(REPLY, 1, slot=0, length=2**40).to_bytes(),
    Frame(REPLY, 1, slot=0, length=100).to_bytes(),  # nothing was written there
    Frame(ORDER, 1).to_bytes(),
    Frame(STOP).to_bytes(),
    Frame(INLINE, 9, rest=to_bytes(Failure("alpha", 1, "error"))).to_bytes(),  # of no call
    Frame(INLINE, 1, rest=to_bytes(Failure("omega", 1, "error"))).to_bytes(),  # of nobody
    Frame(INLINE, 1, rest=to_bytes(Order("run", 1))).to_bytes(),
    INLINE_HEAD + b"[" * 100_000,
]


def order(round_: int = 1) -> dict[str, Order]:
    one = Order("test", round_, initial(), batches=dict.fromkeys(NAMES, 2))
    return dict.fromkeys(NAMES, one)


@pytest.mark.parametrize("data", GARBAGE, ids=lambda data: repr(data[:30]))
def test_a_worker_that_sends_garbage_has_failed(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Forked workers inherit it: whatever they have to say, they say this.
    monkeypatch.setattr(
        "fedner.engines.worker._Worker._send", lambda self, _: self.pipe.send_bytes(data)
    )
    with Workers(answers(random_platform, fedner()), NAMES, initial(), workers=1) as engine:
        replies = list(engine.ask(order()))
        assert sorted(reply.platform for reply in replies) == NAMES
        for reply in replies:
            assert isinstance(reply, Failure)
            assert reply.message == FAILURES[reply.code]
            assert reply.code in ("malformed", "worker-died")


def test_a_hostile_worker_does_not_disturb_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedner.engines import worker

    real = worker._Worker._send

    def some_lie(self: Any, frame: Frame) -> None:
        if "alpha" in self.job.names:
            chance = random.Random(frame.sequence)
            lie: dict[str, Any] = {chance.choice(["slot", "length"]): chance.choice([9, 2**30])}
            frame = frame._replace(**lie)
        real(self, frame)

    monkeypatch.setattr(worker._Worker, "_send", some_lie)
    loads = {"alpha": 100, "beta": 1, "delta": 1, "gamma": 1}
    with Workers(
        answers(random_platform, fedner()), NAMES, initial(), workers=2, loads=loads
    ) as engine:
        for number in range(1, 6):
            replies = {each.platform: each for each in engine.ask(order(number))}
            assert isinstance(replies["alpha"], Failure)
            assert all(isinstance(replies[name], Update) for name in NAMES[1:])


def diverged(name: str) -> Platform:
    own = random_platform(name)
    own.learner.targets.fill_(float("nan"))  # type: ignore[attr-defined]
    return own


@pytest.mark.parametrize("kind", ["serial", "bytes", "workers"])
def test_a_platform_that_diverged_is_refused_and_its_worker_lives(kind: str) -> None:
    made = answers(diverged, fedner())
    engine = (
        Workers(made, NAMES, initial(), workers=1, restarts=0)
        if kind == "workers"
        else InProcess(made, NAMES, as_bytes=kind == "bytes")
    )
    try:
        for number in (1, 2):
            screen = Screen(NormRule())
            orders = order(number)
            assert list(screen.accepted_updates(engine.ask(orders), orders["alpha"])) == []
            assert [each.code for each in screen.refusals] == ["not-finite"] * 4
            assert not screen.failures
    finally:
        engine.close()


class Talkative:
    """An answer that has the patient's name in every error."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, order: Order) -> Update:
        raise FednerError(f"cannot read /home/jane/{order.verb}.txt", "epsilon is 3.9")

    def rest(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize("kind", ["serial", "bytes", "workers"])
@pytest.mark.parametrize("verb", VERBS)
def test_no_text_of_an_error_is_in_a_reply(kind: str, verb: Verb) -> None:
    orders = dict.fromkeys(NAMES, Order("test", 1, verb=verb, phase=1))
    engine = (
        Workers(Talkative, NAMES, initial(), workers=1)
        if kind == "workers"
        else InProcess(Talkative, NAMES, as_bytes=kind == "bytes")
    )
    try:
        replies = list(engine.ask(orders))
    finally:
        engine.close()
    assert replies == [Failure(name, 1, "error") for name in NAMES]
    data = b"".join(to_bytes(each) for each in replies)
    assert b"jane" not in data
    assert b"3.9" not in data
