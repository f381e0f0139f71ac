"""A summation from outside the package: pairwise masks that cancel, in three phases.

Phase 1: every platform sends each later one a seed. Phase 2: values in fixed point, plus the mask
of each seed that it sent, less that of each one that it got. Phase 3: those whose values came
reveal the seeds that they share with those who dropped out. A toy: the coordinator relays the seeds
in the clear.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "federated"))

from linear_platform import initial, random_platform

from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.errors import FednerError
from fedner.federated.aggregate import RULES
from fedner.federated.algorithms import fedner, scaffold
from fedner.federated.algorithms.algorithm import Algorithm
from fedner.federated.answering import answers
from fedner.federated.engine import Engine
from fedner.federated.messages import Order, SumMessage, Update
from fedner.federated.participation import Participation
from fedner.federated.platform import Contribution, Platform
from fedner.federated.run import RunRecord, RunSettings, run
from fedner.federated.summation import PLAIN, Relayed, Summation, relayed_entries, values_of

SIZES = {"alpha": 12, "beta": 10, "delta": 7, "gamma": 5}
NAMES = sorted(SIZES)
SCALE = 2.0**24


def mask(seed: int, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randint(-(2**62), 2**62, like[name].shape, generator=generator)
        for name in sorted(like)
    }


@dataclass
class MaskingPlatform:
    """A platform's side: it keeps the seeds of the round."""

    name: str
    seeds: dict[str, int] = field(default_factory=dict)

    def phase(self, order: Order) -> SumMessage:
        if order.phase == 1:
            later = [other for other in sorted(order.batches) if other > self.name]
            self.seeds = {other: int(torch.randint(2**40, ())) for other in later}
            entries = {other: seed.to_bytes(8, "little") for other, seed in self.seeds.items()}
            return SumMessage(self.name, order.round, 1, entries)
        gone = {name: seed for name, seed in self.seeds.items() if name not in order.batches}
        revealed = {name: torch.tensor([seed]) for name, seed in gone.items()}
        return SumMessage(self.name, order.round, order.phase, {}, revealed)

    def protect(self, order: Order, update: Update) -> SumMessage:
        got = {name: int.from_bytes(data, "little") for name, data in order.relayed.items()}
        # Of those who dropped out since, nobody else has the other half.
        self.seeds = {name: s for name, s in (self.seeds | got).items() if name in order.batches}
        hidden = {
            name: (tensor.double() * SIZES[self.name] * SCALE).round().long()
            for name, tensor in values_of(update).items()
        }
        for other, seed in self.seeds.items():
            for name, noise in mask(seed, hidden).items():
                hidden[name] += noise if other > self.name else -noise
        return SumMessage(self.name, order.round, order.phase, {}, hidden)


@dataclass
class MaskingServer:
    """The coordinator's side of one round."""

    def relay(self, phase: int, messages: Mapping[str, SumMessage]) -> Relayed:
        return relayed_entries(messages) if phase == 1 else {}

    def total(
        self, values: Mapping[str, SumMessage], after: Mapping[int, Mapping[str, SumMessage]]
    ) -> dict[str, Tensor]:
        first = next(iter(values.values())).tensors
        total = {name: torch.zeros_like(tensor) for name, tensor in first.items()}
        for message in values.values():
            for name, tensor in message.tensors.items():
                total[name] += tensor
        for survivor, message in after[3].items():
            for gone, seed in message.tensors.items():
                for name, noise in mask(int(seed), first).items():
                    total[name] -= noise if gone > survivor else -noise
        return {name: tensor.double() / SCALE for name, tensor in total.items()}


MASKED = Summation("pairwise masks", MaskingPlatform, MaskingServer, before=1, after=1)


def failing(work: object, platform: Platform, order: Order) -> Contribution:
    """The algorithm's local part, at a platform that falls over in round 2."""
    if (platform.name, order.round) == ("beta", 2):
        raise RuntimeError("the power went")
    return work(platform, order)  # type: ignore[operator, no-any-return]


def go(
    kind: str, algorithm: Algorithm, summation: Summation, *, is_failing: bool = False
) -> RunRecord:
    falling = replace(algorithm, local=partial(failing, algorithm.local))
    made = answers(random_platform, falling if is_failing else algorithm, summation=summation)
    engine: Engine = (
        Workers(made, NAMES, initial(), workers=2)
        if kind == "workers"
        else InProcess(made, NAMES, as_bytes=kind == "bytes")
    )
    quorum = Participation(quorum=3) if is_failing else Participation()
    plan = RunSettings("test", 3, 8, SIZES, participation=quorum, summation=summation)
    try:
        return run(algorithm, engine, initial(), plan, 7)
    finally:
        engine.close()


def assert_close(one: RunRecord, other: RunRecord) -> None:
    for name, tensor in one.server.shared.items():
        assert torch.allclose(tensor, other.server.shared[name], atol=1e-5)


@pytest.mark.parametrize("kind", ["serial", "bytes", "workers"])
@pytest.mark.parametrize("algorithm", [fedner(), scaffold()], ids=["fedner", "scaffold"])
def test_masked_values_come_to_the_plain_sum(kind: str, algorithm: Algorithm) -> None:
    masked = go(kind, algorithm, MASKED)
    assert_close(masked, go("serial", algorithm, PLAIN))
    first = masked.rounds[0]
    assert set(first.bytes_up) == set(NAMES)
    assert not first.norms, "nobody could see a norm"
    assert not first.losses


@pytest.mark.parametrize("kind", ["serial", "workers"])
def test_a_platform_that_drops_out_after_the_masks_were_agreed(kind: str) -> None:
    masked = go(kind, fedner(), MASKED, is_failing=True)
    assert_close(masked, go("serial", fedner(), PLAIN, is_failing=True))
    gone = [(each.platform, each.verb, each.code) for each in masked.rounds[1].failures]
    assert gone == [("beta", "round", "unexpected")]
    assert not masked.rounds[2].failures, "it is back"


def test_what_leaves_is_masked() -> None:
    order = Order("test", 1, initial(), batches=dict.fromkeys(NAMES, 2), phase=1, verb="sum")
    own = MaskingPlatform("alpha")
    own.phase(order)
    update = Update("alpha", 1, initial(1.0, 2.0))
    sent = own.protect(order, update).tensors["tensors/shared.a"]
    assert abs(int(sent)) > 1e12, "of 1.0 nothing is to be seen"


def test_updates_that_nobody_sees_have_no_median() -> None:
    engine = InProcess(answers(random_platform, fedner(), summation=MASKED), NAMES)
    plan = RunSettings("test", 1, 8, SIZES, summation=MASKED, rule=RULES["median"])
    with pytest.raises(FednerError, match="'pairwise masks' with another rule than the mean"):
        run(fedner(), engine, initial(), plan, 7)
