"""Every engine gives the same bits: serial, spilled to disk, and side by side in processes."""

import multiprocessing
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from linear_platform import initial, random_platform

from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers, deal_platforms
from fedner.errors import FednerError
from fedner.federated.algorithms import ALGORITHMS, algorithm_named
from fedner.federated.answering import answers
from fedner.federated.engine import Engine
from fedner.federated.messages import Failure, Order, Update
from fedner.federated.participation import Participation
from fedner.federated.platform import Platform
from fedner.federated.run import RunRecord, RunSettings, run
from fedner.models.partition import Partition

NAMES = ["alpha", "beta", "delta", "gamma"]
SIZES = {"alpha": 12, "beta": 10, "delta": 7, "gamma": 5}


def make(kind: str, algorithm: str, folder: Path | None = None, build: Any = None) -> Engine:
    local = algorithm_named(algorithm)
    made = answers(random_platform if build is None else build, local, folder)
    if "workers" not in kind:
        live = 1 if kind == "spilled" else None
        return InProcess(made, NAMES, max_live=live, as_bytes=kind == "bytes")
    live = 1 if kind == "spilled workers" else None
    return Workers(made, NAMES, initial(), workers=2, max_live=live, loads=SIZES)


def start(
    kind: str,
    algorithm: str = "fedner",
    folder: Path | None = None,
    *,
    resume: bool = False,
    rounds: int = 6,
    **changes: Any,
) -> RunRecord:
    settings = RunSettings(
        "test", rounds, 8, SIZES, checkpoint_every=2 if folder else 0, evaluate_every=3, **changes
    )
    engine = make(kind, algorithm, folder)
    try:
        return run(
            algorithm_named(algorithm),
            engine,
            initial(),
            settings,
            seed=7,
            folder=folder,
            resume=resume,
        )
    finally:
        engine.close()


def comparable(record: RunRecord) -> list[Any]:
    rounds = [(r.loss, r.losses, r.norms, r.scores, r.bytes_up) for r in record.rounds]
    return [rounds, {name: tensor.tolist() for name, tensor in record.server.shared.items()}]


@pytest.mark.parametrize("kind", ["bytes", "spilled", "workers", "spilled workers"])
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_engine_gives_the_same_bits(kind: str, algorithm: str) -> None:
    assert comparable(start(kind, algorithm)) == comparable(start("serial", algorithm))


@pytest.mark.parametrize("kind", ["serial", "bytes", "spilled", "workers", "spilled workers"])
def test_every_engine_resumes_what_another_began(kind: str, tmp_path: Path) -> None:
    start("serial", "scaffold", tmp_path / "run", rounds=3)
    resumed = start(kind, "scaffold", tmp_path / "run", resume=True)
    assert resumed.resumed_from == 3
    assert comparable(resumed) == comparable(start("serial", "scaffold"))


@pytest.mark.parametrize("kind", ["serial", "spilled", "workers"])
def test_samples_of_platforms_give_the_same_bits(kind: str, tmp_path: Path) -> None:
    rule = Participation(sample=2)
    done = start(kind, folder=tmp_path / "run", participation=rule)
    assert comparable(done) == comparable(start("serial", participation=rule))


def test_spawned_workers_give_the_same_bits() -> None:
    local = algorithm_named("fedner")
    with Workers(
        answers(random_platform, local), NAMES, initial(), workers=1, start="spawn"
    ) as engine:
        settings = RunSettings("test", 2, 8, SIZES)
        done = run(algorithm_named("fedner"), engine, initial(), settings, seed=7)
    serial = InProcess(answers(random_platform, local), NAMES)
    again = run(algorithm_named("fedner"), serial, initial(), settings, seed=7)
    assert comparable(done) == comparable(again)


def order(round_: int = 1) -> dict[str, Order]:
    one = Order("test", round_, initial(), batches=dict.fromkeys(NAMES, 2))
    return dict.fromkeys(NAMES, one)


def faulty(name: str) -> Platform:
    if name == "beta":
        raise FednerError("beta has no data", "Give it some.")
    if name == "delta":
        raise RuntimeError("patient Jane Doe")
    return random_platform(name)


@pytest.mark.parametrize("kind", ["serial", "bytes", "workers"])
def test_a_fault_is_the_platforms_own_and_tells_no_text(kind: str) -> None:
    engine = make(kind, "fedner", build=faulty)
    try:
        replies = {reply.platform: reply for reply in engine.ask(order())}
        again = list(engine.ask({"alpha": order(2)["alpha"]}))
    finally:
        engine.close()
    assert isinstance(replies["alpha"], Update)
    assert isinstance(replies["gamma"], Update)
    assert replies["beta"] == Failure("beta", 1, "error")
    assert replies["delta"] == Failure("delta", 1, "unexpected")
    assert isinstance(again[0], Update)


def suicidal(name: str) -> Platform:
    if name == "beta":
        os.kill(os.getpid(), signal.SIGKILL)
    return random_platform(name)


def test_a_dead_worker_is_a_failure_of_its_platforms() -> None:
    engine = make("workers", "fedner", build=suicidal)
    try:
        replies = {reply.platform: reply for reply in engine.ask(order())}
        dead = {name for name, reply in replies.items() if isinstance(reply, Failure)}
        assert "beta" in dead
        assert dead != set(NAMES)
        assert replies["beta"] == Failure("beta", 1, "worker-died")
        # The others go on; the worker is started again, dies again, and nothing hangs.
        for number in range(2, 8):
            later = {reply.platform: reply for reply in engine.ask(order(number))}
            assert later["beta"] == Failure("beta", number, "worker-died")
            assert isinstance(later[min(set(NAMES) - dead)], Update)
    finally:
        engine.close()


def test_a_round_that_is_given_up_does_not_spoil_the_next() -> None:
    engine = make("workers", "fedner")
    try:
        first = next(iter(engine.ask(order())))
        assert first.round == 1
        replies = list(engine.ask(order(2)))
        assert sorted(reply.platform for reply in replies) == NAMES
        assert {reply.round for reply in replies} == {2}
    finally:
        engine.close()


def test_closing_ends_every_process_and_may_be_done_twice() -> None:
    before = set(multiprocessing.active_children())
    engine = make("workers", "fedner")
    assert len(set(multiprocessing.active_children()) - before) == 2
    engine.close()
    engine.close()
    assert not set(multiprocessing.active_children()) - before


def test_an_order_larger_than_its_buffer_goes_through_the_pipe() -> None:
    local = algorithm_named("fedner")
    large = Partition(("w",), ()).shared_state({"w": torch.zeros(100_000)})
    with Workers(answers(random_platform, local), NAMES, initial(), workers=2) as engine:
        [reply] = engine.ask({"alpha": Order("t", 1, large, batches={"alpha": 1})})
        assert reply == Failure("alpha", 1, "order-refused"), "it is another model's"


def test_updates_larger_than_their_buffers_go_through_the_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = comparable(start("serial"))
    monkeypatch.setattr("fedner.engines.workers.room_for", lambda _: 1)
    assert comparable(start("workers")) == expected


def test_platforms_may_have_orders_of_their_own() -> None:
    one = order()["alpha"]
    orders = {name: replace(one, run=f"run {name}") for name in NAMES}
    engine = make("workers", "fedner")
    try:
        replies = {reply.platform: reply for reply in engine.ask(orders)}
    finally:
        engine.close()
    assert sorted(replies) == NAMES
    assert all(isinstance(reply, Update) for reply in replies.values())


def _serve_and_die(pipe: Any) -> None:
    engine = make("workers", "fedner")
    list(engine.ask(order()))
    pipe.send([child.pid for child in multiprocessing.active_children()])
    time.sleep(600)


def test_workers_end_when_their_parent_is_killed() -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    parent = context.Process(target=_serve_and_die, args=(there,))
    parent.start()
    children = here.recv()
    assert len(children) == 2
    assert parent.pid is not None
    os.kill(parent.pid, signal.SIGKILL)
    parent.join()
    for _ in range(1200):
        if not any(Path(f"/proc/{child}").exists() for child in children):
            return
        time.sleep(0.1)
    pytest.fail(f"workers {children} outlived their parent")


def test_platforms_are_dealt_by_their_load() -> None:
    loads = {"a": 5, "b": 4, "c": 3, "d": 3}
    assert deal_platforms(list("abcd"), loads, 2) == [["a", "d"], ["b", "c"]]
    assert deal_platforms(list("abcd"), {}, 2) == [["a", "c"], ["b", "d"]]
