"""Workers that are late, silent or dead: nobody waits for ever, no reply is taken for another."""

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from linear_platform import initial, random_platform

import fedner.engines.member as member_module
import fedner.engines.workers as workers_module
from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.federated.algorithms import fedner
from fedner.federated.answering import answers
from fedner.federated.messages import Failure, Order, Reply, Update

NAMES = ["alpha", "beta"]
GENEROUS = 120.0  # seconds: only what hangs takes longer


@pytest.fixture(autouse=True)
def _slow_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a time-out pass only when one worker is left: these tests know that it is silent."""
    wait = workers_module.wait

    def patient(pipes: Sequence[Any], left: float | None) -> list[Any]:
        return wait(pipes, left if left is None or len(pipes) == 1 else GENEROUS)

    monkeypatch.setattr(workers_module, "wait", patient)


def order(round_: int, **changes: object) -> dict[str, Order]:
    one = Order("t", round_, initial(), batches=dict.fromkeys(NAMES, 2), **changes)  # type: ignore[arg-type]
    return dict.fromkeys(NAMES, one)


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


class Sleepy:
    """Answers with its round; `beta` sleeps in round 1 until there is a certain file."""

    def __init__(self, alarm: Path, name: str) -> None:
        self.alarm, self.name = alarm, name

    def __call__(self, order: Order) -> Reply:
        if (self.name, order.round) == ("beta", 1):
            self.alarm.with_name("asleep").touch()
            wait_for(self.alarm)
        return Update(self.name, order.round, order.shared)

    def rest(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_late_reply_is_no_reply_and_is_dropped_later(tmp_path: Path) -> None:
    alarm = tmp_path / "alarm"
    with Workers(partial(Sleepy, alarm), NAMES, initial(), workers=2) as sleepy:
        first = {each.platform: each for each in sleepy.ask(order(1), timeout=0.1)}
        assert isinstance(first["alpha"], Update)
        assert first["beta"] == Failure("beta", 1, "no-reply")
        wait_for(tmp_path / "asleep")  # before that it has not read the order
        # Still asleep: it gets no new order in time, and what it says of round 1 is not waited for.
        second = {each.platform: each for each in sleepy.ask(order(2), timeout=0.05)}
        assert second["beta"] == Failure("beta", 2, "no-reply")
        alarm.touch()
        third = {each.platform: each for each in sleepy.ask(order(3), timeout=GENEROUS)}
        assert {each.round for each in third.values()} == {3}
        assert all(isinstance(each, Update) for each in third.values())
        fourth = list(sleepy.ask(order(4)))
        assert sorted((each.platform, each.round) for each in fourth) == [("alpha", 4), ("beta", 4)]


def test_a_silent_worker_does_not_block_and_is_ended_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_module, "_STOP_SECONDS", 2 * GENEROUS)
    with Workers(partial(Sleepy, tmp_path), NAMES, initial(), workers=2) as engine:
        list(engine.ask(order(2)))
        stopped = next(each for each in engine._crew if "beta" in each.names).process
        assert stopped.pid is not None
        os.kill(stopped.pid, signal.SIGSTOP)
        for number in (3, 4):
            replies = {each.platform: each for each in engine.ask(order(number), timeout=0.2)}
            assert replies["beta"] == Failure("beta", number, "no-reply")
            assert isinstance(replies["alpha"], Update)
        os.kill(stopped.pid, signal.SIGCONT)
        again = {each.platform: each for each in engine.ask(order(5), timeout=GENEROUS)}
        assert {each.round for each in again.values()} == {5}
        assert all(isinstance(each, Update) for each in again.values())
        os.kill(stopped.pid, signal.SIGSTOP)
        list(engine.ask(order(6), timeout=0.1))
        began = time.monotonic()
    assert time.monotonic() - began < GENEROUS, "closing does not wait for it"
    assert not stopped.is_alive()


def test_a_worker_that_stays_silent_is_ended_and_started_again(tmp_path: Path) -> None:
    made = answers(random_platform, fedner(), tmp_path / "run")
    serial = InProcess(answers(random_platform, fedner()), NAMES)
    with Workers(made, NAMES, initial(), workers=2, restarts=1, most_missed=2) as engine:
        member = next(each for each in engine._crew if "beta" in each.names)
        list(serial.ask(order(1)))
        list(engine.ask(order(1)))
        list(engine.ask(order(1, verb="save")))
        silent = member.process
        assert silent.pid is not None
        os.kill(silent.pid, signal.SIGSTOP)
        for number in (2, 3):
            assert silent.is_alive()
            replies = {each.platform: each for each in engine.ask(order(number), timeout=0.1)}
            assert replies["beta"] == Failure("beta", number, "no-reply")
        assert not silent.is_alive(), "twice is enough"
        expected = {each.platform: each for each in serial.ask(order(2))}["beta"]
        found = {each.platform: each for each in engine.ask(order(2), timeout=GENEROUS)}["beta"]
        assert isinstance(expected, Update)
        assert isinstance(found, Update), "its successor goes on from what was stored"
        assert all(torch.equal(expected.tensors[key], found.tensors[key]) for key in found.tensors)
        assert member.process is not silent
        # The one restart is used up: what is silent again stays away, and costs no more time.
        assert member.process.pid is not None
        os.kill(member.process.pid, signal.SIGSTOP)
        for number in (4, 5):
            list(engine.ask(order(number), timeout=0.1))
        began = time.monotonic()
        last = {each.platform: each for each in engine.ask(order(6), timeout=10 * GENEROUS)}
        assert time.monotonic() - began < GENEROUS
        assert last["beta"] == Failure("beta", 6, "worker-died")
        assert isinstance(last["alpha"], Update)


def test_a_worker_that_is_late_once_in_a_while_is_left_alone(tmp_path: Path) -> None:
    alarm = tmp_path / "alarm"
    sleepy = partial(Sleepy, alarm)
    with Workers(sleepy, NAMES, initial(), workers=2, most_missed=2) as engine:
        member = next(each for each in engine._crew if "beta" in each.names)
        process = member.process
        for _ in range(3):
            alarm.unlink(missing_ok=True)
            late = {each.platform: each for each in engine.ask(order(1), timeout=0.05)}
            assert late["beta"] == Failure("beta", 1, "no-reply")
            alarm.touch()
            again = {each.platform: each for each in engine.ask(order(2), timeout=GENEROUS)}
            assert isinstance(again["beta"], Update)
        assert member.process is process


def test_a_worker_that_died_is_started_again_and_goes_on_from_what_it_stored(
    tmp_path: Path,
) -> None:
    made = answers(random_platform, fedner(), tmp_path / "run")
    serial = InProcess(answers(random_platform, fedner()), NAMES)
    with Workers(made, NAMES, initial(), workers=2, restarts=1) as engine:
        for number in (1, 2):
            list(serial.ask(order(number)))
            list(engine.ask(order(number)))
            list(engine.ask(order(number, verb="save")))
        dead = next(each for each in engine._crew if "beta" in each.names)
        dead.process.kill()
        dead.process.join()
        expected = {each.platform: each for each in serial.ask(order(3))}
        found = {each.platform: each for each in engine.ask(order(3))}
        for name in NAMES:
            one, other = expected[name], found[name]
            assert isinstance(one, Update)
            assert isinstance(other, Update)
            assert all(torch.equal(one.tensors[key], other.tensors[key]) for key in one.tensors)
        dead.process.kill()
        dead.process.join()
        last = {each.platform: each for each in engine.ask(order(4))}
        assert last["beta"] == Failure("beta", 4, "worker-died"), "once, not twice"
        assert isinstance(last["alpha"], Update)
