"""Federations that train an encoder: what travels, resuming, the same doors as every recipe."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from joining_options import joined, late
from opened_sites import algorithm_in, opened
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.errors import FednerError
from fedner.federated.algorithms import fedavg, fedner
from fedner.federated.checkpoints import read_state
from fedner.federated.message_bytes import to_bytes, update_from_bytes
from fedner.federated.messages import Order
from fedner.inference.predict import Predictor
from fedner.models.checkpoint import load_tagger
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.runs.blueprint import local_optimizer, sized_recipe
from fedner.runs.folder import DISCLOSURE, SCORES, RunFolder, tagger_folder
from fedner.runs.joining.candidates import ARMS, Setting
from fedner.runs.joining.newcomer import Newcomer, described, newcomer, read_data
from fedner.runs.joining.received import Received, open_received
from fedner.runs.report.card import context_of, words_of
from fedner.runs.simulation import Progress, train_run
from fedner.runs.site_platform import build_platform
from fedner.runs.site_taggers import stored_tagger
from fedner.settings import HUB, PlatformEntry, Settings
from tiny_bert import save_tiny_bert

Make = Callable[..., Settings]
NAMES = ("case-reports", "forum-posts", "social-posts")
ADAPTER = "model.adapter={rank=2,alpha=4.0}"


@pytest.fixture(scope="session")
def made(tiny: Make, tiny_bert: Path) -> Make:
    """Return a maker of settings whose recipe trains the tiny encoder."""

    def make(*assignments: str) -> Settings:
        return tiny(
            "model={recipe='transformer'}",
            f"embeddings={{context='{tiny_bert}'}}",
            "partition.shared='encoder'",
            "local_optimizer.encoder_learning_rate=0.002",
            *assignments,
        )

    return make


@pytest.fixture(scope="session")
def runs(made: Make, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run that trains the whole encoder, and one that trains adapters."""
    folder = tmp_path_factory.mktemp("encoders")
    baselines = 'training.baselines=["local-only","centralized"]'
    lengths = ("training.baseline_epochs=1", "training.patience=1", "training.finetune_epochs=1")
    train_run(made("training.rounds=4", baselines, *lengths), folder / "whole")
    train_run(made("training.rounds=4", ADAPTER), folder / "adapted")
    return {"whole": folder / "whole", "adapted": folder / "adapted"}


def left(run: Path) -> Any:
    return RunFolder(run).read(DISCLOSURE)


def test_the_whole_encoder_travels_or_adapters_alone(
    runs: dict[str, Path], tiny_bert: Path
) -> None:
    encoder = PretrainedEncoder.open(tiny_bert)
    whole = sum(each.numel() for each in encoder.copy_of_model().parameters() if each.requires_grad)
    adapters = 2 * 2 * (2 * 16 + 16 * 2)
    for kind, numbers in (("whole", whole), ("adapted", adapters)):
        for platform in left(runs[kind])["platforms"].values():
            assert platform["numbers_per_update"] == numbers
            assert platform["bytes"] == platform["bytes_received"] == 4 * 4 * numbers
            names = [each["name"] for each in platform["tensors"]]
            inner = "model" if kind == "whole" else "adapters"
            assert all(name.startswith(f"embeddings.context.{inner}.") for name in names)
            kept = {each["name"].split(".")[0] for each in platform["kept"]}
            assert kept == {"emissions", "decoder"}
    assert adapters < whole / 20


def test_what_updates_tell_is_noted(runs: dict[str, Path]) -> None:
    assert any("pieces" in note for note in left(runs["whole"])["notes"])
    assert not any("pieces" in note for note in left(runs["adapted"])["notes"])


def test_neither_private_nor_frozen_weights_are_in_the_servers_state(
    runs: dict[str, Path],
) -> None:
    tensors, _ = read_state(runs["adapted"] / "server", 4)
    shared = [name for name in tensors if name.startswith("shared/")]
    assert len(shared) == 2 * 2 * 2
    assert not any("emissions" in name or "decoder" in name for name in tensors)
    held = sum(tensor.numel() for tensor in tensors.values())
    assert held < 4 * 2 * 2 * (2 * 16 + 16 * 2), "adapters and their moments, no encoder"


def test_every_method_is_scored_and_kept(runs: dict[str, Path]) -> None:
    scores = RunFolder(runs["whole"]).read(SCORES)["platforms"]
    assert all(
        set(scores[name]["methods"]) == {"local-only", "federated", "centralized"} for name in NAMES
    )
    shared = []
    for name in NAMES:
        loaded = load_tagger(tagger_folder(runs["adapted"], name))
        shared.append(loaded.tagger.embeddings.state_dict())
        assert (tagger_folder(runs["adapted"], name) / "model.safetensors").stat().st_size < 20_000
    assert all(torch.equal(shared[0][key], shared[1][key]) for key in shared[0])
    assert any(tensor.any() for key, tensor in shared[0].items() if key.endswith(".up"))


@pytest.mark.parametrize("kind", ["whole", "adapted"])
def test_a_kept_tagger_predicts_as_it_was_scored(runs: dict[str, Path], kind: str) -> None:
    run, name = RunFolder(runs[kind]), "forum-posts"
    site = opened(run.settings(), run.path)[name]
    kept, _ = stored_tagger(site, "federated")
    predictor = Predictor.load(run.tagger(name))
    with torch.no_grad():
        for tagger in (kept, predictor.model.tagger):
            tagger.emissions.bias[1:] += 2.5  # so little trained, it would find nothing
    part = site.evaluation_part()
    scored = part.predictions(kept)
    found = predictor.predict_sentences(site.data.test_sentences)
    assert [[entity for entity, _ in each] for each in found] == scored
    assert 5 < sum(map(len, scored)) < sum(len(each.tokens) for each in part.sentences)


def test_a_platform_joins_later(runs: dict[str, Path], tmp_path: Path) -> None:
    new = late(data="synthetic:case-reports", num_sentences=20, split={"test": 0.3})
    tried = {arm: (Setting(1e-3, 1),) for arm in ARMS}
    for kind in ("whole", "adapted"):
        found, _ = joined(runs[kind], tmp_path / kind, new, grid=tried)
        assert found.received["numbers"] > 0
        loaded = load_tagger(tmp_path / kind)
        assert Predictor.of(loaded).predict("Nausea after aspirin.") is not None
        local = open_received(runs[kind])
        assert local.pretrained is not None
        fresh = newcomer_of(local, new, tmp_path / "cache").tagger("free")
        own = dict(fresh.named_parameters())
        context = [name for name in local.weights if name.startswith("embeddings.context")]
        moved = [n for n in context if not torch.equal(own[n], local.weights[n])]
        assert moved, "local-only begins with the encoder as it was before the run"


def newcomer_of(received: Received, platform: PlatformEntry, cache: Path) -> Newcomer:
    data = read_data(platform, 1, has_test=True)
    types = described(data.labels, {}, {})
    return newcomer(received, data, "sentence", types, 1, cache)


def final_weights(folder: Path, rounds: int) -> dict[str, torch.Tensor]:
    shared, _ = read_state(folder / "server", rounds)
    held = {f"server/{name}": tensor for name, tensor in shared.items()}
    for platform in sorted((folder / "platforms").iterdir()):
        tensors, _ = read_state(platform, rounds)
        held |= {f"{platform.name}/{name}": tensor for name, tensor in tensors.items()}
    return held


@pytest.mark.parametrize("more", [(), (ADAPTER,)], ids=["whole", "adapted"])
def test_a_run_that_was_interrupted_goes_on_to_the_same_weights(
    made: Make, tmp_path: Path, more: tuple[str, ...]
) -> None:
    schedule = 'algorithm.server_optimizer={learning_rate=0.01,schedule="linear",warmup_ratio=0.3}'
    settings = made(schedule, "training.evaluate_every=0", *more)
    train_run(settings, tmp_path / "whole")

    class StopError(Exception):
        pass

    def stop(record: Any) -> None:
        if record.round == 3:
            raise StopError

    with pytest.raises(StopError):
        train_run(settings, tmp_path / "parts", progress=Progress(round=stop))
    train_run(settings, tmp_path / "parts", resume=True)
    whole, parts = (final_weights(tmp_path / name, 6) for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_workers_give_the_same_bits(made: Make, tmp_path: Path) -> None:
    for more in ((), (ADAPTER,)):
        rounds = ("training.rounds=2", "training.evaluate_every=0")
        train_run(made(*rounds, *more), tmp_path / f"serial{len(more)}")
        train_run(made(*rounds, "engine.workers=2", *more), tmp_path / f"workers{len(more)}")
        serial, workers = (
            final_weights(tmp_path / f"{name}{len(more)}", 2) for name in ("serial", "workers")
        )
        assert all(torch.equal(serial[name], workers[name]) for name in serial)


def test_updates_hold_the_shared_weights_and_nothing_else(made: Make) -> None:
    for more in ((), (ADAPTER,)):
        sites = opened(made(*more))
        site = sites["case-reports"]
        platform = build_platform(site, algorithm_in(sites))
        shared = site.blueprint.initial_shared()
        broadcast = Order("run", 1, shared, batches={"case-reports": 12})
        for algorithm in (fedner(), fedavg()):
            update = update_from_bytes(to_bytes(platform.run_round(algorithm, broadcast)))
            assert set(update.tensors) == set(site.blueprint.partition.shared)
            assert not update.extra
            inner = "embeddings.context.adapters." if more else "embeddings.context.model."
            assert all(name.startswith(inner) for name in update.tensors)


@pytest.mark.parametrize("more", [(), (ADAPTER,)], ids=["whole", "adapted"])
@pytest.mark.parametrize("unit", ["sentence", "platform"])
def test_differential_privacy_is_refused_with_the_reason(
    made: Make, unit: str, more: tuple[str, ...]
) -> None:
    privacy = (
        f"privacy={{mechanism='unit-local',noise_multiplier=1.0,simulation=true,unit='{unit}'}}"
    )
    with pytest.raises(FednerError, match="stays frozen under differential privacy") as caught:
        made(privacy, *more)
    assert "model.recipe" in str(caught.value)
    assert ("adapters" if more else "whole") in str(caught.value)


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        (("embeddings={}",), "Name the folder of a Hugging Face encoder"),
        (("embeddings.trainable=true",), "reads no word vectors"),
        (("model.recipe='LSTM-CRF'", "embeddings={}", ADAPTER), "Only the recipe transformer"),
        (("local_optimizer.warmup_ratio=0.1",), "a warm-up only with"),
        (
            ("algorithm.server_optimizer={warmup_ratio=0.1}",),
            "warmup_ratio 0.1 with a constant schedule",
        ),
        (("model.adapter={rank=0}",), "model.adapter.rank"),
        (("model.adapter={size=3}",), "model.adapter.size"),
    ],
)
def test_what_does_not_fit_is_told(made: Make, assignments: tuple[str, ...], expected: str) -> None:
    with pytest.raises(FednerError) as caught:
        made(*assignments)
    assert expected in str(caught.value)


def test_context_must_be_a_hugging_face_folder(made: Make, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="the folder of a Hugging Face encoder"):
        made(f"embeddings.context='{tmp_path}'")


def test_settings_reach_recipe_and_optimizer(made: Make) -> None:
    settings = made("model.decoder='softmax'", "model.adapter={targets=['key']}")
    recipe = sized_recipe(settings.model)
    assert recipe.decoder == "softmax"
    assert recipe.adapter is not None
    assert (recipe.adapter.rank, recipe.adapter.targets) == (8, ("key",))
    assert recipe.composition == "adapted encoder -> softmax"
    optimizer = local_optimizer(opened(settings)["case-reports"].study)
    assert optimizer.factor_of(
        "embeddings.context.model.x"
    ) * optimizer.learning_rate == pytest.approx(2e-3)
    assert optimizer.factor_of("emissions.weight") == 1.0


def test_the_model_card_says_how_the_encoder_is_used(made: Make) -> None:
    whole, adapted = (made(*more) for more in ((), (ADAPTER,)))
    assert words_of(whole) == "none"
    assert context_of(whole) == "`tiny-bert`, trained whole"
    assert context_of(adapted) == "`tiny-bert`, frozen, with trained adapters of rank 2"


def test_a_name_on_the_hub_is_downloaded_only_where_hub_says_so(
    made: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import huggingface_hub

    asked = []

    def download(name: str, *, local_files_only: bool, **_: Any) -> str:
        asked.append((name, local_files_only))
        return str(save_tiny_bert(tmp_path / "downloaded"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    settings = made(f"embeddings.context='{HUB}owner/tiny'")
    context = opened(settings)["case-reports"].blueprint.files.context
    assert context is not None
    assert context.name == "owner/tiny"
    assert asked == [("owner/tiny", False)]
    PretrainedEncoder.open("owner/tiny")
    assert asked[-1] == ("owner/tiny", True)
    with pytest.raises(FednerError, match=r"embeddings\.context"):
        made("embeddings.context='owner/tiny'")


def test_redact_takes_an_encoder_that_moved(made: Make, tmp_path: Path) -> None:
    place = save_tiny_bert(tmp_path / "before")
    settings = made("training.rounds=1", ADAPTER, f"embeddings={{context='{place}'}}")
    train_run(settings, tmp_path / "run")
    place.rename(tmp_path / "after")
    (tmp_path / "a.txt").write_bytes(b"Rash after aspirin.\r\nNo \xf0\x9f\x98\x80 fever.\n")
    arguments = ["redact", tmp_path / "run", tmp_path / "a.txt", "--platform", NAMES[0]]
    arguments += ["--out", tmp_path / "b.txt"]
    lost = CliRunner().invoke(app, [*map(str, arguments)])
    assert "found neither in its folder nor where they were" in str(lost.exception)
    arguments += ["--context", tmp_path / "after"]
    assert CliRunner().invoke(app, [*map(str, arguments)]).exit_code == 0
    assert b"\r\n" in (tmp_path / "b.txt").read_bytes()
