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
from tiny_federation import BYTES, SIZE, WORKERS, settings
from tiny_federation import NAMES as PLATFORMS
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
from fedner.federated.contribution import Contribution
from fedner.federated.engine import Engine
from fedner.federated.messages import Order, SumMessage, Update
from fedner.federated.participation import Participation
from fedner.federated.platform import Platform
from fedner.federated.run import RunRecord, RunSettings, run
from fedner.federated.summation import PLAIN, Relayed, Summation, relayed_entries, values_of
from fedner.runs.folder import RunFolder
from fedner.runs.simulation import train_run

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

    sizes: Mapping[str, int]
    name: str
    seeds: dict[str, int] = field(default_factory=dict)

    def num_sent(self, order: Order) -> int:  # noqa: ARG002 - of the protocol
        return 0

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
            name: (tensor.double() * self.sizes[self.name] * SCALE).round().long()
            for name, tensor in values_of(update).items()
        }
        for other, seed in self.seeds.items():
            for name, noise in mask(seed, hidden).items():
                hidden[name] += noise if other > self.name else -noise
        return SumMessage(self.name, order.round, order.phase, {}, hidden)


@dataclass
class MaskingServer:
    """The coordinator's side of one round."""

    order: Order

    def relay(self, phase: int, messages: Mapping[str, SumMessage]) -> Relayed:
        return relayed_entries(messages) if phase == 1 else {}

    def can_open(self, shares: Mapping[str, SumMessage]) -> bool:  # noqa: ARG002 - of the protocol
        return False  # all have to come

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


def masked_sum(sizes: Mapping[str, int]) -> Summation:
    at_platform = partial(MaskingPlatform, sizes)
    return Summation("pairwise masks", at_platform, MaskingServer, before=1, after=1)


MASKED = masked_sum(SIZES)


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
    own = MaskingPlatform(SIZES, "alpha")
    own.phase(order)
    update = Update("alpha", 1, initial(1.0, 2.0))
    sent = own.protect(order, update).tensors["tensors/shared.a"]
    assert abs(int(sent)) > 1e12, "of 1.0 nothing is to be seen"


def test_updates_that_nobody_sees_have_no_median() -> None:
    engine = InProcess(answers(random_platform, fedner(), summation=MASKED), NAMES)
    plan = RunSettings("test", 1, 8, SIZES, summation=MASKED, rule=RULES["median"])
    with pytest.raises(FednerError, match="'pairwise masks' with another rule than the mean"):
        run(fedner(), engine, initial(), plan, 7)


FEDAVG = 'algorithm={name="fedavg",local={steps=2,optimizer={name="sgd",learning_rate=0.1}}}'
HIDDEN = masked_sum(dict.fromkeys(PLATFORMS, SIZE))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A whole run of the public simulation, summed in the clear."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    train_run(settings(FEDAVG), folder)
    return RunFolder(folder)


@pytest.mark.parametrize("engine", ["engine.workers=0", BYTES, WORKERS])
def test_a_whole_run_comes_to_the_plain_sum(engine: str, plain: RunFolder, tmp_path: Path) -> None:
    train_run(settings(FEDAVG, engine), tmp_path / "run", summation=HIDDEN)
    done = RunFolder(tmp_path / "run")
    found, expected = done.shared(2), plain.shared(2)
    assert found.keys() == expected.keys()
    assert all(torch.allclose(found[name], expected[name], atol=1e-6) for name in expected)
    assert plain.rounds()[0].norms
    assert not done.rounds()[0].norms, "nobody could see a norm"
    for name in PLATFORMS:
        sent = done.site(name).read("disclosure.json")
        assert (sent["updates"], sent["training_losses"]) == (2, 0)


def test_a_run_is_not_resumed_with_another(plain: RunFolder) -> None:
    with pytest.raises(FednerError, match="another summation 'plain', now 'pairwise masks'"):
        train_run(settings(FEDAVG), plain.path, resume=True, summation=HIDDEN)


def test_what_hidden_updates_cost_stands_in_the_ledgers(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    dp = "mechanism='platform',simulation=true,noise_multiplier=2.0,delta=0.01"
    with pytest.raises(FednerError, match="no ledgers"):
        train_run(settings(FEDAVG, f"privacy={{{dp}}}"), tmp_path / "run", summation=HIDDEN)
    assert not list(tmp_path.iterdir())
    charged = settings(FEDAVG, f"privacy={{{dp},budget=50.0}}")
    train_run(charged, tmp_path / "run", summation=HIDDEN)
    spent = RunFolder(tmp_path / "run").read("privacy.json")["platforms"]
    assert [each["steps"] for each in spent.values()] == [2, 2]
