"""What a platform refuses of a broadcast, whatever the engine: by public facts alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from linear_platform import initial, linear_partition, random_platform
from tagger_platforms import NAMES, first_shared, tagger_platform
from torch import Tensor

from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.errors import FednerError
from fedner.federated import orders
from fedner.federated.algorithms import fedner, scaffold
from fedner.federated.answering import answers
from fedner.federated.dp_steps import DPSteps
from fedner.federated.engine import Engine
from fedner.federated.messages import Failure, Order, Update
from fedner.federated.orders import OrderRefusedError, PublicPlan, RoundPassedError
from fedner.federated.platform import LocalSettings, Platform, platform
from fedner.privacy.accountant import epsilon
from fedner.privacy.budget import Budget
from fedner.privacy.entropy import SystemEntropy
from fedner.privacy.ledger import Ledger
from fedner.privacy.mechanisms import UNIT_LOCAL, PlatformPrivacy
from fedner.privacy.sampling import Units
from fedner.tensors import SharedState

PLAN = PublicPlan({"alpha": 12, "beta": 6}, 6, "joint", 20)
GOOD = Order("run", 3, initial(), batches={"alpha": 4, "beta": 2})


def altered(**tensors: Tensor | None) -> SharedState:
    named: dict[str, Any] = {
        **initial(),
        **{f"shared.{name}": each for name, each in tensors.items()},
    }
    return SharedState({name: each for name, each in named.items() if each is not None})


ONE = torch.ones(1)
SPOILT = {
    "round 0": replace(GOOD, round=0),
    "round below": replace(GOOD, round=-3),
    "round true": replace(GOOD, round=True),
    "round text": replace(GOOD, round="3"),  # type: ignore[arg-type]
    "round fraction": replace(GOOD, round=3.0),  # type: ignore[arg-type]
    "round beyond the study": replace(GOOD, round=21),
    "no run": replace(GOOD, run=""),
    "run of control characters": replace(GOOD, run="\x1b[2J"),
    "run beyond all length": replace(GOOD, run="x" * 501),
    "not chosen": replace(GOOD, batches={"beta": 6}),
    "batch 0": replace(GOOD, batches={"alpha": 0, "beta": 2}),
    "batch true": replace(GOOD, batches={"alpha": True, "beta": 2}),
    "batch of another study": replace(GOOD, batches={"alpha": 5, "beta": 2}),
    "whole batch": replace(GOOD, batches={"alpha": 12, "beta": 6}),
    "unknown platform": replace(GOOD, batches={"alpha": 4, "gamma": 2}),
    "no batches": replace(GOOD, batches=[4]),  # type: ignore[arg-type]
    "not a number": replace(GOOD, shared=altered(a=ONE * float("nan"))),
    "infinite": replace(GOOD, shared=altered(b=ONE * float("inf"))),
    "absurdly large": replace(GOOD, shared=altered(b=ONE * -1.1e6)),
    "missing name": replace(GOOD, shared=altered(a=None)),
    "another name": replace(GOOD, shared=altered(c=ONE)),
    "a private name": replace(GOOD, shared=SharedState({**initial(), "private.c": ONE})),
    "shape": replace(GOOD, shared=altered(a=torch.ones(2))),
    "broadcast shape": replace(GOOD, shared=altered(a=torch.ones(()))),
    "double": replace(GOOD, shared=altered(a=ONE.double())),
    "half": replace(GOOD, shared=altered(a=ONE.half())),
    "whole numbers": replace(GOOD, shared=altered(a=ONE.int())),
    "sparse": replace(GOOD, shared=altered(a=ONE.to_sparse())),
    "no tensor": replace(GOOD, shared=altered(a=1.0)),  # type: ignore[arg-type]
    "extra of nobody": replace(GOOD, extra=initial()),
}  # fmt: skip


def planned(name: str = "alpha") -> Platform:
    own = random_platform(name)
    own.plan = PLAN
    return own


def test_the_good_order_is_taken() -> None:
    assert planned().run_round(fedner(), GOOD).round == 3


@pytest.mark.parametrize("name", SPOILT)
def test_an_order_that_is_not_the_studys_is_refused_before_anything_is_done(name: str) -> None:
    own = planned()
    before = own.state()
    with pytest.raises(OrderRefusedError, match="platform 'alpha' refuses the order"):
        own.run_round(fedner(), SPOILT[name])
    assert own.learner.seen == []  # type: ignore[attr-defined]
    after = own.state()
    assert after.facts == before.facts
    assert all(torch.equal(after.tensors[key], each) for key, each in before.tensors.items())


@pytest.mark.parametrize("name", ["round 0", "not a number", "shape", "no run"])
def test_scores_are_computed_for_no_such_order_either(name: str) -> None:
    with pytest.raises(OrderRefusedError):
        planned().scores(SPOILT[name])


def test_extras_are_those_of_the_algorithm() -> None:
    local = scaffold()
    own = random_platform("alpha")
    good = Order("run", 1, initial(), initial(), {"alpha": 4})
    with pytest.raises(OrderRefusedError, match="extra"):
        own.run_round(local, replace(good, extra=SharedState({})))
    with pytest.raises(OrderRefusedError, match="not finite"):
        own.run_round(local, replace(good, extra=altered(a=ONE * float("nan"))))
    assert own.run_round(local, good).extra


@pytest.mark.parametrize("kind", ["serial", "workers"])
@pytest.mark.parametrize("name", ["round 0", "not a number", "whole batch"])
def test_every_engine_tells_the_server_the_same_words(kind: str, name: str) -> None:
    local, engine = fedner(), None
    try:
        engine = _engine(kind, local)
        [reply] = list(engine.ask({"alpha": SPOILT[name]}))
        [sound] = list(engine.ask({"alpha": GOOD}))
    finally:
        if engine is not None:
            engine.close()
    assert isinstance(reply, Failure)
    words = "it refused the order, which does not fit its study"
    assert (reply.code, reply.message) == ("order-refused", words)
    assert isinstance(sound, Update)


def _engine(kind: str, local: Any) -> Engine:
    if kind == "serial":
        return InProcess(answers(planned, local), ["alpha", "beta"])
    return Workers(answers(planned, local), ["alpha", "beta"], initial(), workers=2)


# Fixed rows.


@pytest.mark.parametrize("is_scaffold", [False, True])
def test_padding_rows_are_never_taken_from_a_broadcast(
    is_scaffold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "MOST_WEIGHT", 3.4e38)  # even if nothing else kept them out
    name, table = NAMES[0], "embeddings.characters.embedding.weight"
    own = tagger_platform(name, trainable_words=True, dropout=0.0)
    assert set(own.fixed_rows) == {table, "embeddings.words.weight"}
    shared = first_shared(trainable_words=True, dropout=0.0)
    hostile = SharedState({key: tensor.clone() for key, tensor in shared.items()})
    extra = SharedState({key: torch.zeros_like(tensor) for key, tensor in shared.items()})
    for key, row in own.fixed_rows.items():
        hostile[key][row] = 3e38
        extra[key][row] = 3e38
    algorithm = scaffold() if is_scaffold else fedner()
    empty = SharedState({})
    order = Order("run", 1, hostile, extra if is_scaffold else empty, {name: 8})
    before = hostile[table].clone()
    update = own.run_round(algorithm, order)
    for key, row in own.fixed_rows.items():
        assert not bool(own.shared()[key][row].any())
        assert not bool(update.tensors[key][row].any())
    assert torch.equal(hostile[table], before), "the server's own tensors are not written to"
    if not is_scaffold:
        honest = tagger_platform(name, trainable_words=True, dropout=0.0)
        expected = honest.run_round(algorithm, replace(order, shared=shared))
        assert all(torch.equal(update.tensors[key], each) for key, each in expected.tensors.items())


# Rounds.


def sliced(folder: Path) -> Platform:
    """A deployed platform with three slices of its sentences, a round each, and a ledger."""
    privacy = PlatformPrivacy(UNIT_LOCAL, 1.0, 2.0, 12, num_slices=3, source=SystemEntropy())
    pools = tuple(
        Units("sentence", tuple((at,) for at in range(12) if at % 3 == part)) for part in range(3)
    )
    ledger = Ledger.open(folder / "ledger", Budget(100.0, 1e-5, "sentence", accountant="rdp"))
    steps = DPSteps(privacy, pools, ledger)
    learner = random_platform("alpha").learner
    settings = LocalSettings(rounds_per_slice=1)
    return platform("alpha", learner, linear_partition(), 7, settings, privacy=steps)


def test_rounds_below_one_book_no_slice_twice(tmp_path: Path) -> None:
    """Round 0 drew from the last slice under another name: each name was charged by itself."""
    own = sliced(tmp_path)
    drawn: list[int] = []
    assert own.privacy is not None
    pools, ledger = own.privacy.pools, own.privacy.ledger
    assert ledger is not None
    for number in (0, -1, -2, 1, 2, 3, 4):
        order = Order("run", number, initial(), batches={"alpha": 2})
        if number < 1:
            with pytest.raises(OrderRefusedError):
                own.run_round(fedner(), order)
        else:
            own.run_round(fedner(), order)
            drawn.append(own.privacy.turn)
    assert drawn == [0, 1, 2, 2]
    charged = [entry.event.slice.name for entry in ledger.releases]  # type: ignore[union-attr]
    assert charged == ["0", "1", "2", "2"]
    # The truth, by slices: the last one was drawn from twice.
    event = own.privacy.settings.event(2, 2, 2)
    assert ledger.spent().rdp == pytest.approx(epsilon([event], 1e-5).rdp)
    assert len(pools) == 3
    with pytest.raises(FednerError, match="slice -1"):
        own.privacy.begin(-1)
    with pytest.raises(FednerError, match="slice 3"):
        own.privacy.settings.event(2, 1, 3)
    own.close()


def asks(number: int, shift: float = 0.0) -> Order:
    return Order("run", number, initial(shift), batches={"alpha": 2})


def test_an_earlier_round_comes_from_the_record_or_not_at_all(tmp_path: Path) -> None:
    own = sliced(tmp_path)
    first = own.run_round(fedner(), asks(1))
    own.run_round(fedner(), asks(3))
    for order in (asks(1, 0.5), asks(2)):
        with pytest.raises(RoundPassedError):
            own.run_round(fedner(), order)
    again = own.run_round(fedner(), asks(1))
    assert all(torch.equal(again.tensors[key], each) for key, each in first.tensors.items())
    with pytest.raises(RoundPassedError):  # though its state is now that after round 1
        own.run_round(fedner(), asks(2))
    own.close()
    own = sliced(tmp_path)  # and after a restart, from the beginning
    with pytest.raises(RoundPassedError):
        own.run_round(fedner(), asks(2))
    assert own.run_round(fedner(), replace(asks(1), run="another")).round == 1
    assert own.run_round(fedner(), asks(4)).round == 4
    own.close()


def test_without_a_ledger_an_earlier_round_is_refused_too() -> None:
    own = random_platform("alpha")
    own.run_round(fedner(), asks(5))
    with pytest.raises(RoundPassedError):
        own.run_round(fedner(), asks(4))
    assert own.run_round(fedner(), asks(5)).round == 5


def test_weights_that_change_after_the_check_are_not_used() -> None:
    """An order lies in memory that the engine can write to: a worker takes a copy first."""
    from fedner.engines.buffers import shared_buffer
    from fedner.engines.frames import ORDER, Frame
    from fedner.engines.worker import ORDER_START, WorkerJob, _Worker
    from fedner.federated.message_bytes import pack_message

    buffer = shared_buffer(4096, "fork")
    packed = pack_message(Order("run", 1, initial(1.0, 2.0), batches={"alpha": 4}))
    packed.write(buffer[ORDER_START:])
    buffer[:8].view(torch.int64)[0] = 7
    job = WorkerJob(answers(planned, fedner()), ["alpha"], None, buffer, [])
    worker = _Worker(job, None)  # type: ignore[arg-type]
    task = worker._task(Frame(ORDER, 7, length=packed.num_bytes, rest=b'["alpha"]'))
    buffer[ORDER_START:] = 255
    assert task.order is not None
    assert float(task.order.shared["shared.a"]) == 1.0
    # And an order that was overwritten by that of a later call is not taken for it.
    assert worker._task(Frame(ORDER, 6, length=packed.num_bytes, rest=b'["alpha"]')).order is None
