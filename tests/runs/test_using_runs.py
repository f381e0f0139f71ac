"""Using a finished run: comparing, and mistakes in context."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError
from fedner.runs.comparison import compare
from fedner.runs.folder import RunFolder, tagger_folder
from fedner.runs.mistakes import find_mistakes, mistakes_in
from fedner.runs.simulation import train_run
from fedner.settings import Settings

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
    with pytest.raises(FednerError, match="different texts"):
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
        ("border", gold[1], found[1][0]),
        ("type", gold[2], found[2][0]),
        ("missed", gold[3], None),
        ("spurious", None, found[3][0]),
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
