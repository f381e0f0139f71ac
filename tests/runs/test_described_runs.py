"""Runs with a described head: platforms of different types share the whole tagger."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from test_training_runs import final_weights
from test_what_crosses import Wire, coordinated

from fedner.errors import FednerError
from fedner.federated.messages import Order
from fedner.federated.sizes import batch_sizes
from fedner.inference.predict import Predictor
from fedner.models import types as models_types
from fedner.models.checkpoint import KIND, VERSION, WEIGHTS, load_tagger
from fedner.runs import blueprint as blueprints
from fedner.runs.checks import algorithm_of
from fedner.runs.coordinator import coordinate
from fedner.runs.disclosure import DESCRIBED_NOTE
from fedner.runs.folder import DISCLOSURE, METHODS, RunFolder, tagger_folder
from fedner.runs.initial_facts import NO_PRIVACY
from fedner.runs.report.card_words import OWN_TYPES
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import Progress, open_sites, train_run
from fedner.runs.site import Site
from fedner.runs.site_platform import build_platform
from fedner.settings import Settings, SettingsError, Study
from fedner.tensor_files import read_tensors

Make = Callable[..., Settings]
ADE = "adverse drug event, an unwanted effect of a medicine"
DESCRIBED = (
    "model.head=described",
    "model.rank=4",
    "partition.shared=everything",
    f'types.ADE="{ADE}"',
    'types.Drug="name of a drug"',
)
SIMULATED = ("privacy.simulation=true", "privacy.noise_multiplier=1.0", "training.evaluate_every=0")
COLUMNS = "Nausea\tB-{}\nafter\tO\naspirin\tB-Drug\n\nNo\tO\npain\tB-{}\nnow\tO\n\n"


@pytest.fixture(scope="session")
def described(tiny: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that shares everything, with both baselines."""
    folder = tmp_path_factory.mktemp("described") / "run"
    settings = tiny(
        *DESCRIBED,
        "training.rounds=4",
        'training.baselines=["local-only", "centralized"]',
        "training.baseline_epochs=1",
        "training.patience=1",
    )
    train_run(settings, folder)
    return folder


def card_of(folder: Path) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((folder / "model.json").read_text())
    return card


def test_platforms_of_different_types_share_the_whole_tagger(described: Path) -> None:
    taggers = {
        name: load_tagger(tagger_folder(described, name))
        for name in ("case-reports", "social-posts")
    }
    assert taggers["case-reports"].space.labels == ("ADE", "Dosage", "Drug")
    assert taggers["social-posts"].space.labels == ("ADE", "Drug")
    one, other = (dict(each.tagger.named_parameters()) for each in taggers.values())
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    left = RunFolder(described).read(DISCLOSURE)
    assert DESCRIBED_NOTE in left["notes"]
    for platform in left["platforms"].values():
        assert platform["kept"] == []
        assert any(each["name"] == "emissions.type.B.weight" for each in platform["tensors"])
        assert not any("vectors" in each["name"] for each in platform["tensors"])


def test_all_methods_are_kept_scored_and_loaded(described: Path) -> None:
    scores = RunFolder(described).read("scores.json")["platforms"]
    for name, found in scores.items():
        assert set(found["methods"]) == set(METHODS)
        for method in METHODS:
            loaded = load_tagger(tagger_folder(described, name, method))
            assert loaded.recipe.head == "described"
            norms = loaded.tagger.emissions.vectors.norm(dim=1)
            assert torch.allclose(norms, torch.full_like(norms, 8.0), atol=1e-3)
    assert (described / "report.html").is_file()
    card = (described / "MODEL_CARD.md").read_text()
    assert OWN_TYPES in card, "tags are not shared"
    assert "| head | `described` |" in card
    released = (described / "model" / "MODEL_CARD.md").read_text()
    assert f"| ADE | {ADE} |" in released
    assert "**No differential privacy.**" in released


def test_the_run_releases_its_model_over_the_types_of_the_study(described: Path) -> None:
    model = load_tagger(described / "model")
    study = RunFolder(described).study()
    assert model.space.labels == ("ADE", "Drug")
    assert card_of(described / "model")["types"]["descriptions"]["ADE"] == ADE
    facts = model.facts
    assert facts["study"] == study.digest
    assert (facts["run"], facts["rounds"], facts["seed"]) == ("tiny", 4, 1)
    assert facts["types"] == study.types
    assert facts["privacy"] == NO_PRIVACY
    own = load_tagger(tagger_folder(described, "social-posts")).tagger
    for name, weight in model.tagger.named_parameters():
        assert torch.equal(weight, dict(own.named_parameters())[name])
    text = "Nausea after aspirin in every platform's notes."
    found = Predictor.load(described / "model").predict(text)
    assert found == Predictor.load(tagger_folder(described, "social-posts")).predict(text)
    held = b"".join(each.read_bytes() for each in (described / "model").rglob("*"))
    for platform in study.platforms:
        assert platform.name.encode() not in held, "nothing of a single platform"


@pytest.mark.parametrize(
    "assignments",
    [
        ["partition.shared=encoder"],
        ["partition.shared=nothing", "training.rounds=1"],
        ["model.decoder=softmax"],
        ["model.decoder=softmax", "partition.shared=encoder", "model.residual=true"],
        ["model.residual=true", "training.finetune_epochs=1", "model.tag_scheme=BIOES"],
        ["model.tag_scheme=IO", "training.ema_decay=0.5", "engine.as_bytes=true"],
        ["algorithm={name='fedavg', local={steps=2}, weighting='sqrt-size'}"],
        ["algorithm={name='fedner', weighting='equal', batching='each'}", "engine.spill=true"],
        ['partition.shared=["emissions.type", "emissions.token"]'],
        ["embeddings.trainable=true", "training.slice=0.5"],
    ],
)
def test_presets_decoders_and_schemes_run_from_the_file(
    tiny: Make, tmp_path: Path, assignments: list[str]
) -> None:
    settings = tiny(*DESCRIBED, "training.rounds=2", *assignments)
    train_run(settings, tmp_path / "run")
    shares_all = settings.partition.shared == "everything"
    assert (tmp_path / "run" / "model" / "model.json").is_file() is shares_all
    for platform in RunFolder(tmp_path / "run").read(DISCLOSURE)["platforms"].values():
        shared = [each["name"] for each in platform["tensors"]]
        assert not any("residual" in name for name in shared)
        if settings.model.residual:
            kept = [each["name"] for each in platform["kept"]]
            assert {"emissions.residual.weight", "emissions.residual.bias"} <= set(kept)
    if shares_all and settings.model.residual:
        assert load_tagger(tmp_path / "run" / "model").recipe.residual is False


@pytest.mark.parametrize(
    ("assignments", "weighting"),
    [
        ([], "sqrt-size"),
        (["algorithm={name='fedavg', local={steps=2}}"], "sqrt-size"),
        (['partition.shared=["emissions"]'], "sqrt-size"),
        (["privacy.mechanism=unit-local", *SIMULATED], "sqrt-size"),
        (["privacy.mechanism=unit-central", *SIMULATED], "size"),
        (["privacy.mechanism=platform-central", *SIMULATED], "size"),
        (["partition.shared=encoder"], "size"),
        (["algorithm.weighting=size"], "size"),
        (["algorithm.weighting=equal"], "equal"),
    ],
)
def test_platforms_that_share_a_described_head_count_by_the_root_of_their_size(
    tiny: Make, assignments: list[str], weighting: str
) -> None:
    settings = tiny(*DESCRIBED, *assignments)
    assert algorithm_of(settings).weighting == weighting
    is_written = weighting == "sqrt-size" or any("weighting" in each for each in assignments)
    assert settings.algorithm.parameters.get("weighting") == (weighting if is_written else None)


def test_a_free_head_that_is_shared_counts_by_size_as_in_the_paper(tiny: Make) -> None:
    settings = tiny("partition.shared=everything")
    assert algorithm_of(settings).weighting == "size"
    assert "weighting" not in settings.algorithm.parameters


def test_the_weighting_in_force_stands_in_the_study_its_digest_and_the_parts(
    tiny: Make, tmp_path: Path
) -> None:
    found = {}
    for name, given in (("left-out", []), ("root", ["sqrt-size"]), ("size", ["size"])):
        settings = tiny(
            *DESCRIBED, "training.rounds=1", *(f"algorithm.weighting={each}" for each in given)
        )
        train_run(settings, tmp_path / name)
        run = RunFolder(tmp_path / name)
        found[name] = run.study()
        parts = json.loads((tmp_path / name / "parts.json").read_text())
        assert f"weighting='{(given or ['sqrt-size'])[0]}'" in parts["algorithm"]
    assert found["left-out"].algorithm.parameters["weighting"] == "sqrt-size"
    assert found["left-out"].digest == found["root"].digest != found["size"].digest
    weights = {name: final_weights(tmp_path / name, 1) for name in found}
    one, same, other = (weights[name] for name in ("left-out", "root", "size"))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_a_study_from_python_that_leaves_it_out_means_the_same() -> None:
    sections = {"model": {"head": "described"}, "training": {"rounds": 1}}
    platforms = [{"name": "a", "public_size": 9, "labels": ["Drug"]}]
    for shared, weighting in (("everything", "sqrt-size"), ("encoder", "size")):
        study = Study.model_validate(
            {**sections, "partition": {"shared": shared}, "platforms": platforms}
        )
        assert algorithm_for(study).weighting == weighting


def test_workers_bytes_and_a_resume_give_the_same_bits(tiny: Make, tmp_path: Path) -> None:
    base = (*DESCRIBED, "model.residual=true", "training.rounds=4")
    train_run(tiny(*base), tmp_path / "serial")
    train_run(tiny(*base, "engine.workers=2"), tmp_path / "workers")

    def stop(record: object) -> None:
        if record.round == 3:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    settings = tiny(*base, "engine.as_bytes=true")
    with pytest.raises(KeyboardInterrupt):
        train_run(settings, tmp_path / "resumed", progress=Progress(round=stop))
    assert not (tmp_path / "resumed" / "model").exists()
    train_run(settings, tmp_path / "resumed", resume=True)
    serial = final_weights(tmp_path / "serial", 4)
    assert any("residual" in name for name in serial)
    for other in ("workers", "resumed"):
        found = final_weights(tmp_path / other, 4)
        assert serial.keys() == found.keys()
        assert all(torch.equal(serial[name], found[name]) for name in serial)
        model, again = (_released(tmp_path / name) for name in ("serial", other))
        assert model.keys() == again.keys()
        assert all(torch.equal(model[name], again[name]) for name in model)


def _released(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "model" / WEIGHTS, KIND, VERSION)[0]


@pytest.mark.parametrize("decoder", ["crf", "softmax"])
@pytest.mark.parametrize(
    "mechanism", ["unit-local", "unit-central", "platform", "platform-central"]
)
def test_every_mechanism_trains_a_shared_described_head(
    tiny: Make, tmp_path: Path, mechanism: str, decoder: str
) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    settings = tiny(
        *DESCRIBED, *SIMULATED, f"privacy.mechanism={mechanism}", f"model.decoder={decoder}",
        "model.residual=true", "training.rounds=3", "privacy.delta=1e-3",
    )  # fmt: skip
    train_run(settings, tmp_path / "run")
    facts = load_tagger(tmp_path / "run" / "model").facts["privacy"]
    spent = RunFolder(tmp_path / "run").privacy()
    assert spent is not None
    assert facts["epsilon"] == max(each.pld for each in spent.platforms.values() if each.pld)
    assert (facts["delta"], facts["mechanism"], facts["simulation"]) == (1e-3, mechanism, True)
    assert "trust" in facts
    residuals = {
        platform.name: read["emissions.residual.weight"]
        for platform in sorted((tmp_path / "run" / "platforms").iterdir())
        for read in [
            dict(load_tagger(platform / "taggers" / "federated").tagger.named_parameters())
        ]
    }
    assert all(bool(each.any()) for each in residuals.values()), "trained at home"


def test_noise_of_a_shared_head_resumes_bit_for_bit(tiny: Make, tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    settings = tiny(*DESCRIBED, *SIMULATED, "privacy.mechanism=unit-central", "training.rounds=4")
    train_run(settings, tmp_path / "whole")

    def stop(record: object) -> None:
        if record.round == 3:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_run(settings, tmp_path / "cut", progress=Progress(round=stop))
    train_run(settings, tmp_path / "cut", resume=True)
    one, other = (final_weights(tmp_path / name, 4) for name in ("whole", "cut"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    whole, cut = (load_tagger(tmp_path / name / "model").facts for name in ("whole", "cut"))
    assert whole == cut


@pytest.mark.parametrize("mechanism", ["unit-local", "unit-central"])
def test_the_residual_is_noised_at_home(tiny: Make, tmp_path: Path, mechanism: str) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    settings = tiny(
        *DESCRIBED, *SIMULATED, f"privacy.mechanism={mechanism}", "model.residual=true",
        "privacy.noise_multiplier=1000.0", "model.hidden=64",
        "local_optimizer={name='sgd', learning_rate=0.5, max_grad_norm=0}",
    )  # fmt: skip
    site = open_sites(settings, tmp_path)[0]
    algorithm = algorithm_for(site.study)
    own = build_platform(site, algorithm)
    shared, batches = site.blueprint.initial_shared(), batch_sizes(site.study.public_sizes, 12)
    update = own.run_round(algorithm, Order("tiny", 1, shared, batches=batches))
    assert not any("residual" in name for name in update.tensors)
    moved = torch.cat([each.detach().flatten() for each in own.private().values()]).double()
    assert len(moved) > 800, "the residual began at zero, and is all that is private"
    sigma = 0.5 * 1000.0 / batches[site.name]
    for factor, is_right in ((1, True), (2 / 3, False), (3 / 2, False)):
        ratio = float(moved.square().mean()) / (sigma * factor) ** 2
        assert (abs(ratio - 1) < 5 * (2 / len(moved)) ** 0.5) is is_right


# What stays at home.


def with_canaries(tiny: Make, folder: Path, *assignments: str) -> dict[str, Site]:
    """Two platforms with types and descriptions that nobody else knows."""
    own = []
    for number, canary in enumerate(("CANARYONE", "CANARYTWO")):
        path = folder / f"{number}.tsv"
        path.write_text(COLUMNS.format(canary, canary) * 12)
        own += [f"platforms.{number}.data={path}", f"platforms.{number}.format=columns"]
        own.append(f'platforms.{number}.types={{{canary}="the CANARYTEXT of {number}"}}')
    settings = tiny(
        *own, *DESCRIBED, "training.rounds=2", "training.evaluate_every=1", *assignments
    )
    return {site.name: site for site in open_sites(settings, folder / "sites")}


def test_own_types_and_descriptions_never_cross(tiny: Make, tmp_path: Path) -> None:
    wire, done = coordinated(with_canaries(tiny, tmp_path), tmp_path / "coordinator")
    assert (tmp_path / "coordinator" / "model" / "model.json").is_file()
    stored = [each.read_bytes() for each in (tmp_path / "coordinator").rglob("*") if each.is_file()]
    crossed = [*wire.down, *(data for _, data in wire.up), *stored, repr(done).encode()]
    assert len(crossed) > 20
    assert not any(b"CANARY" in data for data in crossed)
    at_home = next(tmp_path.glob("sites/*/case-reports/taggers/federated/model.json"))
    assert "the CANARYTEXT of 0" in at_home.read_text()
    for card in tmp_path.glob("sites/*/*/MODEL_CARD.md"):
        assert "CANARY" not in card.read_text(), "a card may be handed on"


def test_own_descriptions_are_in_no_study_and_no_card(tiny: Make, tmp_path: Path) -> None:
    sites = with_canaries(tiny, tmp_path)
    assert all("CANARY" not in site.study.canonical for site in sites.values())
    assert all("CANARY" not in repr(site) + repr(site.own) for site in sites.values())


# The coordinator without files.


def vectors(path: Path) -> Path:
    words = ("adverse", "drug", "event", "name", "aspirin", "nausea", "after", "a", "of", "pain")
    lines = [f"{word} {' '.join(str((i * k) % 7 - 3) for k in range(1, 9))}"
             for i, word in enumerate(words, 2)]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_coordinator_without_files_releases_the_same_model(tiny: Make, tmp_path: Path) -> None:
    words = vectors(tmp_path / "vectors.txt")
    settings = tiny(*DESCRIBED, f"embeddings.words={words}", "training.rounds=2")
    train_run(settings, tmp_path / "simulation")
    sites = {site.name: site for site in open_sites(settings, tmp_path / "apart")}
    assert all(
        site.blueprint.types.source == "words" for site in sites.values() if site.blueprint.types
    )
    study = next(iter(sites.values())).study
    wire = Wire(sites)
    with closing(wire):
        coordinate(study, wire, tmp_path / "coordinator")
    assert str(tmp_path) not in (tmp_path / "coordinator" / "model" / "model.json").read_text()
    assert "emissions.vectors" in _released(tmp_path / "simulation")
    assert "emissions.vectors" not in _released(tmp_path / "coordinator")
    one = load_tagger(tmp_path / "simulation" / "model")
    other = load_tagger(tmp_path / "coordinator" / "model", vectors=words)
    held, found = one.tagger.state_dict(), other.tagger.state_dict()
    assert held.keys() == found.keys()
    assert all(torch.equal(held[name], found[name]) for name in held)
    assert dict(one.facts) == dict(other.facts)


def test_a_declared_encoder_is_found_by_its_digest(
    tiny: Make, tmp_path: Path, tiny_bert: Path
) -> None:
    settings = tiny(
        *DESCRIBED, "model.recipe=ELMoNER", f"embeddings.context={tiny_bert}", "training.rounds=1",
        f"embeddings.cache={tmp_path / 'cache'}",
    )  # fmt: skip
    train_run(settings, tmp_path / "simulation")
    sites = {site.name: site for site in open_sites(settings, tmp_path / "apart")}
    assert {site.blueprint.types.source for site in sites.values() if site.blueprint.types} == {
        "context"
    }
    coordinated(sites, tmp_path / "coordinator")
    one = load_tagger(tmp_path / "simulation" / "model")
    other = load_tagger(tmp_path / "coordinator" / "model", context=tiny_bert)
    held, found = one.tagger.state_dict(), other.tagger.state_dict()
    assert held.keys() == found.keys()
    assert all(torch.equal(held[name], found[name]) for name in held)
    with pytest.raises(FednerError, match="the model needs the"):
        load_tagger(tmp_path / "coordinator" / "model")


def test_an_encoder_that_is_trained_describes_as_it_was_before(
    tiny: Make, tmp_path: Path, tiny_bert: Path
) -> None:
    settings = tiny(
        *DESCRIBED, "model.recipe=transformer", f"embeddings.context={tiny_bert}",
        "training.rounds=1", "training.finetune_epochs=1",
    )  # fmt: skip
    train_run(settings, tmp_path / "run")
    released = load_tagger(tmp_path / "run" / "model").tagger.emissions.vectors
    own = load_tagger(tagger_folder(tmp_path / "run", "social-posts")).tagger.emissions.vectors
    assert torch.equal(released, own)


# Settings.


def told(tiny: Make, *assignments: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        tiny(*assignments)
    return {problem.key: str(problem) for problem in caught.value.problems}


def test_keys_of_a_described_head_are_refused_with_a_free_one(tiny: Make) -> None:
    problems = told(tiny, "model.rank=3", "model.residual=false")
    assert set(problems) == {"model.rank", "model.residual"}


def test_a_shared_head_needs_one_scheme_and_a_public_type(tiny: Make, tmp_path: Path) -> None:
    problems = told(tiny, *DESCRIBED, "platforms.0.tag_scheme=BIOES")
    assert "kind of tag" in problems["platforms[0].tag_scheme"]
    tiny(*DESCRIBED, "platforms.0.tag_scheme=BIOES", "partition.shared=encoder")
    path = tmp_path / "notes.tsv"
    path.write_text(COLUMNS.format("ADE", "ADE") * 4)
    files = [f"platforms.{number}.data={path}" for number in range(3)]
    assert "at least one described type" in told(tiny, *DESCRIBED, *files, "types={}")["types"]
    tiny(*DESCRIBED, *files)


def test_no_platform_describes_a_type_of_the_study_in_its_own_words(tiny: Make) -> None:
    problems = told(tiny, *DESCRIBED, 'platforms.0.types={ADE="something else"}')
    assert "the study describes this type" in problems["platforms[0].types.ADE"]


def test_a_residual_is_shared_by_no_list_of_modules(tiny: Make, tmp_path: Path) -> None:
    settings = tiny(*DESCRIBED, "model.residual=true", 'partition.shared=["emissions.residual"]')
    with pytest.raises(FednerError, match="residual"):
        train_run(settings, tmp_path / "run")


def test_a_label_without_a_description_is_a_warning_at_home(tiny: Make, tmp_path: Path) -> None:
    said: list[str] = []
    open_sites(tiny(*DESCRIBED), tmp_path, said.append)
    warnings = [each for each in said if each.startswith("warning: ")]
    assert len(warnings) == 2, "of three platforms one has described types alone"
    assert "case-reports: Dosage without a description" in warnings[0]
    assert '[types] Dosage = "..."' in warnings[0]
    said.clear()
    own = 'platforms.0.types={Dosage="amount of a drug"}'
    open_sites(tiny(*DESCRIBED, own), tmp_path, said.append)
    assert not any("case-reports" in each for each in said if each.startswith("warning"))
    said.clear()
    open_sites(tiny(), tmp_path, said.append)
    assert not any(each.startswith("warning") for each in said), "a free head reads no description"


def test_descriptions_are_read_once_for_a_site(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []

    def counted(descriptions: dict[str, str], **files: Any) -> models_types.TypeVectors:
        calls.append(tuple(descriptions))
        return models_types.type_vectors(descriptions, **files)

    monkeypatch.setattr(blueprints, "type_vectors", counted)
    site = open_sites(tiny(*DESCRIBED), tmp_path)[0]
    first, second = site.tagger(), site.tagger()
    assert torch.equal(first.emissions.vectors, second.emissions.vectors)
    assert calls.count(("ADE", "Dosage", "Drug")) == 1
    assert len(calls) == 3, "one for each platform"
