"""A mechanism from outside the package, with an accounting event of its own, run in a federation.

Clipping by layer (McMahan et al. 2018, section 2.2, "per-layer clipping"): each of T tensors of a
platform's update is clipped at C by itself and gets noise N(0, (multiplier * C)^2). That is T
Gaussian releases at once; together they are one with multiplier / sqrt(T), which is what its event
tells the accountant.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_federation import BYTES, WORKERS, settings
from tiny_federation import NAMES as PLATFORMS
from torch import Tensor

from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.errors import FednerError
from fedner.federated.algorithms import FedAvgSettings, LocalTraining, fedavg, scaffold
from fedner.federated.answering import answers
from fedner.federated.dp_steps import DPSteps
from fedner.federated.messages import Order
from fedner.federated.platform import Platform, platform
from fedner.federated.run import RunRecord, RunSettings, run
from fedner.models.partition import partition
from fedner.privacy.accountant import noise_for, pld_epsilon
from fedner.privacy.budget import Budget
from fedner.privacy.entropy import SeededSimulation, Source, SystemEntropy
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger
from fedner.privacy.ledger_owner import open_ledger
from fedner.privacy.mechanisms import Asked, Mechanism, PlatformPrivacy
from fedner.privacy.noise import Clipped, clip, gaussian
from fedner.privacy.sampling import PoissonSample
from fedner.runs.coordinator import coordinate
from fedner.runs.folder import RunFolder
from fedner.runs.privacy_record import run_spent
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import open_sites, train_run
from fedner.runs.site import open_site
from fedner.runs.site_answer import SiteAnswer
from fedner.settings import SettingProblem, Settings, platform_settings_of
from fedner.tensors import SharedState
from seeded_keys import seeded_keys

TRUST = "Every platform noised its tensors one by one; the server need not be trusted."
WIDE, BOUND, MULTIPLIER, DELTA = 4_000, 2.0, 3.0, 1e-5
SIZES = {"p": 6, "q": 6}
SPLIT = partition(["private.c", "shared.a", "shared.b"], ["shared"])


def event(
    num_tensors: int, privacy: PlatformPrivacy, batch: int, steps: int, turn: int
) -> GaussianRelease:
    del batch, steps, turn  # one release a round, whatever led to it
    return GaussianRelease(
        noise_multiplier=privacy.noise_multiplier / math.sqrt(num_tensors),
        sampling_probability=1.0,
        unit="platform",
        max_norm=privacy.max_grad_norm,
        public_units=1,
        adjacency="replace_one",
        is_simulation=privacy.source.is_simulation,
    )


def problems(asked: Asked) -> Iterator[SettingProblem]:
    if asked.has_extra:
        yield SettingProblem("algorithm.name", repr(asked.algorithm), "one update and no extras")


def on_update(privacy: PlatformPrivacy, tensors: SharedState, source: Source) -> SharedState:
    noised = {}
    for name, tensor in tensors.items():
        clipped = clip({name: tensor}, privacy.max_grad_norm)
        noised.update(gaussian(clipped, privacy.noise_multiplier, source.at(name)).value)
    return SharedState(noised)


def per_layer(num_tensors: int) -> Mechanism:
    return Mechanism(
        "per-layer",
        partial(event, num_tensors),
        problems,
        TRUST,
        on_update=on_update,
        adjacency="replace_one",
    )


@dataclass
class Pull:
    """Pulls every weight towards 1: a gradient of w - 1, the same for all sentences."""

    held: dict[str, Tensor] = field(
        default_factory=lambda: {
            name: torch.zeros(WIDE) for name in ("private.c", "shared.a", "shared.b")
        }
    )

    def weights(self) -> Mapping[str, Tensor]:
        return self.held

    def drawable(self) -> NDArray[np.int64]:
        return np.arange(6)

    def gradients(
        self, sentences: NDArray[np.int64], seed: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        del sentences, seed
        return torch.zeros(()), {name: weight - 1 for name, weight in self.held.items()}

    def clipped(
        self, sample: PoissonSample, bound: float, names: Collection[str], loss: str, seed: int
    ) -> Clipped:
        raise AssertionError(sample, bound, names, loss, seed)  # no unit is sampled

    def scores(self) -> None:
        return None

    def sentence_counts(self) -> None:
        return None


def protected(folder: Path | None, source: Source, budget: float, name: str) -> Platform:
    privacy = PlatformPrivacy(per_layer(2), BOUND, MULTIPLIER, 6, source=source)
    ledger = None
    if folder is not None:
        held = Budget(budget, DELTA, "platform", "replace_one")
        ledger = Ledger.open(folder / name, held, is_simulation=source.is_simulation)
    return platform(name, Pull(), SPLIT, 7, privacy=DPSteps(privacy, ledger=ledger))  # type: ignore[arg-type]


def zeros() -> SharedState:
    return SPLIT.shared_state(Pull().held)


ALGORITHM = fedavg(FedAvgSettings(LocalTraining(steps=3)))


def federate(
    folder: Path | None, source: Source, budget: float = 99.0, workers: int = 0
) -> RunRecord:
    build = partial(protected, folder, source, budget)
    engine = (
        Workers(answers(build, ALGORITHM), list(SIZES), zeros(), workers=workers)
        if workers
        else InProcess(answers(build, ALGORITHM), list(SIZES))
    )
    try:
        return run(ALGORITHM, engine, zeros(), RunSettings("outside", 2, 6, SIZES), 7)
    finally:
        engine.close()


def accepts(values: Tensor, sigma: float) -> bool:
    ratio = float(values.double().square().mean()) / sigma**2
    return abs(ratio - 1) < 6 * (2 / values.numel()) ** 0.5


@pytest.mark.parametrize("source", [SystemEntropy(), SeededSimulation(5)], ids=["real", "seeded"])
def test_each_tensor_is_clipped_and_noised_by_itself(source: Source) -> None:
    update = protected(None, source, 1.0, "p").run_round(
        ALGORITHM, Order("run", 1, zeros(), batches={"p": 6})
    )
    for tensor in update.tensors.values():
        noise = tensor - BOUND / WIDE**0.5  # the update points to 1 everywhere, longer than C
        assert accepts(noise, MULTIPLIER * BOUND)
        assert not accepts(noise, MULTIPLIER * BOUND * 2 / 3)
        assert not accepts(noise, MULTIPLIER * BOUND * 3 / 2)


def test_a_federation_spends_what_its_own_event_says(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    done = federate(tmp_path, SystemEntropy())
    assert len(done.rounds) == 2
    step = (MULTIPLIER / math.sqrt(2) / 2, 1.0)  # replace-one: the update moves by twice the bound
    for name in SIZES:
        with_ledger = Ledger.open(tmp_path / name, Budget(99, DELTA, "platform", "replace_one"))
        spent = with_ledger.spent()
        with_ledger.close()
        assert spent.steps == 2
        assert spent.pld == pytest.approx(pld_epsilon({step: 2}, DELTA))
        stated = [each.events[name] for each in done.rounds]
        assert {each.noise_multiplier for each in stated} == {MULTIPLIER / math.sqrt(2)}


def test_a_budget_that_its_event_exceeds_refuses_it(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    with pytest.raises(FednerError, match="privacy budget does not allow"):
        federate(tmp_path, SystemEntropy(), budget=0.5)


def test_engines_agree_on_it() -> None:
    alone, side_by_side = (federate(None, SeededSimulation(5), workers=n) for n in (0, 2))
    for name, tensor in alone.shared.items():
        assert torch.equal(tensor, side_by_side.shared[name])


def test_what_it_refuses_is_refused_before_data_are_touched() -> None:
    own = protected(None, SystemEntropy(), 1.0, "p")
    order = Order("run", 1, zeros(), zeros(), {"p": 6})
    with pytest.raises(FednerError, match=r"platform 'p': algorithm\.name: found 'scaffold'"):
        own.run_round(scaffold(), order)


SIMULATED = "privacy={mechanism='platform',simulation=true,epsilon=6.0,delta=0.01}"


def for_model(asked: Settings) -> Mechanism:
    """The mechanism for the tensors that a federation's model shares."""
    return per_layer(len(open_sites(asked, Path("unused"))[0].blueprint.partition.shared))


def shared_of(folder: Path) -> dict[str, Tensor]:
    return RunFolder(folder).shared(2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of the public simulation with the mechanism from outside."""
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    folder = tmp_path_factory.mktemp("outside") / "run"
    train_run(settings(SIMULATED), folder, mechanism=for_model(settings(SIMULATED)))
    return folder


def test_a_whole_run_is_calibrated_by_its_own_event(trained: Path) -> None:
    spent = RunFolder(trained).read("privacy.json")
    assert spent["mechanism"] == "per-layer"
    found = RunFolder(trained).privacy()
    assert found == run_spent(RunFolder(trained)), "also for who has the folder alone"
    one = noise_for(6.0, sampling_probability=1.0, steps=2, delta=0.01, accountant="pld")
    for each in spent["platforms"].values():
        assert each["steps"] == 2
        assert each["noise_multiplier"] == [pytest.approx(2 * one)], "of replace-one"
        assert 5.5 < each["pld"] <= 6.0 + 1e-9
    for name in PLATFORMS:
        own = RunFolder(trained).site(name)
        assert own.read("privacy.json")["mechanism"] == "per-layer"


@pytest.mark.parametrize("engine", [WORKERS, BYTES])
def test_every_engine_carries_it(trained: Path, tmp_path: Path, engine: str) -> None:
    asked = settings(SIMULATED, engine)
    train_run(asked, tmp_path / "run", mechanism=for_model(asked))
    found, expected = shared_of(tmp_path / "run"), shared_of(trained)
    assert found
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_site_and_coordinator_take_it_each_by_itself(trained: Path, tmp_path: Path) -> None:
    asked = settings(SIMULATED)
    mechanism, study = for_model(asked), RunFolder(trained).study()
    sites = {
        name: open_site(
            study, platform_settings_of(asked, name), tmp_path / name, mechanism=mechanism
        )
        for name in PLATFORMS
    }
    algorithm = algorithm_for(study)
    engine = InProcess(lambda name: SiteAnswer(sites[name], algorithm), list(sites))
    done = coordinate(study, engine, mechanism=mechanism)
    engine.close()
    expected = shared_of(trained)
    assert all(torch.equal(done.shared[name], expected[name]) for name in expected)
    without = InProcess(
        lambda name: SiteAnswer(
            open_site(study, platform_settings_of(asked, name), tmp_path / f"{name} 2"), algorithm
        ),
        list(sites),
    )
    other = coordinate(study, without)
    without.close()
    assert not all(torch.equal(other.shared[name], expected[name]) for name in expected)


def test_a_run_is_not_resumed_with_another(trained: Path) -> None:
    with pytest.raises(FednerError, match="another mechanism 'per-layer', now 'platform'"):
        train_run(settings(SIMULATED), trained, resume=True)


def test_what_it_refuses_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    asked = settings(SIMULATED)
    strict = replace(per_layer(1), problems=lambda _: iter([PROBLEM]))
    study = open_sites(asked, tmp_path / "none")[0].study
    for refused in (
        partial(train_run, asked, tmp_path / "run"),
        partial(open_site, study, platform_settings_of(asked, PLATFORMS[0]), tmp_path / "site"),
        partial(coordinate, study, InProcess(answers(None, ALGORITHM), PLATFORMS), tmp_path / "c"),  # type: ignore[arg-type]
    ):
        with pytest.raises(FednerError, match="found 'fedner'; expected another"):
            refused(mechanism=strict)
    with pytest.raises(FednerError, match="without differential privacy"):
        train_run(settings(), tmp_path / "run", mechanism=strict)
    assert not list(tmp_path.iterdir())


PROBLEM = SettingProblem("algorithm.name", "'fedner'", "another")


def test_an_event_that_noise_cannot_reach_has_no_target(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")

    def clipped_only(p: PlatformPrivacy, b: int, s: int, t: int) -> GaussianRelease:
        return replace(event(1, p, b, s, t), noise_multiplier=0.0)

    def bent(p: PlatformPrivacy, b: int, s: int, t: int) -> GaussianRelease:
        return replace(event(1, p, b, s, t), noise_multiplier=p.noise_multiplier**2)

    for wrong, words in ((clipped_only, "reaches no epsilon"), (bent, "in proportion")):
        own = replace(per_layer(1), event=wrong)
        with pytest.raises(FednerError, match=words):
            train_run(settings(SIMULATED), tmp_path / "run", mechanism=own)


def deployed(folder: Path, *assignments: str) -> Settings:
    with seeded_keys():
        for name in PLATFORMS:
            open_ledger(folder / name, Budget(20.0, 0.01, "platform", "replace_one"), 1)
    ledgers = [f'platforms.{name}.ledger="{folder / name}"' for name in PLATFORMS]
    own = "privacy={mechanism='platform',epsilon=6.0,delta=0.01,tuned_on='public'}"
    return settings(own, *ledgers, *assignments)


def test_a_deployed_run_says_whom_to_trust_and_charges_the_ledgers(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    asked = deployed(tmp_path / "ledgers")
    train_run(asked, tmp_path / "run", mechanism=for_model(asked))
    spent = RunFolder(tmp_path / "run").read("privacy.json")
    assert TRUST in spent["notes"]
    assert all(5.5 < each["in_all"] <= 6.0 + 1e-9 for each in spent["platforms"].values())
    assert all(each["granted"] == 20.0 for each in spent["platforms"].values())


def test_a_platforms_policy_speaks_of_it_by_its_own_name(tmp_path: Path) -> None:
    asked = deployed(tmp_path / "ledgers")
    mechanism, study = for_model(asked), open_sites(asked, tmp_path / "none")[0].study
    own = platform_settings_of(asked, PLATFORMS[0])
    for accepted, is_open in (("per-layer", True), ("platform", False)):
        policy = own.policy.model_copy(update={"mechanisms": (accepted,)})
        strict = own.model_copy(update={"policy": policy})
        if is_open:
            assert open_site(study, strict, tmp_path / "site", mechanism=mechanism).name
        else:
            with pytest.raises(FednerError, match=r"policy\.mechanisms: found .*per-layer"):
                open_site(study, strict, tmp_path / "site", mechanism=mechanism)
