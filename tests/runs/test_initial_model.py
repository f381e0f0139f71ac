"""A federation that begins with a released model: weights, refusals, provenance."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import torch
from test_training_runs import final_weights
from test_what_crosses import Wire

from fedner.errors import FednerError
from fedner.federated.message_bytes import order_from_bytes
from fedner.federated.run import RunRecord
from fedner.models.checkpoint import load_tagger
from fedner.runs.coordinator import coordinate
from fedner.runs.folder import FACTS, RunFolder
from fedner.runs.initial_facts import COVERS, NO_PRIVACY
from fedner.runs.initial_model import first_weights, open_initial
from fedner.runs.records import RunFacts
from fedner.runs.scoring_again import score_again
from fedner.runs.simulation import Progress, open_sites, train_run
from fedner.runs.site import Site
from fedner.settings import Settings, SettingsError

Make = Callable[..., Settings]
DESCRIBED = (
    "model.head=described",
    "model.rank=4",
    "partition.shared=everything",
    'types.ADE="adverse drug event"',
    'types.Drug="name of a drug"',
)
SIMULATED = (
    "privacy.mechanism=unit-central",
    "privacy.simulation=true",
    "privacy.noise_multiplier=1.0",
    "training.evaluate_every=0",
)
OTHER_TYPES = 'types={Dosage="amount of a drug"}'


@pytest.fixture(scope="session")
def public(tiny: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a described head, whose model others begin with."""
    folder = tmp_path_factory.mktemp("initial") / "public"
    train_run(tiny(*DESCRIBED, "title=public corpora", "training.rounds=4"), folder)
    return folder


def alone(public: Path, tmp_path: Path) -> Path:
    """The released model as somebody else received it, without its run."""
    return shutil.copytree(public / "model", tmp_path / "received")


def begins(model: Path, *assignments: str) -> tuple[str, ...]:
    return (*DESCRIBED, f'model.initial="{model}"', *assignments)


def orders_of(sites: list[Site], folder: Path, initial: Path | None) -> tuple[Wire, RunRecord]:
    wire = Wire({site.name: site for site in sites})
    with closing(wire):
        done = coordinate(sites[0].study, wire, folder, initial=initial)
    return wire, done


# What platforms get.


def test_the_first_order_has_the_weights_of_the_model(
    tiny: Make, tmp_path: Path, public: Path
) -> None:
    settings = tiny(*begins(public / "model", OTHER_TYPES, "training.rounds=1"))
    sites = open_sites(settings, tmp_path / "sites")
    wire, _ = orders_of(sites, tmp_path / "coordinator", public / "model")
    first = next(order for order in map(order_from_bytes, wire.down) if order.verb == "round")
    held = dict(load_tagger(public / "model").tagger.named_parameters())
    assert first.round == 1
    assert set(first.shared) == set(sites[0].blueprint.partition.shared)
    assert all(torch.equal(each, held[name]) for name, each in first.shared.items())
    fresh = sites[0].blueprint.initial_shared()
    assert not any(torch.equal(each, fresh[name]) for name, each in first.shared.items())


def test_private_parts_and_the_residual_begin_as_ever(
    tiny: Make, tmp_path: Path, public: Path
) -> None:
    settings = tiny(*begins(public / "model", "model.residual=true", "model.dropout=0.5"))
    plan = open_sites(settings, tmp_path)[0].blueprint
    assert any("residual" in name for name in plan.partition.private)
    assert not any("residual" in name for name in first_weights(plan, open_initial(public)))
    settings = tiny(*begins(public / "model", "partition.shared=encoder"))
    plan = open_sites(settings, tmp_path)[0].blueprint
    found = first_weights(plan, open_initial(public / "model"))
    assert found.keys() == plan.initial_shared().keys()
    assert not any(name.startswith("emissions") for name in found)


def test_it_goes_on_where_the_model_stood(tiny: Make, tmp_path: Path, public: Path) -> None:
    """With steps of next to nothing the taggers stay those of the model, and score like them."""
    still = (
        "algorithm.server_optimizer={name='sgd', learning_rate=1e-30}",
        "training.rounds=1",
    )
    train_run(tiny(*begins(public / "model", *still)), tmp_path / "run")
    model = dict(load_tagger(public / "model").tagger.named_parameters())
    own = load_tagger(RunFolder(tmp_path / "run").tagger("social-posts")).tagger
    assert all(torch.equal(each, model[name]) for name, each in own.named_parameters())
    before, after = (RunFolder(each).rounds()[-1].scores for each in (public, tmp_path / "run"))
    assert before == after


def test_workers_bytes_and_a_resume_give_the_same_bits(
    tiny: Make, tmp_path: Path, public: Path
) -> None:
    base = begins(public / "model", "model.residual=true", "training.ema_decay=0.5")
    train_run(tiny(*base), tmp_path / "serial")
    train_run(tiny(*base, "engine.workers=2"), tmp_path / "workers")
    settings = tiny(*base, "engine.as_bytes=true")
    for stopped in (1, 3):  # before and after the first checkpoint
        folder = tmp_path / f"resumed-{stopped}"

        def stop(record: object, at: int = stopped) -> None:
            if record.round == at:  # type: ignore[attr-defined]
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_run(settings, folder, progress=Progress(round=stop))
        train_run(settings, folder, resume=True)
    serial = final_weights(tmp_path / "serial", 6)
    for other in ("workers", "resumed-1", "resumed-3"):
        found = final_weights(tmp_path / other, 6)
        assert serial.keys() == found.keys()
        assert all(torch.equal(serial[name], found[name]) for name in serial)
        facts = [load_tagger(tmp_path / each / "model").facts for each in ("serial", other)]
        assert facts[0] == facts[1]


def test_a_resume_with_another_model_is_refused(tiny: Make, tmp_path: Path, public: Path) -> None:
    model = alone(public, tmp_path)
    settings = tiny(*begins(model))

    def stop(record: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_run(settings, tmp_path / "run", progress=Progress(round=stop))
    digest = open_initial(model).named.digest
    shutil.rmtree(model)
    train_run(tiny(*DESCRIBED, "training.rounds=1"), tmp_path / "other")
    shutil.copytree(tmp_path / "other" / "model", model)
    with pytest.raises(FednerError, match=f"{digest}.*{open_initial(model).named.digest}"):
        train_run(settings, tmp_path / "run", resume=True)


def test_centralized_begins_with_it_and_local_only_from_scratch(
    tiny: Make, tmp_path: Path, public: Path
) -> None:
    still = (
        "training.rounds=1",
        'training.baselines=["local-only", "centralized"]',
        "training.baseline_epochs=1",
        "training.patience=1",
        "local_optimizer={name='sgd', learning_rate=1e-30}",
    )
    train_run(tiny(*begins(public / "model", *still)), tmp_path / "run")
    train_run(tiny(*DESCRIBED, *still), tmp_path / "scratch")
    model = dict(load_tagger(public / "model").tagger.named_parameters())
    runs = {name: RunFolder(tmp_path / name) for name in ("run", "scratch")}

    def weights(run: str, method: str) -> dict[str, torch.Tensor]:
        tagger = load_tagger(runs[run].tagger("case-reports", method)).tagger
        return dict(tagger.named_parameters())

    assert all(torch.equal(each, model[n]) for n, each in weights("run", "centralized").items())
    fresh = weights("scratch", "local-only")
    assert all(torch.equal(each, fresh[n]) for n, each in weights("run", "local-only").items())


def test_a_run_with_a_free_head_gives_its_shared_weights(
    tiny: Make, tmp_path: Path, finished: Path
) -> None:
    settings = tiny(f'model.initial="{finished}"', "training.rounds=1")
    train_run(settings, tmp_path / "run")
    initial = open_initial(finished)
    assert initial.named.name == "tiny"
    plan = open_sites(settings, tmp_path / "run")[0].blueprint
    held = RunFolder(finished).shared(12)
    found = first_weights(plan, initial)
    assert found.keys() == held.keys()
    assert all(torch.equal(found[name], held[name]) for name in held)
    facts = RunFolder(tmp_path / "run").initial()
    assert facts is not None
    assert facts.digest == initial.named.digest
    more = tiny(f'model.initial="{finished}"', "partition.shared=encoder")
    with pytest.raises(FednerError, match=r"has no bilstm\..*, which this study shares"):
        train_run(more, tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_shared_tags_must_be_the_same(tiny: Make, tmp_path: Path) -> None:
    base = ("partition.shared=everything", "training.rounds=1")
    train_run(tiny(*base), tmp_path / "run")
    fewer = (f"platforms.{number}.data=synthetic:social-posts" for number in range(3))
    settings = tiny(*base, f'model.initial="{tmp_path / "run"}"', *fewer)
    with pytest.raises(SettingsError, match=r"platforms\.labels: found"):
        train_run(settings, tmp_path / "next")


# What is refused.


@pytest.mark.parametrize(
    ("key", "assignments"),
    [
        ("model.hidden", ["model.hidden=7"]),
        ("model.filters", ["model.filters=9"]),
        ("model.rank", ["model.rank=5"]),
        ("model.decoder", ["model.decoder=softmax"]),
        ("model.tag_scheme", ["model.tag_scheme=BIOES"]),
        ("model.head", ["model.head=free", "model.rank=128", "partition.shared=encoder"]),
        ("model.recipe", ["model.recipe=BI-LSTM-CRF"]),
        ("embeddings.words", ["embeddings.buckets=65"]),
        ("embeddings.words", ["embeddings.lowercase=never"]),
        ("embeddings.trainable", ["embeddings.trainable=true"]),
    ],
)
def test_a_model_of_another_kind_is_refused_with_what_differs(
    tiny: Make, tmp_path: Path, public: Path, key: str, assignments: list[str]
) -> None:
    given = [each for each in begins(public / "model") if "rank" not in each]
    if key != "model.head":
        given.append("model.rank=4")
    else:
        assignments = [each for each in assignments if "rank" not in each]
    settings = tiny(*given, *assignments)
    with pytest.raises(SettingsError) as caught:
        train_run(settings, tmp_path / "run")
    problems = {each.key: str(each) for each in caught.value.problems}
    assert key in problems
    assert "as 'public corpora' has it" in problems[key]
    assert not (tmp_path / "run").exists()


def test_all_differences_are_reported_together(tiny: Make, tmp_path: Path, public: Path) -> None:
    settings = tiny(*begins(public / "model", "model.hidden=7", "model.tag_scheme=IO"))
    with pytest.raises(SettingsError) as caught:
        train_run(settings, tmp_path / "run")
    assert {each.key for each in caught.value.problems} == {"model.hidden", "model.tag_scheme"}


def test_other_embeddings_are_told_by_their_digests(
    tiny: Make, tmp_path: Path, tiny_bert: Path
) -> None:
    base = (*DESCRIBED, "model.recipe=ELMoNER", "training.rounds=1")
    cache = f"embeddings.cache={tmp_path / 'cache'}"
    train_run(tiny(*base, cache, f"embeddings.context={tiny_bert}"), tmp_path / "run")
    initial = open_initial(tmp_path / "run" / "model")
    assert initial.context is not None
    other = shutil.copytree(tiny_bert, tmp_path / "bert")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-6}))
    begun = f'model.initial="{tmp_path / "run" / "model"}"'
    again = tiny(*base, cache, f"embeddings.context={tiny_bert}", begun)
    plan = open_sites(again, tmp_path / "next")[0].blueprint
    assert first_weights(plan, initial)
    with pytest.raises(SettingsError, match=f"found .*digest.*expected .*{initial.context.sha256}"):
        train_run(tiny(*base, cache, f"embeddings.context={other}", begun), tmp_path / "next")


def test_only_released_models_and_runs_can_be_begun_with(
    tiny: Make, tmp_path: Path, public: Path, finished: Path
) -> None:
    with pytest.raises(FednerError, match=r"the head of .* is 'free'"):
        open_initial(RunFolder(finished).tagger("case-reports"))
    with pytest.raises(FednerError, match="neither a released model nor a finished run"):
        open_initial(tmp_path)
    with pytest.raises(SettingsError, match=r"model\.initial: found .*nowhere; expected the fold"):
        tiny(*begins(tmp_path / "nowhere"))
    with pytest.raises(SettingsError, match="nothing is shared"):
        tiny(*begins(public / "model", "partition.shared=nothing"))
    model = alone(public, tmp_path)
    with (model / "model.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(FednerError, match="does not belong to"):
        open_initial(model)


def test_the_coordinator_takes_no_other_model_than_the_studys(
    tiny: Make, tmp_path: Path, public: Path
) -> None:
    sites = open_sites(tiny(*begins(public / "model", "training.rounds=1")), tmp_path / "sites")
    digest = open_initial(public).named.digest
    with pytest.raises(FednerError, match=f"{digest}.*nothing says where it is"):
        orders_of(sites, tmp_path / "none", None)
    train_run(tiny(*DESCRIBED, "training.rounds=1"), tmp_path / "other")
    other = open_initial(tmp_path / "other")
    with pytest.raises(SettingsError, match=f"found .*{other.named.digest}; expected .*{digest}"):
        orders_of(sites, tmp_path / "none", tmp_path / "other")
    plain = open_sites(tiny(*DESCRIBED, "training.rounds=1"), tmp_path / "plain")
    with pytest.raises(SettingsError, match="this study begins from scratch"):
        orders_of(plain, tmp_path / "none", public / "model")
    assert not (tmp_path / "none").exists()


def test_no_path_is_in_the_study_or_in_anything_that_crosses(
    tiny: Make, tmp_path: Path, public: Path
) -> None:
    model = alone(public, tmp_path).rename(tmp_path / "CANARY")
    settings = tiny(*begins(model, "training.rounds=1"))
    assert "CANARY" not in repr(settings.model) + str(settings) + repr(open_initial(model))
    sites = open_sites(settings, tmp_path / "sites")
    study = sites[0].study
    assert study.model.initial == open_initial(model).named
    assert "CANARY" not in study.canonical
    scratch = study.model.model_copy(update={"initial": None})
    assert study.digest != study.model_copy(update={"model": scratch}).digest
    wire, _ = orders_of(sites, tmp_path / "coordinator", model)
    stored = [each for each in (tmp_path / "coordinator").rglob("*") if each.is_file()]
    assert not any(b"CANARY" in each for each in wire.down)
    assert not any(b"CANARY" in each.read_bytes() for each in stored)
    for card in tmp_path.glob("sites/*/*/MODEL_CARD.md"):
        assert "CANARY" not in card.read_text()


# Provenance.


def test_facts_cards_and_reports_say_what_a_run_began_with(
    tiny: Make, tmp_path: Path, public: Path
) -> None:
    run = tmp_path / "run"
    train_run(tiny(*begins(public / "model", "training.rounds=1")), run)
    digest, study = open_initial(public).named.digest, RunFolder(public).study().digest
    facts = RunFolder(run).read_as(RunFacts, FACTS).initial
    assert facts is not None
    assert (facts.name, facts.digest) == ("public corpora", digest)
    assert facts.facts is not None
    assert facts.facts["privacy"] == NO_PRIVACY
    released = load_tagger(run / "model").facts["initial"]
    assert (released["name"], released["digest"]) == ("public corpora", digest)
    assert released["facts"]["study"] == study
    told = (
        f"Began with public corpora (digest {digest}), trained without differential privacy on 3 "
        f"platforms of the study {study} in 4 rounds"
    )
    for page in ("report.html", "coordinator.html", "MODEL_CARD.md", "model/MODEL_CARD.md"):
        assert told in (run / page).read_text(), page
    own = (run / "platforms" / "social-posts" / "MODEL_CARD.md").read_text()
    assert f"Began with public corpora (digest {digest}); the coordinator's record says how" in own
    for card in run.rglob("MODEL_CARD.md"):
        assert str(public) not in card.read_text()
        assert COVERS not in card.read_text(), "there is no epsilon"
    held = b"".join(each.read_bytes() for each in (run / "model").rglob("*"))
    assert not any(name.encode() in held for name in RunFolder(run).study().names)


def test_the_whole_line_of_models_is_carried_along(
    tiny: Make, tmp_path: Path, public: Path
) -> None:
    train_run(tiny(*begins(public, "title=second", "training.rounds=1")), tmp_path / "second")
    train_run(tiny(*begins(tmp_path / "second", "training.rounds=1")), tmp_path / "third")
    facts = load_tagger(tmp_path / "third" / "model").facts
    assert facts["initial"]["name"] == "second"
    assert facts["initial"]["facts"]["initial"]["name"] == "public corpora"
    card = (tmp_path / "third" / "model" / "MODEL_CARD.md").read_text()
    assert "it began with public corpora" in card


def test_a_finished_run_is_scored_again_without_its_initial_model(
    tiny: Make, tmp_path: Path, public: Path
) -> None:
    model = alone(public, tmp_path)
    scores = train_run(tiny(*begins(model, "training.rounds=1")), tmp_path / "run")
    shutil.rmtree(model)
    again = score_again(RunFolder(tmp_path / "run"))
    assert again.platforms == scores.platforms
    assert RunFolder(tmp_path / "run").read_as(RunFacts, FACTS).initial is not None


# Differential privacy.


def told_of(tiny: Make, folder: Path, *assignments: str) -> list[str]:
    said: list[str] = []
    train_run(tiny(*assignments), folder, progress=Progress(say=said.append))
    return [each for each in said if each.startswith("warning: ") and "was trained" in each]


def test_a_run_without_noise_voids_the_guarantee_of_its_own_texts(
    tiny: Make, tmp_path: Path, public: Path
) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    base = (*SIMULATED, "privacy.delta=1e-3", "training.rounds=2")
    [warning] = told_of(tiny, tmp_path / "run", *begins(public, *base))
    assert "without differential privacy on case-reports, forum-posts, social-posts" in warning
    assert "the guarantee of this run is void for them" in warning
    for page in ("MODEL_CARD.md", "report.html", "coordinator.html"):
        assert "the guarantee of this run is void for them" in (tmp_path / "run" / page).read_text()
    for page in ("MODEL_CARD.md", "model/MODEL_CARD.md", "platforms/social-posts/MODEL_CARD.md"):
        assert COVERS in (tmp_path / "run" / page).read_text(), page
    [warning] = told_of(tiny, tmp_path / "unknown", *begins(alone(public, tmp_path), *base))
    assert "case-reports" not in warning
    assert "the run cannot know it" in warning
    assert "void" in warning


@pytest.mark.parametrize("mechanism", ["unit-local", "unit-central", "platform"])
def test_every_mechanism_begins_with_a_model(
    tiny: Make, tmp_path: Path, public: Path, mechanism: str
) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    base = (*SIMULATED, f"privacy.mechanism={mechanism}", "privacy.delta=1e-3")
    small = ("privacy.noise_multiplier=1e-3", "algorithm.server_optimizer={learning_rate=1e-30}")
    settings = tiny(*begins(public, *base, *small, "training.rounds=1"))
    train_run(settings, tmp_path / "run")
    found, held = (load_tagger(each / "model").tagger for each in (tmp_path / "run", public))
    known = dict(held.named_parameters())
    for name, each in found.named_parameters():
        assert torch.allclose(each, known[name], atol=1e-6), name


def test_epsilons_of_a_noised_model_add_up(
    tiny: Make, tmp_path: Path, ledgers: Callable[..., tuple[str, ...]]
) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    deployed = (
        *ledgers(100.0, delta=1e-3),
        *(f'platforms.{n}.labels=["ADE", "Drug"]' for n in range(3)),
        *(f'platforms.{n}.label_map={{Dosage="", Reason=""}}' for n in range(3)),
        "privacy.delta=1e-3",
        "privacy.noise_multiplier=2.0",
        "training.rounds=1",
    )
    train_run(tiny(*DESCRIBED, *deployed, "title=noised"), tmp_path / "noised")
    model = tmp_path / "noised" / "model"
    epsilon = load_tagger(model).facts["privacy"]["epsilon"]
    again = (*deployed, "title=again")
    [warning] = told_of(tiny, tmp_path / "run", *begins(model, *again))
    assert f"trained with epsilon {epsilon:.3g} at delta 0.001 on case-reports" in warning
    assert "epsilons of both runs add up" in warning
    card = (tmp_path / "run" / "model" / "MODEL_CARD.md").read_text()
    assert f"trained with epsilon {epsilon:.3g} at delta 0.001 for one sentence" in card
    received = shutil.copytree(model, tmp_path / "received")
    [warning] = told_of(tiny, tmp_path / "third", *begins(received, *again))
    assert "case-reports" not in warning
    assert "on platforms that also take part in this run the epsilons" in warning
