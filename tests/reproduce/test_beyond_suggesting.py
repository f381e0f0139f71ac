"""`suggesting`: the curve of annotated sentences, what is chosen of what, and what is paired."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from beyond_rehearsal import Rehearsed, figure_named, mean_of, rehearse, table_named

from fedner.corpus.document import Corpus, Document, Segment
from fedner.corpus.sentence import Sentence
from fedner.corpus.writers.jsonl import write_jsonl
from fedner.reproduce.bench import Bench
from fedner.reproduce.beyond import suggesting
from fedner.reproduce.beyond.suggesting import ARMS, SUGGESTING, epochs_for
from fedner.reproduce.beyond.suggesting_tables import REHEARSED_SIZES, SIZES
from fedner.reproduce.figures import svg
from fedner.reproduce.reproduction import Row

NAMES = ("case-reports", "forum-posts", "social-posts")


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(SUGGESTING, tmp_path_factory.mktemp("suggesting"))


def test_a_rehearsal_has_every_row_and_every_point(rehearsed: Rehearsed) -> None:
    assert len(rehearsed.cells) == len(NAMES) * len(ARMS)
    assert len(rehearsed.rows) == len(rehearsed.cells) * len(REHEARSED_SIZES)
    for table in rehearsed.shown.tables:
        assert all(entry is not None for row in table.rows for entry in row), table.name
    curves = figure_named(rehearsed.shown, "suggesting")
    assert [panel.title for panel in curves.panels] == list(NAMES)
    for panel in curves.panels:
        assert [len(series.points) for series in panel.series] == [len(REHEARSED_SIZES)] * 4
        assert all(point is not None for series in panel.series for point in series.points)
    for panel in figure_named(rehearsed.shown, "suggesting-tokens").panels:
        held = [sum(point is not None for point in series.points) for series in panel.series]
        assert held == [len(REHEARSED_SIZES)] * 4
        assert len(panel.places) == len(panel.marks) == sum(held)


def test_all_ways_begin_with_the_same_sentences_and_go_on_with_others(
    rehearsed: Rehearsed,
) -> None:
    for name in NAMES:
        first, second = (
            {
                (row.measures["tokens"], row.measures["mentions"], row.measures["strict_f1"])
                for row in rehearsed.rows
                if row.factors["platform"] == name and row.factors["size"] == size
            }
            for size in REHEARSED_SIZES
        )
        assert len(first) == 1
        assert len(second) > 1


def test_nothing_is_annotated_twice_and_the_test_part_never(
    rehearsed: Rehearsed, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Sequence[int]] = []
    held = []
    inner = suggesting._Trainer.train

    def train(self: suggesting._Trainer, chosen: Sequence[int], epochs: int) -> object:
        trained.append(tuple(chosen))
        held.append(self.held)
        return inner(self, chosen, epochs)

    monkeypatch.setattr(suggesting._Trainer, "train", train)
    cell = next(each for each in rehearsed.cells if each.factors["arm"] == "both")
    SUGGESTING.run(cell, Bench(rehearsed.inputs))
    first, second = trained
    assert [len(set(each)) for each in trained] == list(REHEARSED_SIZES)
    assert second[: len(first)] == first
    pool, test = ([each.tokens for each in part] for part in (held[0].pool, held[0].test))
    assert len(set(pool)) == len(pool)
    assert not set(pool) & set(test)
    assert len(test) == round(0.2 * (len(pool) + len(test)))


def test_what_is_chosen_next_is_what_the_tagger_doubts() -> None:
    pool = [Sentence.of(("a",) * 5), *(Sentence.of((word,) * 5) for word in "bcdef")]

    def judge(sentences: Sequence[Sentence]) -> list[tuple[list[object], float]]:
        return [([], float("abcdef".index(each.tokens[0]))) for each in sentences]

    predictor = SimpleNamespace(judge_sentences=judge)
    for arm, expected in (("uncertainty", [4, 3]), ("both", None), ("random", None)):
        cell = SimpleNamespace(factors={"arm": arm})
        found = suggesting._next(cell, predictor, pool, [0, 5], 2, 1)
        assert len(set(found)) == 2
        assert not set(found) & {0, 5}, "they are annotated"
        assert expected is None or found == expected


def test_few_sentences_are_seen_more_often() -> None:
    assert [epochs_for(size) for size in (8, 50, 100, 800)] == [320, 80, 45, 16]
    assert epochs_for(800) == epochs_for(8000) == 16


def test_gains_are_paired_by_repeat_and_their_mean_is_over_the_rounds(
    rehearsed: Rehearsed,
) -> None:
    def row(arm: str, repeat: int, size: int, f1: float) -> Row:
        factors = {"platform": "case-reports", "arm": arm, "repeat": repeat, "size": size}
        return Row(factors, {"strict_f1": f1, "tokens": 10.0 * size, "mentions": 3.0})

    rows = [row("random", 1, size, f1) for size, f1 in ((50, 10), (100, 20), (200, 40))]
    rows += [row("both", 1, size, f1) for size, f1 in ((50, 10), (100, 23), (200, 41))]
    rows += [row("random", 2, size, f1) for size, f1 in ((50, 30), (100, 50), (200, 60))]
    rows += [row("both", 2, size, f1) for size, f1 in ((50, 30), (100, 55), (200, 63))]
    rows += [row("random", 3, size, 90) for size in (50, 100, 200)]
    for arm, gain in (("random", 0), ("both", 1)):  # of a whole curve
        rows += [row(arm, each, size, 95 + gain) for each in (1, 2) for size in (400, 800)]
    shown = SUGGESTING.show(rows, replace(rehearsed.inputs, repeats=3, is_rehearsal=False))
    gains = table_named(shown, "suggesting-gains")
    assert gains.columns == ("corpus", "chosen by", *map(str, SIZES[1:]), "mean of the rounds")
    (both,) = [line for line in gains.rows if line[:2] == ("case-reports", gains.rows[0][1])]
    assert [mean_of(each) for each in both[2:]] == pytest.approx([4, 2, 1, 1, 2])
    assert [each.num for each in both[2:]] == [2] * 5
    missing = [line for line in gains.rows if line[0] == "forum-posts"]
    assert all(entry is None for line in missing for entry in line[2:])
    assert "case-reports: 0 of 3 repeats" in shown.notes[0]
    assert "3 in part" in shown.notes[0]
    assert rehearsed.shown.notes == (), "all of it is there"


def test_a_study_that_was_stopped_before_its_first_row_is_drawn(rehearsed: Rehearsed) -> None:
    shown = SUGGESTING.show((), rehearsed.inputs)
    assert all(entry is None for row in shown.tables[0].rows for entry in row[1:])
    assert len(shown.notes) == len(NAMES)
    for figure in shown.figures:
        assert svg(figure).startswith("<svg")


def test_a_test_part_of_its_own_is_scored_on_and_never_annotated(tmp_path: Path) -> None:
    def one(number: int, text: str) -> Document:
        return Document(str(number), text, (), (Segment(0, len(text)),))

    def corpus(*texts: str) -> Corpus:
        return Corpus("n", (), tuple(one(*each) for each in enumerate(texts)))

    write_jsonl(tmp_path / "test.jsonl", corpus("no rash", "fever", "fever"))
    platform = SimpleNamespace(test_data=str(tmp_path / "test.jsonl"))
    bench = SimpleNamespace(
        corpus=lambda _name: corpus("no rash", "sleeps well", "walks", "walks"),
        inputs=SimpleNamespace(platform=lambda _name: platform),
    )
    held = suggesting._divided(bench, "n", 1)
    assert [each.tokens for each in held.test] == [("no", "rash"), ("fever",)]
    assert {each.tokens for each in held.pool} == {("sleeps", "well"), ("walks",)}
    assert len(held.pool) == 2
