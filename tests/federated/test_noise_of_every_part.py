"""Noise where nothing else would show its absence: the private part, and each of the rounds."""

from collections.abc import Collection
from itertools import combinations, pairwise

import pytest
import torch
from linear_platform import LinearLearner, linear_partition
from torch import Tensor

from fedner.engines.in_process import InProcess
from fedner.federated.algorithms import FednerSettings, fedner
from fedner.federated.answering import answers
from fedner.federated.dp_steps import DPSteps
from fedner.federated.messages import Order
from fedner.federated.platform import LocalSettings, Platform, platform
from fedner.federated.run import RunSettings, run
from fedner.federated.server_noise import ServerNoise
from fedner.optimizers import OptimizerSettings
from fedner.privacy.entropy import SeededSimulation, Source, SystemEntropy
from fedner.privacy.mechanisms import UNIT_CENTRAL, PlatformPrivacy
from fedner.privacy.noise import Clipped, clip
from fedner.privacy.sampling import Units
from fedner.tensors import SharedState
from sigmas import Z, accepts

WIDE = 40_000
RATE = 0.5


class Silent(LinearLearner):
    """Many weights whose gradients are zero: what its steps move is noise alone."""

    def __init__(self) -> None:
        super().__init__([[0.0, 0.0, 0.0]], [0.0])
        for name in self._weights:
            self._weights[name] = torch.zeros(WIDE)
        self.broadcast: list[Tensor] = []  # a shared weight, as it came in each round

    def clipped(self, draw: object, norm: float, names: Collection[str], *rest: object) -> Clipped:  # type: ignore[override]
        del draw, rest
        now = self._weights["shared.a"]
        if not self.broadcast or not torch.equal(self.broadcast[-1], now):
            self.broadcast.append(now.clone())
        return clip({name: torch.zeros(WIDE) for name in names}, norm)


def silent(source: Source, **changes: object) -> Platform:
    settings = PlatformPrivacy(UNIT_CENTRAL, 3.0, 0.5, 4, source=source, **changes)  # type: ignore[arg-type]
    steps = DPSteps(settings, (Units("sentence", ((0,),)),))
    local = LocalSettings(OptimizerSettings("sgd", RATE), max_grad_norm=None)
    return platform("a", Silent(), linear_partition(), 7, local, privacy=steps)


def zeros() -> SharedState:
    names = ("private.c", "shared.a", "shared.b")
    return linear_partition().shared_state({name: torch.zeros(WIDE) for name in names})


def correlation(left: Tensor, right: Tensor) -> float:
    return abs(float(torch.corrcoef(torch.stack([left, right]))[0, 1]))


@pytest.mark.parametrize("source", [SeededSimulation(5), SystemEntropy()], ids=["seeded", "system"])
def test_with_noise_at_the_server_the_private_part_is_noised_at_home(source: Source) -> None:
    own = silent(source)
    before = own.private()["private.c"].clone()
    broadcast = Order("run", 1, zeros(), batches={"a": 2})
    update = own.run_round(fedner(FednerSettings()), broadcast)
    assert all(not bool(tensor.any()) for tensor in update.tensors.values()), "the server noises it"
    moved = own.private()["private.c"] - before
    sigma = RATE * 0.5 * 3.0 / 2  # the expected size is 2
    assert accepts(moved, sigma)
    assert not accepts(moved, sigma * 2 / 3)
    assert not accepts(moved, sigma * 3 / 2)


def test_a_frozen_private_part_needs_no_noise_at_home() -> None:
    own = silent(SeededSimulation(5), private_part="frozen")
    update = own.run_round(fedner(), Order("run", 1, zeros(), batches={"a": 2}))
    assert set(update.tensors) == {"shared.a", "shared.b"}
    assert not bool(own.private()["private.c"].any())


def noises(source: Source) -> list[Tensor]:
    """What each of three rounds added to a shared weight, from a run whose sums are zero."""
    algorithm = fedner(FednerSettings(server_optimizer=OptimizerSettings("sgd", RATE)))
    own = silent(source)
    engine = InProcess(answers(lambda _: own, algorithm), ["a"])
    noise = ServerNoise(UNIT_CENTRAL, 3.0, 0.5, source=source)
    done = run(algorithm, engine, zeros(), RunSettings("dp", 3, 2, {"a": 4}, noise=noise), 7)
    assert isinstance(own.learner, Silent)
    assert len(own.learner.broadcast) == 3
    states = [*own.learner.broadcast, done.server.shared["shared.a"]]
    return [after - before for before, after in pairwise(states)]


@pytest.mark.parametrize("source", [SeededSimulation(5), SystemEntropy()], ids=["seeded", "system"])
def test_the_server_noises_every_round_afresh(source: Source) -> None:
    """Two rounds with the same noise: their difference would be the sums themselves."""
    rounds = noises(source)
    for left, right in combinations(rounds, 2):
        assert correlation(left, right) < Z / WIDE**0.5
    sigma = RATE * 0.5 * 3.0 / 2
    for each in rounds:
        assert accepts(each, sigma)
        assert not accepts(each, sigma * 2 / 3)
        assert not accepts(each, sigma * 3 / 2)
    again = noises(source)[0]
    if source.is_simulation:
        assert torch.equal(rounds[0], again), "a simulation can be repeated"
        other = noises(SeededSimulation(6))[0]
        assert correlation(rounds[0], other) < Z / WIDE**0.5
    else:
        assert correlation(rounds[0], again) < Z / WIDE**0.5
