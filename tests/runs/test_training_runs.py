"""Whole runs: what the folder holds, resuming, cuts and algorithms, baselines."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedner.errors import FednerError
from fedner.federated.checkpoints import read_state
from fedner.models.checkpoint import load_tagger
from fedner.runs.disclosure import TYPES
from fedner.runs.folder import DISCLOSURE, SCORES, RunFolder, open_run, tagger_folder
from fedner.runs.schedule import algorithm_for, num_rounds
from fedner.runs.simulation import Progress, open_sites, train_run
from fedner.settings import Settings

Make = Callable[..., Settings]


def rounds_of(settings: Settings) -> int:
    study = open_sites(settings, Path())[0].study
    return num_rounds(study, algorithm_for(study))


def test_the_folder_is_its_owners_alone(finished: Path) -> None:
    assert stat.S_IMODE(finished.stat().st_mode) == 0o700
    for path in finished.rglob("*"):
        if path.is_dir():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    for name in ("settings.json", "scores.json", "disclosure.json", "report.html"):
        assert stat.S_IMODE((finished / name).stat().st_mode) == 0o600


def test_scores_of_all_methods_on_all_platforms(finished: Path) -> None:
    scores = RunFolder(finished).read(SCORES)
    assert scores["synthetic"] is True
    assert set(scores["platforms"]) == {"case-reports", "forum-posts", "social-posts"}
    for platform in scores["platforms"].values():
        assert set(platform["methods"]) == {"local-only", "federated", "centralized"}
        assert platform["gain"]["over"] == "local-only"
        interval = platform["intervals"]["federated"]["strict"]
        assert interval["low"] <= interval["value"] <= interval["high"]
    last = RunFolder(finished).rounds()[-1].scores
    for name, platform in scores["platforms"].items():
        told = last[name].as_dict()
        assert platform["methods"]["federated"] == told, "the kept tagger is the last round's"


def test_local_fine_tuning_trains_every_weight(tiny: Make, tmp_path: Path) -> None:
    train_run(tiny("training.rounds=2"), tmp_path / "plain")
    train_run(tiny("training.rounds=2", "training.finetune_epochs=2"), tmp_path / "finished")
    left = [
        RunFolder(tmp_path / name).read(DISCLOSURE)["platforms"] for name in ("plain", "finished")
    ]
    assert left[0] == left[1], "nothing more leaves"
    for name in ("case-reports", "social-posts"):
        before, after = (
            dict(load_tagger(tagger_folder(tmp_path / run, name)).tagger.named_parameters())
            for run in ("plain", "finished")
        )
        assert all(not torch.equal(before[key], after[key]) for key in before)


def test_kept_and_scored_taggers_are_those_of_the_average(tiny: Make, tmp_path: Path) -> None:
    train_run(tiny("training.rounds=3"), tmp_path / "plain")
    train_run(tiny("training.rounds=3", "training.ema_decay=0.5"), tmp_path / "averaged")
    run = RunFolder(tmp_path / "averaged")
    server, _ = read_state(run.path / "server", 3)
    for name, platform in run.read(SCORES)["platforms"].items():
        assert platform["methods"]["federated"] == run.rounds()[-1].scores[name].as_dict()
        private, _ = read_state(run.path / "platforms" / name, 3)
        kept = load_tagger(tagger_folder(run.path, name)).tagger.named_parameters()
        ema = {**server, **private}
        for key, weight in kept:
            if weight.requires_grad:
                assert torch.equal(weight, ema[f"ema/{key}"]), key
    plain, _ = read_state(tmp_path / "plain" / "server", 3)
    assert not any(key.startswith("ema/") for key in plain)
    assert all(torch.equal(server[key], plain[key]) for key in plain), "steps are the same"


def test_a_baseline_gets_the_same_fine_tuning(tiny: Make, tmp_path: Path) -> None:
    settings = (
        "training.rounds=2",
        "training.baselines=['local-only']",
        "training.baseline_epochs=1",
    )
    train_run(tiny(*settings), tmp_path / "plain")
    train_run(tiny(*settings, "training.finetune_epochs=2"), tmp_path / "finished")
    before, after = (
        dict(
            load_tagger(
                RunFolder(tmp_path / run).tagger("case-reports", "local-only")
            ).tagger.named_parameters()
        )
        for run in ("plain", "finished")
    )
    assert all(not torch.equal(before[key], after[key]) for key in before)


def test_an_epoch_of_own_batches_is_that_of_the_largest_platform(tiny: Make) -> None:
    joint, each = (
        rounds_of(
            tiny(
                f"algorithm.batching={how!r}",
                "training={epochs=2,batch_size=12}",
                "platforms.1.num_sentences=80",
            )
        )
        for how in ("joint", "each")
    )
    assert joint > each == 2 * 5, "56 training sentences, 12 at a time"


@pytest.mark.parametrize(
    "other",
    [
        "privacy={mechanism='unit-local',noise_multiplier=1.0,simulation=true}",
        'partition.unannotated="marginal"',
    ],
)
def test_local_fine_tuning_is_refused_where_it_would_break_a_promise(
    tiny: Make, other: str
) -> None:
    with pytest.raises(FednerError, match="finetune_epochs"):
        tiny("training.finetune_epochs=2", other)


def test_local_only_takes_at_least_the_steps_of_the_federation(finished: Path) -> None:
    for name in ("case-reports", "forum-posts", "social-posts"):
        baseline = json.loads(
            (finished / "platforms" / name / "baselines" / "local-only.json").read_text()
        )
        assert baseline["steps"] >= baseline["steps_in_federation"] == 12
        assert {each["batch_size"] for each in baseline["tried"]} == {12, 4}


def test_what_is_disclosed_is_the_shared_part_and_nothing_else(finished: Path) -> None:
    left = RunFolder(finished).read(DISCLOSURE)["platforms"]["forum-posts"]
    assert left["updates"] == 12
    assert left["bytes"] == 12 * 4 * left["numbers_per_update"]
    prefixes = {tensor["name"].split(".")[0] for tensor in left["tensors"]}
    assert prefixes == {"embeddings", "word_cnn"}
    assert {each["name"].split(".")[0] for each in left["kept"]} == {
        "bilstm",
        "emissions",
        "decoder",
    }


@pytest.mark.parametrize(
    ("shared", "has_common_tags", "has_private"),
    [
        ('"fedner"', False, True),
        ('"everything"', True, False),
        ('["embeddings","emissions.weight"]', True, True),
    ],
)
def test_what_is_never_disclosed_is_true_of_every_preset(
    tiny: Make, tmp_path: Path, shared: str, has_common_tags: bool, has_private: bool
) -> None:
    train_run(tiny(f"partition.shared={shared}", "training.rounds=2"), tmp_path / "run")
    left = RunFolder(tmp_path / "run").read(DISCLOSURE)
    assert {"texts", "annotations of texts", "optimizer states", TYPES} < set(left["never"])
    assert any("entity type" in note for note in left["notes"]) is has_common_tags
    assert ("private weights" in left["never"]) is has_private
    card = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    is_shared = "may find the types of all platforms" in card
    assert is_shared is (shared != '"fedner"')
    assert ("is never found by its tagger" in card) is not is_shared


def _of_a_ward(tiny: Make, tmp_path: Path, *assignments: str) -> Settings:
    """A platform of its own data, whose types its file does not declare."""
    text = "aspirin\tB-Secret\nhelped\tO\n\nrash\tB-Hidden\nafter\tO\n\n"
    (tmp_path / "ward.tsv").write_text(text * 20)
    ward = f"{{name='ward',data='{tmp_path / 'ward.tsv'}'}}"
    built_in = "{name='forum-posts',data='synthetic:forum-posts',num_sentences=40}"
    return tiny(f"platforms=[{ward},{built_in}]", *assignments)


def test_types_that_the_file_does_not_declare_leave_in_no_score_report(
    tiny: Make, tmp_path: Path
) -> None:
    train_run(_of_a_ward(tiny, tmp_path), tmp_path / "run")
    told = (tmp_path / "run" / "rounds.jsonl").read_text()
    assert "Secret" not in told
    assert "Hidden" not in told
    scores = RunFolder(tmp_path / "run").rounds()[-1].scores
    last = {name: each.as_dict() for name, each in scores.items()}
    assert set(last["ward"]["strict"]["labels"]) == {"*"}
    assert len(last["forum-posts"]["strict"]["labels"]) > 1
    own = RunFolder(tmp_path / "run").read(SCORES)["platforms"]["ward"]["methods"]["federated"]
    assert last["ward"]["strict"]["micro"] == own["strict"]["micro"]
    assert set(own["strict"]["labels"]) == {"Hidden", "Secret"}, "at home they are known"


def test_tags_are_shared_only_of_types_that_the_file_declares(tiny: Make, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match=r"platforms\[0\].labels: found nothing") as caught:
        _of_a_ward(tiny, tmp_path, "partition.shared=everything")
    assert "platforms[1]" not in str(caught.value)


def test_kept_taggers_load_and_have_the_shared_weights_in_common(finished: Path) -> None:
    one, other = (
        load_tagger(tagger_folder(finished, name)) for name in ("case-reports", "social-posts")
    )
    assert one.space.labels == ("ADE", "Dosage", "Drug")
    assert other.space.labels == ("ADE", "Drug")
    for part, is_shared in (("word_cnn", True), ("bilstm", False)):
        left, right = (getattr(each.tagger, part).state_dict() for each in (one, other))
        assert all(torch.equal(left[name], right[name]) for name in left) is is_shared


def final_weights(folder: Path, rounds: int) -> dict[str, torch.Tensor]:
    shared, _ = read_state(folder / "server", rounds)
    held = {f"server/{name}": tensor for name, tensor in shared.items()}
    for platform in sorted((folder / "platforms").iterdir()):
        tensors, _ = read_state(platform, rounds)
        held |= {f"{platform.name}/{name}": tensor for name, tensor in tensors.items()}
    return held


def test_a_run_that_was_interrupted_goes_on_to_the_same_weights(tiny: Make, tmp_path: Path) -> None:
    settings = tiny()
    train_run(settings, tmp_path / "whole")

    class StopError(Exception):
        pass

    def stop(record: object) -> None:
        if record.round == 3:  # type: ignore[attr-defined]
            raise StopError

    with pytest.raises(StopError):
        train_run(settings, tmp_path / "parts", progress=Progress(round=stop))
    train_run(settings, tmp_path / "parts", resume=True)
    whole, parts = (final_weights(tmp_path / name, 6) for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    rounds = RunFolder(tmp_path / "parts").rounds()
    assert [each.round for each in rounds] == [1, 2, 3, 4, 5, 6]


def test_workers_give_the_same_bits(tiny: Make, tmp_path: Path) -> None:
    train_run(tiny("training.rounds=3"), tmp_path / "serial")
    train_run(tiny("training.rounds=3", "engine.workers=2"), tmp_path / "workers")
    serial, workers = (final_weights(tmp_path / name, 3) for name in ("serial", "workers"))
    assert all(torch.equal(serial[name], workers[name]) for name in serial)


def test_another_run_is_not_overwritten_nor_resumed_with_other_settings(
    tiny: Make, finished: Path, tmp_path: Path
) -> None:
    settings = open_run(finished).settings()
    with pytest.raises(FednerError, match="already holds a run"):
        train_run(settings, finished)
    with pytest.raises(FednerError, match=r"training\.batch_size was 12, now 13"):
        train_run(tiny("training.batch_size=13", "training.rounds=12"), finished, resume=True)
    with pytest.raises(FednerError, match="no run to resume"):
        train_run(settings, tmp_path / "nothing", resume=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").touch()
    with pytest.raises(FednerError, match="already there"):
        train_run(settings, tmp_path / "mine")


@pytest.mark.parametrize(
    "assignments",
    [
        ["partition.shared=everything", "partition.unannotated=marginal"],
        ["partition.shared=everything", 'training.baselines=["centralized"]'],
        ["partition.shared=nothing", "training.rounds=2"],
        ['partition.shared=["word_cnn", "embeddings.characters"]', "embeddings.trainable=true"],
        ["algorithm={name='fedavg', local={steps=2}}", "training.rounds=2"],
        ["algorithm={name='scaffold', steps=2}", "participation.sample=2", "training.rounds=2"],
        ["algorithm={name='fedadam'}", "training.slice=0.5", "training.rounds=2"],
        ["algorithm={name='fedner', local_steps=3}", "participation.aggregation=median"],
        ["engine.spill=true", "training.rounds=2"],
    ],
)
def test_presets_algorithms_and_schedules_run_from_the_file(
    tiny: Make, tmp_path: Path, assignments: list[str]
) -> None:
    scores = train_run(tiny("training.rounds=3", *assignments), tmp_path / "run")
    assert set(scores.platforms) == {"case-reports", "forum-posts", "social-posts"}
    assert (tmp_path / "run" / "report.html").is_file()


def test_epochs_become_rounds_by_the_algorithm(tiny: Make) -> None:
    def rounds(*assignments: str) -> int:
        return rounds_of(tiny("training.epochs=6", *assignments))

    sizes = [site.data.train for site in open_sites(tiny(), Path())]
    steps = max(-(-len(each) // 4) for each in sizes)
    assert rounds() == 6 * steps
    assert rounds("algorithm={name='fedner', local_steps=4}") == 6 * -(-steps // 4)
    assert rounds("algorithm={name='fedavg', local={epochs=2}}") == 3
