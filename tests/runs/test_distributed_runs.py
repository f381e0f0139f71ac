"""Whole runs with distributed noise: settings, costs, records, refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedner.engines.in_process import InProcess
from fedner.errors import FednerError
from fedner.federated.summation import PLAIN
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger
from fedner.privacy.mechanisms import MECHANISMS
from fedner.runs.checks import algorithm_of, checked
from fedner.runs.coordinator import coordinate
from fedner.runs.folder import RunFolder
from fedner.runs.privacy_record import run_spent
from fedner.runs.simulation import open_sites, train_run
from fedner.runs.site_answer import SiteAnswer
from fedner.runs.study_policy import _noise_problems
from fedner.runs.sums import sum_plan, summation_of
from fedner.runs.verdict import privacy_sentence
from fedner.settings import Settings, SettingsError, override, study_of

NAMES = ("case-reports", "forum-posts", "social-posts")
TABLES: dict[str, Any] = {
    "title": "together",
    "model": {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6},
    "embeddings": {"dimension": 8, "buckets": 64},
    "training": {"rounds": 1, "batch_size": 12, "evaluate_every": 0},
    "transport": {"secure_sum": True},
    "privacy": {
        "mechanism": "distributed",
        "simulation": True,
        "noise_multiplier": 2.0,
        "delta": 0.01,
        "accountant": "rdp",
        "max_grad_norm": 0.7,
    },
    "platforms": [
        {"name": name, "data": f"synthetic:{name}", "num_sentences": 40, "split": {"test": 0.3}}
        for name in NAMES
    ],
}


def settings(*assignments: str) -> Settings:
    return checked(override(TABLES, assignments), Path.cwd())


def problems(*assignments: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        settings(*assignments)
    return {each.key: str(each) for each in caught.value.problems}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run."""
    folder = tmp_path_factory.mktemp("together") / "run"
    train_run(settings(), folder)
    return RunFolder(folder)


def test_a_run_costs_what_central_noise_costs_and_says_who_added_it(
    together: RunFolder, tmp_path: Path
) -> None:
    central = ("privacy.mechanism='unit-central'", "transport={}")
    train_run(settings(*central), tmp_path / "run")
    spent, expected = run_spent(together), run_spent(RunFolder(tmp_path / "run"))
    assert spent is not None
    assert expected is not None
    assert {n: (e.rdp, e.steps) for n, e in spent.platforms.items()} == {
        n: (e.rdp, e.steps) for n, e in expected.platforms.items()
    }
    assert (spent.noise_by, expected.noise_by) == ("platforms", "server")
    deployed = {**spent.as_dict(), "simulation": False}
    sentence = privacy_sentence(type(spent)(**{**deployed, "platforms": spent.platforms}))
    assert "by all platforms together, under a secure sum" in sentence


def test_every_event_has_the_facts_of_its_noise(together: RunFolder) -> None:
    (record,) = together.rounds()
    coordinates = sum(each.numel() for each in together.shared(1).values())
    assert set(record.events) == set(NAMES)
    for event in record.events.values():
        assert event.discrete is not None
        assert (event.discrete.shares, event.discrete.coordinates) == (2, coordinates)
        assert event.discrete.multiplier(0.7) >= event.noise_multiplier == 2.0
    assert not record.norms


@pytest.mark.parametrize("engine", ["engine.as_bytes=true", "engine.workers=2"])
def test_every_engine_comes_to_the_same_bits(
    engine: str, together: RunFolder, tmp_path: Path
) -> None:
    train_run(settings(engine), tmp_path / "run")
    found, wanted = RunFolder(tmp_path / "run").shared(1), together.shared(1)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_the_secure_sum_comes_to_the_bits_of_the_plain_one(
    together: RunFolder, tmp_path: Path
) -> None:
    train_run(settings(), tmp_path / "run", summation=PLAIN)
    found, wanted = RunFolder(tmp_path / "run").shared(1), together.shared(1)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_a_described_head_keeps_its_residual_at_home(tmp_path: Path) -> None:
    head = "model={head='described',residual=true,hidden=6,filters=8,character_filters=6}"
    train_run(settings(head, "partition.shared='everything'"), tmp_path / "run")
    done = RunFolder(tmp_path / "run")
    assert any(name.startswith("emissions") for name in done.shared(1))
    assert not [name for name in done.shared(1) if "residual" in name]


@pytest.mark.parametrize(
    ("given", "key", "words"),
    [
        (("algorithm.local_steps=2",), "algorithm.local_steps", "2 with noise on the sum"),
        (("algorithm={name='fedavg'}",), "privacy.mechanism", "'distributed' with fedavg"),
        (("algorithm.weighting='equal'",), "algorithm.weighting", "with distributed noise"),
        (("algorithm.weighting='sqrt-size'",), "algorithm.weighting", "with distributed noise"),
        (("algorithm.loss='sum'",), "algorithm.loss", "'sum' with noise on the sum"),
        (("transport.secure_sum=false",), "transport.secure_sum", "false with mechanism"),
        (("transport.encoding='int8'",), "transport.encoding", "'int8'"),
        (("transport.colluding=2",), "transport.secure_sum", "at least 4"),
    ],
)  # fmt: skip
def test_what_distributed_noise_proves_nothing_for_is_refused(
    given: tuple[str, ...], key: str, words: str
) -> None:
    found = problems(*given)
    assert words in found[key], found


def test_the_grid_is_that_of_the_noise_and_nothing_is_scaled() -> None:
    study = study_of(settings(), dict.fromkeys(NAMES, 28))
    plan = sum_plan(study, algorithm_of(study))
    assert plan.grid.step == 0.5 * 2**-22
    assert (set(plan.scales.values()), plan.factor) == ({1.0}, 1.0)


def deployed(ledgers: Callable[..., tuple[str, ...]]) -> Settings:
    """Settings of a deployed run: noise of the system, ledgers of the platforms."""
    away = "privacy={mechanism='distributed',noise_multiplier=2.0,accountant='rdp'}"
    return settings(away, *ledgers(20.0), "privacy.mechanism='distributed'")


def test_a_deployed_run_charges_every_ledger_and_hides_every_update(
    ledgers: Callable[..., tuple[str, ...]], tmp_path: Path
) -> None:
    given = deployed(ledgers)
    study = study_of(given, dict.fromkeys(NAMES, 30))
    train_run(given, tmp_path / "run", summation=summation_of(study, algorithm_of(study)))
    for number in range(3):
        with Ledger.open(tmp_path / str(number)) as held:
            (line,) = held.releases
            assert isinstance(line.event, GaussianRelease)
            assert line.event.discrete is not None
            assert not line.event.is_simulation
    spent = run_spent(RunFolder(tmp_path / "run"))
    assert spent is not None
    assert "No more platforms than the study says may collude" in " ".join(spent.notes)


def test_a_deployed_platform_never_sends_its_share_in_the_clear(
    ledgers: Callable[..., tuple[str, ...]], tmp_path: Path
) -> None:
    given = deployed(ledgers)
    (first, *_) = open_sites(given, tmp_path / "run", lambda _: None)
    with pytest.raises(FednerError, match="'distributed' with summation 'plain'; expected one"):
        SiteAnswer(first, summation=PLAIN)
    with pytest.raises(FednerError, match="'distributed' with summation 'plain'; expected one"):
        coordinate(first.study, InProcess(lambda _: None, NAMES), tmp_path, summation=PLAIN)


def test_a_platforms_policy_may_ask_for_distributed_noise() -> None:
    study = study_of(settings("privacy.simulation=true"), dict.fromkeys(NAMES, 30))
    mechanism = MECHANISMS["distributed"]
    assert not list(_noise_problems(("distributed",), mechanism))
    assert list(_noise_problems(("local",), mechanism))
    assert study.privacy.mechanism == mechanism.name
