"""Whole runs with encrypted sums: settings, engines, records, resuming, refusals."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from opened_sites import opened

from fedner.errors import FednerError
from fedner.federated.checkpoints import read_state
from fedner.federated.encrypted.phases import APPLY, CIPHERTEXTS
from fedner.federated.messages import Order, SumMessage, Update
from fedner.federated.record import RoundRecord
from fedner.runs.checks import checked
from fedner.runs.encryption import encryption_plan
from fedner.runs.folder import RunFolder
from fedner.runs.initial_model import opened_initial
from fedner.runs.link_time import link_traffic
from fedner.runs.policy.guard import reply_refusal
from fedner.runs.policy.orders import order_refusal
from fedner.runs.schedule import algorithm_for, run_settings
from fedner.runs.simulation import Progress, train_run
from fedner.runs.site import Site
from fedner.runs.site_answer import SiteAnswer
from fedner.runs.study_policy import study_policy_problems
from fedner.runs.trust import trust_note
from fedner.settings import PolicySettings, Settings, SettingsError, override
from fedner.settings.sections import PrivacySettings

NAMES = ("case-reports", "forum-posts", "social-posts")
TABLES: dict[str, Any] = {
    "title": "encrypted",
    "model": {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6},
    "embeddings": {"dimension": 8, "buckets": 64},
    "training": {"rounds": 2, "batch_size": 12, "evaluate_every": 1},
    "platforms": [
        {"name": name, "data": f"synthetic:{name}", "num_sentences": 40, "split": {"test": 0.3}}
        for name in NAMES
    ],
}
CKKS = "transport={encryption='ckks'}"
FEDAVG = 'algorithm={name="fedavg",local={steps=2,optimizer={name="sgd",learning_rate=0.1}}}'


def settings(*assignments: str) -> Settings:
    return checked(override(TABLES, assignments), Path.cwd())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run in the clear."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    train_run(settings(), folder)
    return RunFolder(folder)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The same, encrypted."""
    folder = tmp_path_factory.mktemp("encrypted") / "run"
    train_run(settings(CKKS), folder)
    return RunFolder(folder)


def first_of(folder: Path, *assignments: str) -> Site:
    return next(iter(opened(settings(*assignments), folder).values()))


def copy_of(run: RunFolder, name: str, round_: int = 2) -> dict[str, torch.Tensor]:
    tensors, _ = read_state(run.site(name).path / "server-copy", round_)
    return {
        key.removeprefix("shared/"): each
        for key, each in tensors.items()
        if key.startswith("shared/")
    }


def assert_alike(found: RunFolder, wanted: RunFolder, round_: int = 2) -> None:
    expected = wanted.shared(round_)
    for name in NAMES:
        copy = copy_of(found, name, round_)
        assert copy.keys() == expected.keys()
        for key, weight in expected.items():
            assert (copy[key] - weight).abs().max() <= 1e-6, (name, key)


def test_a_run_is_the_plain_one_and_its_server_folder_has_no_weights(
    plain: RunFolder, encrypted: RunFolder
) -> None:
    assert_alike(encrypted, plain)
    assert read_state(encrypted.path / "server", 2)[0] == {}
    assert not (encrypted.path / "model").exists()
    first, clear = encrypted.rounds()[0], plain.rounds()[0]
    assert not first.norms
    assert not first.losses
    assert set(first.scores) == set(clear.scores) == set(NAMES)
    assert first.bytes_up[NAMES[0]] > 6 * clear.bytes_up[NAMES[0]]
    assert first.bytes_down[NAMES[0]] > 6 * clear.bytes_down[NAMES[0]]
    kinds = {
        (each["kind"], each["verb"])
        for each in map(
            json.loads, (encrypted.site(NAMES[0]).path / "replies.jsonl").read_text().splitlines()
        )
    }
    assert ("SumMessage", "round") in kinds
    assert ("Update", "round") not in kinds


@pytest.mark.parametrize("engine", ["engine.as_bytes=true", "engine.workers=2"])
def test_every_engine_comes_to_the_same_bits(
    engine: str, encrypted: RunFolder, tmp_path: Path
) -> None:
    train_run(settings(CKKS, engine), tmp_path / "run")
    found, wanted = RunFolder(tmp_path / "run").shared(2), encrypted.shared(2)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted), "no noise is left"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 8])
def test_fifty_rounds_of_adam_at_the_server_are_the_plain_ones(seed: int, tmp_path: Path) -> None:
    """Adam makes much of small gradients: these seeds were off by 3e-6 with coarser steps."""
    options = (f"seed={seed}", "training.rounds=50", "training.evaluate_every=0")
    train_run(settings(CKKS, *options), tmp_path / "run")
    train_run(settings(*options), tmp_path / "plain")
    assert_alike(RunFolder(tmp_path / "run"), RunFolder(tmp_path / "plain"), 50)


def test_fedavg_with_an_average_and_a_platform_that_holds_one_model_at_a_time(
    tmp_path: Path,
) -> None:
    options = (FEDAVG, "training.ema_decay=0.5", "engine.spill=true")
    train_run(settings(CKKS, *options), tmp_path / "run")
    train_run(settings(*options), tmp_path / "plain")
    found, wanted = RunFolder(tmp_path / "run").shared(2), RunFolder(tmp_path / "plain").shared(2)
    assert all((found[name] - wanted[name]).abs().max() <= 1e-6 for name in wanted)


def test_the_released_model_is_written_by_platforms_and_a_new_study_begins_with_it(
    tmp_path: Path,
) -> None:
    described = ("model.head='described'", "partition.shared='everything'", "training.rounds=1")
    train_run(settings(*described, CKKS), tmp_path / "run")
    models = [tmp_path / "run" / "platforms" / name / "model" for name in NAMES]
    assert all((model / "model.json").is_file() for model in models)
    assert not (tmp_path / "run" / "model").exists()
    begun = opened_initial(settings(*described, f"model.initial='{models[0]}'"))
    assert begun is not None
    assert begun.weights


def test_a_simulated_run_is_a_beginning_and_a_coordinators_folder_is_not(
    encrypted: RunFolder, tmp_path: Path
) -> None:
    begun = opened_initial(settings(f"model.initial='{encrypted.path}'"))
    assert begun is not None
    assert begun.weights.keys() == encrypted.shared(2).keys()
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in ("study.json", "settings.json"):
        (alone / name).write_bytes((encrypted.path / name).read_bytes())
    with pytest.raises(FednerError, match="coordinator of an encrypted run has no weights"):
        RunFolder(alone).shared(2)


class StoppedError(Exception):
    """The run was stopped."""


def test_a_run_that_was_stopped_goes_on(
    plain: RunFolder, encrypted: RunFolder, tmp_path: Path
) -> None:
    def stop(record: RoundRecord) -> None:
        raise StoppedError(record.round)

    with pytest.raises(StoppedError):
        train_run(settings(CKKS), tmp_path / "run", progress=Progress(round=stop))
    assert (tmp_path / "run" / "sums").is_dir()
    train_run(settings(CKKS), tmp_path / "run", resume=True)
    assert_alike(RunFolder(tmp_path / "run"), plain)
    with pytest.raises(FednerError, match="transport"):
        train_run(settings(), encrypted.path, resume=True)


def test_differential_privacy_costs_the_same_and_is_told(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    dp = "mechanism='unit-local',simulation=true,noise_multiplier=2.0,delta=0.01,accountant='rdp'"
    given = (f"privacy={{{dp}}}", "training.rounds=1", "training.evaluate_every=0")
    train_run(settings(*given, CKKS), tmp_path / "run")
    train_run(settings(*given), tmp_path / "plain")
    found, wanted = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "plain")
    assert found.rounds()[0].events == wanted.rounds()[0].events != {}
    assert_alike(found, wanted, 1)


def test_records_say_who_could_read_what(encrypted: RunFolder) -> None:
    notes = encrypted.site(NAMES[0]).read("disclosure.json")["notes"]
    assert any("could read neither updates nor sums nor weights" in note for note in notes)
    trust = trust_note(encrypted.study(), None)
    assert "as long as no platform works together with it" in trust


def problems(*assignments: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        settings(*assignments)
    return {each.key: f"{each.found}; {each.expected}" for each in caught.value.problems}


def ckks(*others: str) -> str:
    return f"transport={{{','.join(('encryption=' + repr('ckks'), *others))}}}"


SIMULATED = "simulation=true,noise_multiplier=1.0,delta=0.01"


@pytest.mark.parametrize(
    ("given", "key", "words"),
    [
        ((ckks("secure_sum=true"),), "transport.encryption", "one of the two"),
        ((ckks("encoding='int8'"), FEDAVG), "transport.encoding", "'float32'"),
        ((ckks(), "participation.aggregation='median'"), "participation.aggregation", "'mean'"),
        ((ckks(), "participation.norm_factor=10"), "participation.norm_factor", "no such key"),
        ((ckks(), "participation.quorum=2"), "participation.quorum", "at least 3"),
        ((ckks(), "participation.sample=2"), "transport.encryption", "at least 3"),
        (
            (ckks(), f"privacy={{mechanism='unit-central',{SIMULATED}}}"),
            "transport.encryption",
            "'unit-central'",
        ),
        (
            (ckks("secure_sum=true"), f"privacy={{mechanism='distributed',{SIMULATED}}}"),
            "transport.encryption",
            "all of its noise",
        ),
        (("transport={encryption='aes'}",), "transport.encryption", "one of ckks"),
    ],
)
def test_what_needs_single_updates_or_more_platforms_is_refused_when_settings_are_read(
    given: tuple[str, ...], key: str, words: str
) -> None:
    found = problems(*given)
    assert words in found[key], found


def test_two_platforms_are_too_few() -> None:
    tables = {**TABLES, "platforms": TABLES["platforms"][:2]}
    with pytest.raises(SettingsError, match="each reads the update of the other"):
        checked(override(tables, [CKKS]), Path.cwd())


def test_more_platforms_than_the_error_allows_are_refused() -> None:
    many = [{**TABLES["platforms"][0], "name": f"p{number}"} for number in range(900)]
    tables = {**TABLES, "platforms": many, "training": {"rounds": 1, "batch_size": 1000}}
    with pytest.raises(SettingsError, match="expected at most 1e-06"):
        checked(
            override(tables, [CKKS, 'algorithm={name="fedavg",local={steps=1},sends="weights"}']),
            Path.cwd(),
        )


def test_without_tenseal_it_is_said_before_a_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "cryptography" or None)
    with pytest.raises(FednerError, match="need the package tenseal") as caught:
        train_run(settings(CKKS), tmp_path / "run")
    assert "fedner[encryption]" in str(caught.value.hint)
    assert not (tmp_path / "run").exists()


def test_what_everybody_knows_follows_from_the_study(tmp_path: Path) -> None:
    site = first_of(tmp_path, CKKS, "participation.quorum=3")
    algorithm = algorithm_for(site.study)
    plan = encryption_plan(site.study, algorithm)
    assert plan.least == 3
    assert plan.parameters.largest_error < 1e-9
    assert sum(plan.scales.values()) == pytest.approx(1)
    assert set(plan.batches(1)) == set(NAMES)
    held = run_settings(site.study, algorithm)
    assert held.checkpoint_every == 1, "sums are kept since the oldest checkpoint"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return first_of(tmp_path, CKKS)


def order_of(site: Site, **changes: Any) -> Order:
    batches = dict.fromkeys(site.study.names, 1)
    return replace(Order("run", 2, batches=batches, study=site.study.digest), **changes)


def test_orders_bring_first_weights_and_sums_and_nothing_else(site: Site) -> None:
    first = site.blueprint.initial_shared()
    total = {CIPHERTEXTS: torch.zeros(3, dtype=torch.uint8)}
    sound = [
        order_of(site, round=1, shared=first, phase=3),
        order_of(site, phase=3),
        order_of(site, verb="sum", phase=1),
        order_of(site, verb="sum", phase=APPLY, total=total),
        order_of(site, verb="sum", phase=APPLY, total=total, round=1, shared=first),
        order_of(site, verb="evaluate"),
        order_of(site, verb="finish"),
    ]
    assert [order_refusal(site, order) for order in sound] == [None] * len(sound)
    odd = [
        order_of(site, phase=3, shared=first),
        order_of(site, verb="evaluate", shared=first),
        order_of(site, verb="finish", shared=first),
        order_of(site, verb="sum", phase=1, total=total),
        order_of(site, verb="sum", phase=APPLY),
        order_of(site, verb="sum", phase=APPLY, total=total, shared=first),
        order_of(site, verb="evaluate", relayed={"x": b"y"}),
    ]
    assert [order_refusal(site, order) for order in odd] == ["order-tensors"] * len(odd)


def test_nothing_leaves_in_the_clear(site: Site) -> None:
    weights = site.blueprint.initial_shared()
    hidden = SumMessage(site.name, 1, 3, tensors={CIPHERTEXTS: torch.zeros(3, dtype=torch.uint8)})
    assert reply_refusal(site, hidden) is None
    clear = {f"tensors/{name}": each for name, each in weights.items()}
    for reply in (replace(hidden, tensors=clear), Update(site.name, 1, weights)):
        assert reply_refusal(site, reply) == "reply-withheld"


def test_a_policy_can_ask_for_it(site: Site, tmp_path: Path) -> None:
    strict = site.own.model_copy(update={"policy": PolicySettings(encryption=True)})
    assert not list(study_policy_problems(site.study, strict))
    other = first_of(tmp_path / "plain")
    (found,) = study_policy_problems(other.study, strict)
    assert found.key == "policy.encryption"
    masked = site.own.model_copy(update={"policy": PolicySettings(secure_sum=True)})
    (found,) = study_policy_problems(site.study, masked)
    assert found.key == "policy.secure_sum", "encryption does not resist platforms that collude"


def test_a_deployed_platform_needs_its_own_key(site: Site) -> None:
    privacy = PrivacySettings(mechanism="unit-local", noise_multiplier=1.0, tuned_on="public")
    deployed = replace(site, study=site.study.model_copy(update={"privacy": privacy}))
    with pytest.raises(FednerError, match="needs the platform's own key"):
        SiteAnswer(deployed)


def test_the_traffic_over_a_link_is_foretold(encrypted: RunFolder) -> None:
    traffic = link_traffic(encrypted.study())
    up = max(encrypted.rounds()[1].bytes_up.values())
    assert traffic.up == pytest.approx(up, rel=0.15)
    assert traffic.down == pytest.approx(up, rel=0.15)
    assert traffic.phases == 4
    assert traffic.weights_down < 2_000
