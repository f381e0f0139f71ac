"""Private runs from a federation file: checks, noise for a target, resuming, frozen parts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from opened_sites import algorithm_in, opened, protected

from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_jsonl
from fedner.errors import FednerError
from fedner.federated.checkpoints import read_state
from fedner.federated.run import run
from fedner.models.checkpoint import load_tagger
from fedner.privacy.accountant import pld_epsilon
from fedner.privacy.ledger import read_spent
from fedner.privacy.mechanisms import MECHANISMS
from fedner.runs.checks import algorithm_of
from fedner.runs.folder import DISCLOSURE, PRIVACY, RunFolder, tagger_folder
from fedner.runs.privacy import ledger_name, server_noise
from fedner.runs.privacy_record import run_spent
from fedner.runs.protected_units import require_units
from fedner.runs.schedule import algorithm_for, run_settings
from fedner.runs.simulation import Progress, engine_for, train_run
from fedner.runs.site_platform import build_platform
from fedner.settings import Settings, SettingsError

Make = Callable[..., Settings]
Opened = Callable[..., tuple[str, ...]]
ON = ("privacy.mechanism=unit-local", "privacy.simulation=true")
SIZES = tuple(f"platforms.{number}.public_size=30" for number in range(3))


def told(make: Make, *assignments: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        make("privacy.mechanism=unit-local", *assignments)
    return {problem.key: str(problem) for problem in caught.value.problems}


def final_weights(folder: Path, rounds: int) -> dict[str, torch.Tensor]:
    shared, _ = read_state(folder / "server", rounds)
    held = {f"server/{name}": tensor for name, tensor in shared.items()}
    for platform in sorted((folder / "platforms").iterdir()):
        tensors, _ = read_state(platform, rounds)
        held.update({f"{platform.name}/{name}": tensor for name, tensor in tensors.items()})
    return held


def test_a_table_that_proves_nothing_is_refused_with_the_reason(tiny: Make) -> None:
    problems = told(
        tiny,
        "privacy.noise_multiplier=1.0",
        "privacy.simulation=true",
        "privacy.private_part=clear",
        "privacy.mechanism=unit-central",
        "algorithm.local_steps=3",
        'algorithm.loss="sum"',
        "participation.aggregation=median",
        "partition.shared=everything",
        "partition.unannotated=marginal",
    )
    assert set(problems) == {
        "privacy.private_part",
        "algorithm.local_steps",
        "algorithm.loss",
        "participation.aggregation",
        "partition.unannotated",
    }
    assert "every other unit" in problems["privacy.private_part"]


def test_an_algorithm_whose_update_the_noise_does_not_cover(tiny: Make) -> None:
    both = ("privacy.simulation=true", "privacy.noise_multiplier=1.0")
    central = told(tiny, *both, "privacy.mechanism=unit-central", 'algorithm={name="fedavg"}')
    assert "gradients that nobody noised" in central["privacy.mechanism"]
    whole = told(tiny, *both, "privacy.mechanism=platform", 'algorithm={name="scaffold"}')
    assert "control variates" in whole["algorithm.name"]
    weights = told(
        tiny, *both, "privacy.mechanism=platform", 'algorithm={name="fedavg", sends="weights"}'
    )
    assert set(weights) == {"algorithm.sends"}


def test_a_deployment_needs_ledgers_and_public_sizes_and_tells_no_scores(tiny: Make) -> None:
    problems = told(
        tiny,
        "privacy.noise_multiplier=1.0",
        'training.baselines=["local-only"]',
        "privacy.budget=8",
    )
    assert set(problems) == {
        "privacy.budget",
        "privacy.tuned_on",
        "training.evaluate_every",
        "training.baselines",
        *(f"platforms[{number}].public_size" for number in range(3)),
        *(f"platforms[{number}].ledger" for number in range(3)),
    }
    assert "belongs to the platform" in problems["privacy.budget"]
    assert "fedner privacy open" in problems["platforms[0].ledger"]
    assert set(told(tiny, "privacy.simulation=true")) == {"privacy"}
    small = told(tiny, *ON, "privacy.epsilon=3", "privacy.budget=2")
    assert set(small) == {"privacy.budget"}


def test_a_deployment_reads_no_types_off_the_texts_and_has_no_parts(
    tiny: Make, tmp_path: Path, ledgers: Opened
) -> None:
    write_jsonl(tmp_path / "ward.jsonl", generate("case-reports", 40, 1))
    own = (
        "privacy.noise_multiplier=1.0",
        *ledgers(9),
        f"platforms.0.data={tmp_path / 'ward.jsonl'}",
    )
    problems = told(tiny, *own, 'platforms.1.shard="1/2"', "platforms.0.split.seed=3")
    assert set(problems) == {
        "platforms[0].labels",
        "platforms[0].format",
        "platforms[0].split.seed",
        "platforms[1].shard",
    }
    assert "rare type" in problems["platforms[0].labels"]
    declared = 'platforms.0.labels=["ADE", "Drug"]'
    tiny("privacy.mechanism=unit-local", *own, declared, "platforms.0.format=jsonl")
    # One line may tip the scales between two schemes, and with them everybody's entities.
    columns = told(tiny, *own, declared, "platforms.0.format=columns")
    assert set(columns) == {"platforms[0].options.scheme"}
    tiny(*own, declared, "platforms.0.format=columns", "platforms.0.options.scheme=BIO")
    # Its reader leaves out what an earlier document says too.
    tiny(*own, declared, "platforms.0.format=ade")
    repeated = told(tiny, *own, declared, "platforms.0.format=ade", "privacy.unit=document")
    assert set(repeated) == {"platforms[0].format"}
    # Whose presence is protected makes no difference: sizes and types are told all the same.
    whole = told(tiny, "privacy.noise_multiplier=1.0", "privacy.mechanism=platform")
    assert {key for key in whole if "public_size" in key} == {
        f"platforms[{number}].public_size" for number in range(3)
    }


def test_no_two_platforms_share_a_ledger(tiny: Make, tmp_path: Path, ledgers: Opened) -> None:
    same = f'platforms.2.ledger="{tmp_path / "0"}"'
    problems = told(tiny, "privacy.noise_multiplier=1.0", *ledgers(9), same)
    assert set(problems) == {"platforms[2].ledger"}
    assert "that of case-reports" in problems["platforms[2].ledger"]


@pytest.mark.parametrize("unit", ["document", "patient"])
def test_shards_of_a_corpus_tear_no_unit_apart(tiny: Make, unit: str) -> None:
    on = ("privacy.simulation=true", "privacy.noise_multiplier=1.0", f"privacy.unit={unit}")
    part = 'platforms.0.shard="1/2"'
    problems = told(tiny, *on, part)
    assert set(problems) == {"platforms[0].split.by"}
    assert "several platforms" in problems["platforms[0].split.by"]
    tiny("privacy.mechanism=unit-local", *on, part, "platforms.0.split.by=patient")


def test_patients_that_nobody_named_cannot_be_the_unit(tiny: Make) -> None:
    settings = tiny(*ON, "privacy.noise_multiplier=1.0", "privacy.unit=patient", *SIZES)
    data = {
        name: replace(
            site.data, sentences=tuple(replace(one, patient=None) for one in site.data.sentences)
        )
        for name, site in opened(settings).items()
    }
    with pytest.raises(SettingsError, match="without a patient id") as caught:
        require_units(settings, data)
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_noise_of_a_target_spends_it_and_no_more(tiny: Make, mechanism: str) -> None:
    made = MECHANISMS[mechanism]
    hidden = ("transport.secure_sum=true",) if made.shares_noise else ()
    settings = tiny(*ON, "privacy.epsilon=6", f"privacy.mechanism={mechanism}", *hidden)
    site = opened(settings)["forum-posts"]
    noise = server_noise(site.blueprint, algorithm_for(site.study))
    assert (noise is not None) is made.releases_sum
    for privacy in protected(settings).values():
        event = privacy.event(4, 1)
        step = (event.effective_multiplier, event.sampling_probability)
        assert 5.9 < pld_epsilon({step: 6}, 1e-5) <= 6.0


@pytest.mark.parametrize("mechanism", ["unit-local", "unit-central", "distributed"])
def test_one_noise_for_a_sum_is_that_of_the_platform_that_needs_most(
    tiny: Make, mechanism: str
) -> None:
    sizes = ["platforms.0.public_size=100", "algorithm.batching=each"]
    if MECHANISMS[mechanism].shares_noise:
        sizes.append("transport.secure_sum=true")
    settings = tiny(*ON, "privacy.epsilon=6", f"privacy.mechanism={mechanism}", *sizes)
    noises = {name: each.noise_multiplier for name, each in protected(settings).items()}
    if mechanism == "unit-local":
        assert noises["case-reports"] < noises["forum-posts"]
    else:
        site = opened(settings)["forum-posts"]
        noise = server_noise(site.blueprint, algorithm_for(site.study))
        assert noise is not None
        assert set(noises.values()) == {noise.noise_multiplier}


def test_slices_cost_as_much_as_the_worst_of_them(tiny: Make) -> None:
    changes = ("training.slice=0.5", "training.rounds_per_slice=3", "privacy.epsilon=6")
    settings = tiny(*ON, *changes)
    privacy = protected(settings)["forum-posts"]
    assert privacy.num_slices == 2
    step = (privacy.noise_multiplier, privacy.probability(4))
    assert 5.9 < pld_epsilon({step: 3}, 1e-5) <= 6.0, "3 of the 6 rounds touch a unit"


def test_a_linear_rate_ends_with_the_run(tiny: Make) -> None:
    settings = tiny(
        'algorithm.server_optimizer={learning_rate=0.02, schedule="linear"}',
        "local_optimizer.schedule=linear",
    )
    sites = opened(settings)
    own = build_platform(sites["forum-posts"], algorithm_in(sites)).settings.optimizer
    assert own.learning_rate_at(0) == 0.02
    assert own.learning_rate_at(3) == pytest.approx(0.01)
    assert own.learning_rate_at(6) == 0.0
    made = algorithm_of(settings, 6).init({"w": torch.zeros(1)})  # type: ignore[arg-type]
    assert made.optimizer is not None
    assert made.optimizer.settings.decay_steps == 6


@pytest.mark.parametrize("mechanism", ["unit-local", "unit-central"])
def test_a_simulation_resumes_bit_for_bit_and_says_what_it_is(
    tiny: Make, tmp_path: Path, mechanism: str
) -> None:
    settings = tiny(
        *ON,
        "privacy.noise_multiplier=1.0",
        f"privacy.mechanism={mechanism}",
        "privacy.unit=document",
    )
    train_run(settings, tmp_path / "whole")

    def stop(record: object) -> None:
        if record.round == 5:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_run(settings, tmp_path / "cut", progress=Progress(round=stop))
    train_run(settings, tmp_path / "cut", resume=True)
    one, other = final_weights(tmp_path / "whole", 6), final_weights(tmp_path / "cut", 6)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    spent = RunFolder(tmp_path / "cut").read(PRIVACY)
    assert spent["simulation"] is True
    for platform in spent["platforms"].values():
        assert platform["steps"] == 6
        assert platform["unit"] == "document"
        assert platform["pld"] < platform["rdp"]
    page = (tmp_path / "cut" / "report.html").read_text()
    assert "Simulation of differential privacy" in page
    assert "protects nobody" in page
    left = RunFolder(tmp_path / "cut").read(DISCLOSURE)
    assert all(each["training_losses"] == 0 for each in left["platforms"].values())


def test_another_noise_seed_is_another_run_on_the_same_split(tiny: Make) -> None:
    found = []
    for seed in (1, 2):
        settings = tiny(*ON, "privacy.noise_multiplier=1.0", f"privacy.noise_seed={seed}")
        found.append(protected(settings))
        test = opened(settings)["forum-posts"].data.test
    one, other = (each["forum-posts"].source for each in found)
    assert one != other
    assert test == opened(tiny())["forum-posts"].data.test


def test_a_deployed_run_keeps_ledgers_and_a_second_one_is_refused(
    tiny: Make, tmp_path: Path, ledgers: Opened
) -> None:
    changes = ("privacy.epsilon=4", *ledgers(4))
    train_run(tiny(*changes), tmp_path / "first")
    spent = RunFolder(tmp_path / "first").read(PRIVACY)
    for platform in spent["platforms"].values():
        assert platform["simulation"] is False
        assert platform["in_all"] == platform["pld"] <= 4.0
        assert platform["granted"] == 4.0
        assert platform["public_units"] == [30]
    assert not any(each.scores for each in RunFolder(tmp_path / "first").rounds())
    again = run_spent(RunFolder(tmp_path / "first"))
    assert again is not None
    assert again.as_dict() == spent
    assert again == RunFolder(tmp_path / "first").privacy()
    before = [(tmp_path / str(number) / "ledger.jsonl").read_bytes() for number in range(3)]
    with pytest.raises(SettingsError, match=r"needs epsilon 4, and .* is spent") as caught:
        train_run(tiny(*changes, "title=second"), tmp_path / "second")
    assert len(caught.value.problems) == 3
    assert "at most 4, which the ledger grants" in str(caught.value)
    assert f"fedner privacy budget {tmp_path / '0'}" in str(caught.value)
    after = [(tmp_path / str(number) / "ledger.jsonl").read_bytes() for number in range(3)]
    assert after == before, "refused before anything was released"


def test_two_simulations_of_one_title_and_one_ledger_are_two_runs(
    tiny: Make, tmp_path: Path
) -> None:
    """The second is not answered with the releases of the first, nor refused for its rounds."""
    ledgers = [f'platforms.{number}.ledger="{tmp_path / str(number)}"' for number in range(3)]
    for seed in (1, 2):
        noise = (
            "privacy.noise_multiplier=2",
            "privacy.budget=1000.0",
            f"privacy.noise_seed={seed}",
        )
        settings = tiny(*ON, *noise, *ledgers)
        train_run(settings, tmp_path / f"run {seed}")
    assert (
        read_spent(tmp_path / "0").steps
        == 2
        * read_spent(
            tmp_path / "0",
            ledger_name(RunFolder(tmp_path / "run 1"), RunFolder(tmp_path / "run 1").study()),
        ).steps
    )


def test_a_frozen_private_part_is_trained_after_the_last_update(tiny: Make, tmp_path: Path) -> None:
    changes = (
        "privacy.noise_multiplier=1.0",
        "privacy.private_part=frozen",
        "privacy.private_epochs=2",
    )
    settings = tiny(*ON, *changes)
    train_run(settings, tmp_path / "run")
    name, sites = "forum-posts", opened(settings, tmp_path / "apart")
    stored, _ = read_state(tmp_path / "run" / "platforms" / name, 6)
    begun = build_platform(sites[name], algorithm_in(sites)).private()
    tagger = load_tagger(tagger_folder(tmp_path / "run", name)).tagger
    final = dict(tagger.named_parameters())
    server, _ = read_state(tmp_path / "run" / "server", 6)
    for key, tensor in begun.items():
        assert torch.equal(stored[f"private/{key}"], tensor), "frozen while updates left"
    assert any(not torch.equal(final[key], tensor) for key, tensor in begun.items())
    for key in sites[name].blueprint.partition.shared:
        assert torch.equal(final[key], server[f"shared/{key}"])
    notes = " ".join(RunFolder(tmp_path / "run").read(PRIVACY)["notes"])
    assert "does not cover" in notes


@pytest.mark.parametrize("mechanism", ["unit-local", "platform"])
def test_what_epsilon_does_not_cover_is_said(tiny: Make, tmp_path: Path, mechanism: str) -> None:
    settings = tiny(
        *ON, "privacy.noise_multiplier=1.0", f"privacy.mechanism={mechanism}", "training.rounds=1"
    )
    train_run(settings, tmp_path / "run")
    notes = " ".join(RunFolder(tmp_path / "run").read(PRIVACY)["notes"])
    assert ("private part was trained without noise" in notes) is (mechanism == "platform")
    is_by_unit = mechanism == "unit-local"
    assert ("split into training and test part is taken as given" in notes) is is_by_unit
    assert "is only for the platform itself" in notes


def test_the_server_of_a_deployment_noises_every_sum_once(
    tiny: Make, tmp_path: Path, ledgers: Opened
) -> None:
    settings = tiny("privacy.noise_multiplier=2.0", *ledgers(40), "privacy.mechanism=unit-central")
    sites = opened(settings, tmp_path / "run")
    algorithm, site = algorithm_in(sites), sites["forum-posts"]
    plan = run_settings(site.study, algorithm, server_noise(site.blueprint, algorithm))
    assert plan.checkpoint_every == 1, "stored before it is broadcast"
    first = site.blueprint.initial_shared()
    engine = engine_for(settings, list(sites.values()), algorithm)
    rarely = replace(plan, checkpoint_every=2)
    with pytest.raises(FednerError, match="noised twice"):
        run(algorithm, engine, first, rarely, 1, tmp_path / "run")
    for name in ("one", "other"):
        train_run(settings, tmp_path / name)
    spent = run_spent(RunFolder(tmp_path / "other"))
    assert spent is not None
    for platform in spent.platforms.values():
        assert platform.steps == 6
        assert platform.in_all is not None
        assert platform.pld is not None
        assert platform.in_all > platform.pld, "a run begun anew is paid for anew"


def test_clipping_without_noise_is_for_simulations_and_costs_everything(
    tiny: Make, tmp_path: Path
) -> None:
    train_run(tiny(*ON, "privacy.noise_multiplier=0", "training.rounds=2"), tmp_path / "run")
    spent = RunFolder(tmp_path / "run").read(PRIVACY)["platforms"]["forum-posts"]
    assert spent["pld"] is None
    assert spent["rdp"] is None
    assert "infinite" in (tmp_path / "run" / "report.html").read_text()
    assert "privacy.noise_multiplier" in told(tiny, "privacy.noise_multiplier=0")


SCORED = (
    "privacy.scores={every=2, noise_multiplier=30.0, max_norm=4.0}",
    "training.evaluate_every=0",
)


def test_noised_scores_are_part_of_the_target(tiny: Make) -> None:
    settings = tiny(*ON, "privacy.epsilon=6", *SCORED)
    sites = opened(settings)
    study = sites["forum-posts"].study
    assert run_settings(study, algorithm_in(sites)).evaluate_every == 2
    for privacy in protected(settings).values():
        event = privacy.event(4, 1)
        step = (event.effective_multiplier, event.sampling_probability)
        assert 5.9 < pld_epsilon({step: 6, (30.0, 1.0): 3}, 1e-5) <= 6.0
        assert pld_epsilon({step: 6}, 1e-5) < 5.999


def test_where_noised_scores_prove_nothing_they_are_refused(tiny: Make, ledgers: Opened) -> None:
    on = ("privacy.simulation=true", "privacy.noise_multiplier=1.0", *SCORED)
    assert "in the clear" in told(tiny, *on, "privacy.mechanism=platform")["privacy.scores"]
    assert "two releases" in told(tiny, *on, "privacy.mechanism=unit-central")["privacy.scores"]
    assert "nothing yet" in told(tiny, *on, "privacy.private_part=frozen")["privacy.scores"]
    assert set(told(tiny, *on, "training.evaluate_every=3")) == {"training.evaluate_every"}
    tiny("privacy.noise_multiplier=1.0", *ledgers(9), *SCORED)


def test_test_patients_that_nobody_named_are_told_of(tiny: Make) -> None:
    settings = tiny(*ON, "privacy.noise_multiplier=1.0", "privacy.unit=patient", *SIZES, *SCORED)
    sites, name = opened(settings), "forum-posts"
    data = sites[name].data
    tested = set(data.test)
    sentences = tuple(
        replace(one, patient=None if at in tested else f"patient {at}")
        for at, one in enumerate(data.sentences)
    )
    named = {key: each.data for key, each in sites.items() if key != name}
    changed = {name: replace(data, sentences=sentences)}
    with pytest.raises(SettingsError, match="without a patient id"):
        require_units(settings, {**named, **changed})


@pytest.mark.parametrize("is_deployed", [False, True])
def test_noised_scores_of_a_run_are_charged_and_called_noised(
    tiny: Make, tmp_path: Path, ledgers: Opened, is_deployed: bool
) -> None:
    kind = ledgers(60, "document") if is_deployed else (*ON, *SIZES)
    settings = tiny(*kind, "privacy.noise_multiplier=1.0", "privacy.unit=document", *SCORED)
    train_run(settings, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    told_in = [each.round for each in folder.rounds() if each.scores]
    assert told_in == [2, 4, 6]
    spent = folder.read(PRIVACY)
    assert spent["simulation"] is not is_deployed
    for name, platform in spent["platforms"].items():
        assert platform["steps"] == 6
        assert platform["score_releases"] == 3
        assert (platform["score_noise_multiplier"], platform["score_max_norm"]) == ([30.0], [4.0])
        assert (platform["noise_multiplier"], platform["max_grad_norm"]) == ([1.0], [1.0])
        [probability] = platform["sampling_probability"]
        expected = {(1.0, probability): 6, (30.0, 1.0): 3}
        assert platform["pld"] == pytest.approx(pld_epsilon(expected, 1e-5))
        told = [each.scores[name].as_dict()["noised"] for each in folder.rounds() if each.scores]
        assert {each["standard_deviation"] for each in told} == {120.0}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "These scores were disclosed with noise" in page
    assert "multiplier 30, a unit&#x27;s counts clipped at 4" in page
