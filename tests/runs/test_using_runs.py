"""Using a finished run: comparing, mistakes in context, a platform that joins later."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError
from fedner.models.checkpoint import load_tagger
from fedner.runs.adaptation import adapt, shared_weights
from fedner.runs.comparison import compare
from fedner.runs.folder import RunFolder, tagger_folder
from fedner.runs.mistakes import find_mistakes, mistakes_in
from fedner.runs.report.markdown import escaped
from fedner.runs.simulation import train_run
from fedner.settings import PlatformEntry, Settings, SettingsError

Make = Callable[..., Settings]


def test_a_run_against_itself_differs_by_nothing(finished: Path) -> None:
    run = RunFolder(finished)
    found = compare(run, run)
    for row in found.platforms.values():
        assert row.strict.difference.value == 0.0
        assert row.strict.p_value == 1.0
        assert row.verdict == "not clear"


def test_other_test_parts_are_not_compared(tiny: Make, finished: Path, tmp_path: Path) -> None:
    train_run(tiny("seed=2", "training.rounds=1"), tmp_path / "other")
    with pytest.raises(FednerError, match="other texts"):
        compare(RunFolder(finished), RunFolder(tmp_path / "other"))
    train_run(tiny("platforms.0.name=x", "training.rounds=1"), tmp_path / "renamed")
    found = compare(RunFolder(finished), RunFolder(tmp_path / "renamed"))
    assert found.only_in_one == ("case-reports", "x")


def test_mistakes_are_told_once_each() -> None:
    gold = (Entity(0, 1, "X"), Entity(2, 4, "X"), Entity(5, 6, "Y"), Entity(7, 8, "X"))
    sentence = Sentence.of(tuple("abcdefghij"), gold)
    found = [
        (Entity(0, 1, "X"), 0.9),
        (Entity(2, 3, "X"), 0.8),
        (Entity(5, 6, "X"), 0.7),
        (Entity(9, 10, "Y"), 0.6),
    ]
    told = [(each.kind, each.gold, each.found) for each in mistakes_in(sentence, found)]
    assert told == [
        ("wrong border", gold[1], found[1][0]),
        ("wrong type", gold[2], found[2][0]),
        ("false negative", gold[3], None),
        ("false positive", None, found[3][0]),
    ]


def test_mistakes_of_a_run_agree_with_its_scores(finished: Path) -> None:
    run = RunFolder(finished)
    scores = run.read("scores.json")["platforms"]["social-posts"]["methods"]["federated"]
    mistakes = find_mistakes(run, "social-posts")
    missed = sum(each.gold is not None for each in mistakes)
    wrong = sum(each.found is not None for each in mistakes)
    assert missed == scores["strict"]["micro"]["fn"]
    assert wrong == scores["strict"]["micro"]["fp"]


def test_taggers_of_a_run_are_named_by_platform(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="3 platforms"):
        tagger_folder(finished, None)
    with pytest.raises(FednerError) as caught:
        tagger_folder(finished, "forum-post")
    assert "'forum-posts'" in caught.value.hint
    for missing in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(FednerError, match=r"neither a run|no such folder"):
            tagger_folder(missing, None)
    (tmp_path / "model.json").write_text("{}")
    assert tagger_folder(tmp_path, None) == tmp_path, "a saved tagger is itself"


@pytest.mark.parametrize("tune_shared", [False, True])
def test_a_platform_joins_a_finished_run(finished: Path, tmp_path: Path, tune_shared: bool) -> None:
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    platform = PlatformEntry(
        name="late",
        data="synthetic:social-posts",
        num_sentences=40,
        labels=("Drug",),
        label_map={"ADE": ""},
    )
    adapted = adapt(
        RunFolder(finished), platform, tmp_path / "late", tune_shared=tune_shared, epochs=2
    )
    assert adapted.epochs == 2
    assert adapted.left_out.endswith(" ADE by labels or label_map")
    card = (tmp_path / "late" / "MODEL_CARD.md").read_text()
    assert f"| mentions left out | {escaped(adapted.left_out)} |" in card
    assert (escaped(adapted.zeros) in card.split("## ")[0]) or not adapted.zeros
    assert os.name != "posix" or (tmp_path / "late").stat().st_mode & 0o077 == 0
    tagger = load_tagger(tmp_path / "late")
    assert tagger.space.labels == ("Drug",)
    shared = shared_weights(RunFolder(finished))
    held = tagger.tagger.state_dict()
    is_kept = all(torch.equal(held[name], shared[name]) for name in shared)
    assert is_kept is not tune_shared
    assert adapted.kept == (0 if tune_shared else sum(each.numel() for each in shared.values()))
    after = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    assert after == before, "the run is read, never written"


def test_types_that_do_not_fit_are_told_before_anything_is_trained(
    finished: Path, tmp_path: Path
) -> None:
    platform = PlatformEntry(name="late", data="synthetic:social-posts", labels=("Drugs",))
    with pytest.raises(SettingsError) as caught:
        adapt(RunFolder(finished), platform, tmp_path / "late")
    absent, strange = map(str, caught.value.problems)
    assert "--labels: found 'Drugs'" in absent
    assert "Did you mean 'Drug'?" in absent
    assert "--label-map ADE=." in strange
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize("epochs", [0, -3])
def test_joining_without_training_is_refused(finished: Path, tmp_path: Path, epochs: int) -> None:
    platform = PlatformEntry(name="late", data="synthetic:social-posts", num_sentences=40)
    with pytest.raises(FednerError, match=f"--epochs {epochs}"):
        adapt(RunFolder(finished), platform, tmp_path / "late", epochs=epochs)
    assert not (tmp_path / "late").exists()


def test_where_everything_is_shared_a_platform_must_tune(tiny: Make, tmp_path: Path) -> None:
    train_run(tiny("partition.shared=everything", "training.rounds=1"), tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    platform = PlatformEntry(name="late", data="synthetic:social-posts", num_sentences=40)
    with pytest.raises(FednerError, match="shares everything"):
        adapt(run, platform, tmp_path / "a", epochs=1)
    adapt(run, platform, tmp_path / "a", epochs=1, tune_shared=True)
    strange = platform.model_copy(update={"labels": ("Drug", "Gene")})
    with pytest.raises(FednerError, match="Gene"):
        adapt(run, strange, tmp_path / "b", epochs=1, tune_shared=True)
