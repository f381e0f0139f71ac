"""Distributed noise under a real secure sum: on what is opened, after drop-outs, when retried."""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import torch
from linear_platform import LinearLearner, linear_partition
from torch import Tensor

from fedner.engines.in_process import InProcess
from fedner.errors import FednerError
from fedner.federated.algorithms import FednerSettings, fedner
from fedner.federated.answering import Answering
from fedner.federated.dp_steps import DPSteps
from fedner.federated.grid import Grid
from fedner.federated.messages import Order, Reply, failure
from fedner.federated.participation import Participation
from fedner.federated.platform import LocalSettings, Platform, platform
from fedner.federated.run import RunSettings, run
from fedner.federated.secure.identities import SimulatedIdentity
from fedner.federated.secure.plan import SumPlan
from fedner.federated.secure_sum import secure_sum
from fedner.federated.server_noise import server_noise
from fedner.federated.summation import PLAIN, Summation
from fedner.optimizers import OptimizerSettings
from fedner.privacy.budget import Budget
from fedner.privacy.entropy import SeededSimulation, Source, SystemEntropy
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger
from fedner.privacy.ledger_owner import open_ledger
from fedner.privacy.mechanisms import DISTRIBUTED, PlatformPrivacy
from fedner.privacy.noise import Clipped, clip
from fedner.privacy.noise_shares import JointSum, grid_step
from fedner.privacy.sampling import Units
from fedner.privacy.sum_terms import SumTerms
from fedner.tensors import SharedState
from sigmas import Z, only

WIDE, BOUND, MULTIPLIER, BATCH = 20_000, 3.0, 0.5, 2
NAMES = ("a", "b", "c", "d")
TERMS = SumTerms(4, 1, quorum=3)
STUDY = "5" * 64
SGD = OptimizerSettings("sgd", 1.0)


class Silent(LinearLearner):
    """Many weights whose gradients are zero: what its steps move is noise alone."""

    def __init__(self) -> None:
        super().__init__([[0.0, 0.0, 0.0]], [0.0])
        for name in self._weights:
            self._weights[name] = torch.zeros(WIDE)

    def clipped(self, draw: object, norm: float, names: Collection[str], *rest: object) -> Clipped:  # type: ignore[override]
        del draw, rest
        return clip({name: torch.zeros(WIDE, dtype=torch.float64) for name in names}, norm)


def privacy_of(source: Source, terms: SumTerms = TERMS) -> PlatformPrivacy:
    joint = JointSum(terms, 2 * WIDE)
    return PlatformPrivacy(DISTRIBUTED, BOUND, MULTIPLIER, 4, source=source, joint=joint)


def built(source: Source, ledgers: Path | None, name: str) -> Platform:
    held = None if ledgers is None else Ledger.open(ledgers / name)
    steps = DPSteps(privacy_of(source), (Units("sentence", ((0,),)),), held)
    local = LocalSettings(SGD, max_grad_norm=None)
    return platform(name, Silent(), linear_partition(), 7, local, privacy=steps)


def summed(terms: SumTerms = TERMS, record: Path | None = None) -> Summation:
    plan = SumPlan(terms, Grid(grid_step(BOUND)), dict.fromkeys(NAMES, 1.0), 1.0)
    return secure_sum(plan, partial(SimulatedIdentity, STUDY), record)


@dataclass
class Failing:
    """A platform that is gone from a phase on."""

    inner: Answering
    gone_from: int
    log: list[Reply] = field(default_factory=list)

    def __call__(self, order: Order) -> Reply:
        if order.phase >= self.gone_from:
            return failure(self.inner.name, order.round, "platform-gone")
        self.log.append(self.inner(order))
        return self.log[-1]

    def rest(self) -> None:
        self.inner.rest()

    def close(self) -> None:
        self.inner.close()


def zeros() -> SharedState:
    names = ("private.c", "shared.a", "shared.b")
    return linear_partition().shared_state({name: torch.zeros(WIDE) for name in names})


def opened(
    source: Source,
    summation: Summation,
    gone: dict[str, int] | None = None,
    ledgers: Path | None = None,
) -> Tensor:
    """What one round with a step of 1 along the mean moved the shared weights by."""
    algorithm = fedner(FednerSettings(server_optimizer=SGD, batching="each"))

    def answer(name: str) -> Failing:
        make = partial(built, source, ledgers)
        own = summation if ledgers is None else summed(record=ledgers / f"{name}-sums")
        inner = Answering(name, make, algorithm, study=STUDY, summation=own)
        return Failing(inner, (gone or {}).get(name, 99))

    settings = RunSettings(
        "run", 1, BATCH, dict.fromkeys(NAMES, 4), Participation(quorum=3),
        noise=server_noise(privacy_of(source)), study=STUDY, summation=summation,
    )  # fmt: skip
    engine = InProcess(answer, NAMES)
    try:
        done = run(algorithm, engine, zeros(), settings, 7)
    finally:
        engine.close()
    return torch.cat([done.server.shared[name] for name in ("shared.a", "shared.b")])


@pytest.mark.parametrize("source", [SeededSimulation(5), SystemEntropy()], ids=["seeded", "system"])
def test_the_opened_sum_has_all_shares_and_nothing_else(source: Source) -> None:
    # Shares are made for 3 - 1 platforms; four survive: twice the variance that was charged.
    everybody = opened(source, summed())
    assert only(everybody, MULTIPLIER * BOUND * 2**0.5 / (4 * BATCH))
    step = grid_step(BOUND) / (4 * BATCH)
    assert torch.equal((everybody.double() / step).round(), everybody.double() / step)


@pytest.mark.parametrize("phase", [2, 3])
def test_after_a_drop_out_there_is_still_noise_for_the_honest_ones(phase: int) -> None:
    fewer = opened(SystemEntropy(), summed(), {"b": phase})
    assert only(fewer, MULTIPLIER * BOUND * 1.5**0.5 / (3 * BATCH))


def test_with_fewer_than_the_noise_was_made_for_nothing_is_opened() -> None:
    with pytest.raises(FednerError):
        opened(SystemEntropy(), summed(), {"b": 3, "c": 3})


def test_a_secure_sum_comes_to_the_bits_of_the_plain_one() -> None:
    source = SeededSimulation(5)
    assert torch.equal(opened(source, summed()), opened(source, PLAIN))


def test_a_round_that_is_asked_for_again_has_fresh_noise_and_is_charged_again(
    tmp_path: Path,
) -> None:
    """Two sums of the same noised updates over different platforms could be subtracted."""
    for name in NAMES:
        open_ledger(tmp_path / name, Budget(1e4, 1e-5, "sentence", accountant="rdp"), 4)
    first = opened(SystemEntropy(), summed(), ledgers=tmp_path)
    again = opened(SystemEntropy(), summed(), {"d": 3}, ledgers=tmp_path)
    assert abs(float(torch.corrcoef(torch.stack([first, again]))[0, 1])) < Z / len(first) ** 0.5
    assert only(4 * first - 3 * again, MULTIPLIER * BOUND * (2 + 1.5) ** 0.5 / BATCH)
    for name in NAMES:
        with Ledger.open(tmp_path / name) as held:
            charged = [each.event for each in held.releases]
        assert len(charged) == (1 if name == "d" else 2)
        assert all(isinstance(e, GaussianRelease) and e.discrete is not None for e in charged)


def test_what_never_left_is_not_charged_again(tmp_path: Path) -> None:
    """Killed before the masked values left: the stored release goes out, at no new cost."""
    open_ledger(tmp_path / "a", Budget(1e4, 1e-5, "sentence", accountant="rdp"), 4)
    order = Order("run", 1, zeros(), batches={"a": BATCH}, study=STUDY)
    sent = []
    for _ in range(2):
        own = built(SystemEntropy(), tmp_path, "a")
        sent.append(own.run_round(fedner(), order).tensors["shared.a"])
        own.close()
    assert torch.equal(*sent)


def test_noise_alone_is_a_share_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform whose work fails puts its share of the noise in: nobody can tell."""
    own = built(SystemEntropy(), None, "a")
    order = Order("run", 1, zeros(), batches={"a": BATCH}, study=STUDY)
    algorithm = fedner(FednerSettings(server_optimizer=SGD))

    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Silent, "clipped", broken)
    assert own.privacy is not None
    own.privacy._dtypes = dict.fromkeys(order.shared, torch.float64)  # the check came before
    update = own.run_round(algorithm, order)
    for tensor in update.tensors.values():
        assert only(tensor, MULTIPLIER * BOUND / 2**0.5)
        steps = tensor / grid_step(BOUND)
        assert torch.equal(steps, steps.round())
