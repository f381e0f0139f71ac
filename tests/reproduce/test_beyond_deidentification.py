"""`deidentification`: every arm, Presidio's environment, refused thresholds, and the tables."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from beyond_rehearsal import (
    Rehearsed,
    assert_whole,
    figure_named,
    mean_of,
    rehearse,
    table_named,
)
from fake_presidio import fake_presidio

from fedner.corpus.document import Corpus
from fedner.errors import FednerError
from fedner.experiments.deidentification.arms import Training
from fedner.experiments.deidentification.corpora import LOOKED_FOR, Parts
from fedner.experiments.deidentification.stand_ins import stand_in
from fedner.inference.calibration import Wish, choose, halves
from fedner.inference.removal_scores import ScoredDocument, scores_at
from fedner.reproduce.bench import Bench
from fedner.reproduce.beyond import deidentification as module
from fedner.reproduce.beyond.deidentification import (
    ANY,
    DEIDENTIFICATION,
    presidio_cells,
    presidio_python,
    rows_of,
    tagger_cells,
    threshold_rows,
)
from fedner.reproduce.beyond.deidentification_tables import (
    ALL_TYPES,
    FEW,
    JOINED,
    LOCAL,
    NAMES,
    PRESIDIO,
    PRESIDIO_VARIABLE,
    REFUSED,
    REMOVALS,
    TAGGERS,
    WITHOUT_PRESIDIO,
)
from fedner.reproduce.reproduction import Cell, Row
from fedner.reproduce.running import Run, run_study

SYNTH, QUERIES = NAMES
CELL = Cell("k", {"corpus": SYNTH, "arm": "local-only", "repeat": 1})


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    python = fake_presidio(tmp_path_factory.mktemp("presidio"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PRESIDIO_VARIABLE, str(python))
        return rehearse(DEIDENTIFICATION, tmp_path_factory.mktemp("deidentification"))


@pytest.fixture(autouse=True)
def without_presidio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PRESIDIO_VARIABLE, raising=False)


def one_mention(score: float, number: int, others: tuple[float, ...] = (0.0,)) -> ScoredDocument:
    label = ("PERSON", "TITLE")[number % 2]  # Presidio looks for the first of them
    return ScoredDocument(str(number), ((label, score),), others)


def test_a_rehearsal_has_every_row_of_every_removal_and_every_bar(rehearsed: Rehearsed) -> None:
    assert_whole(rehearsed.shown)
    arms = {(cell.factors["corpus"], cell.factors["arm"]) for cell in rehearsed.cells}
    assert arms == {(name, arm) for name in NAMES for arm in (*TAGGERS, PRESIDIO)}
    lines = [f"{name}: {removal}" for name in NAMES for removal in REMOVALS]
    for name in ("deidentification", "deidentification-one-repeat"):
        assert [row[0] for row in table_named(rehearsed.shown, name).rows] == lines
    types = table_named(rehearsed.shown, f"deidentification-types-{QUERIES}")
    assert [row[:2] for row in types.rows] == [
        ("MEDICAL_RECORD_NUMBER", "no"), ("NAME", "yes"), ("PHONE_NUMBER", "yes"),
    ]  # fmt: skip
    assert types.columns[3:] == REMOVALS
    for panel in figure_named(rehearsed.shown, "deidentification").panels:
        assert [each.label for each in panel.series] == list(REMOVALS)
    assert WITHOUT_PRESIDIO not in rehearsed.shown.notes


def test_every_removal_is_measured_on_the_same_mentions(rehearsed: Rehearsed) -> None:
    for name in NAMES:
        own = [row for row in rehearsed.rows if row.factors["corpus"] == name]
        every = [row for row in own if row.factors["type"] == ALL_TYPES]
        (number,) = {row.measures["mentions"] for row in every}
        assert number
        for row in every:
            of_removal = [each for each in own if each.factors["removal"] == row.factors["removal"]]
            types = [each.measures for each in of_removal if each is not row]
            assert sum(each["mentions"] or 0 for each in types) == number
            remain = sum((each["mentions"] or 0) * (each["remain"] or 0) for each in types)
            assert remain / number == pytest.approx(row.measures["remain"])
            assert (row.measures["threshold"] is not None) == ("threshold" in str(row.factors))


def test_presidio_removes_what_it_finds(rehearsed: Rehearsed) -> None:
    """The stand-in finds two capitalised words: names, never numbers."""
    table = table_named(rehearsed.shown, f"deidentification-types-{QUERIES}")
    found = {row[0]: mean_of(row[-1]) for row in table.rows}
    assert found == {"MEDICAL_RECORD_NUMBER": 1000, "NAME": 0, "PHONE_NUMBER": 1000}


def test_without_presidio_its_entries_are_missing(rehearsed: Rehearsed) -> None:
    assert presidio_cells(rehearsed.inputs, []) == []
    assert len(tagger_cells(rehearsed.inputs, [])) == len(NAMES) * len(TAGGERS)
    rows = [row for row in rehearsed.rows if row.factors["arm"] != PRESIDIO]
    shown = DEIDENTIFICATION.show(rows, rehearsed.inputs)
    for name in ("deidentification", "deidentification-one-repeat"):
        for row in table_named(shown, name).rows:
            is_missing = all(each is None for each in row[1:])
            assert is_missing == str(row[0]).endswith(PRESIDIO)
    assert WITHOUT_PRESIDIO in shown.notes


def test_a_wrong_python_is_an_error_before_anything_is_trained(
    rehearsed: Rehearsed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "train_local_only", None)
    (tmp_path / "no-program").write_text("")
    for wrong in ("nowhere/python", str(tmp_path), str(tmp_path / "no-program")):
        monkeypatch.setenv(PRESIDIO_VARIABLE, wrong)
        with pytest.raises(FednerError, match="expected the path of a Python"):
            run_study(Run(DEIDENTIFICATION, replace(rehearsed.inputs, out=tmp_path / "out")))
    monkeypatch.setenv(PRESIDIO_VARIABLE, sys.executable)  # a Python, and no Presidio there
    with pytest.raises(FednerError, match="Presidio's analyzer failed"):
        run_study(Run(DEIDENTIFICATION, replace(rehearsed.inputs, out=tmp_path / "out")))
    monkeypatch.setenv(PRESIDIO_VARIABLE, "")
    assert presidio_python() is None


def test_the_link_of_an_environment_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("python").symlink_to(sys.executable)
    assert presidio_python({PRESIDIO_VARIABLE: "python"}) == tmp_path / "python"


def test_without_corpora_it_says_what_to_get(rehearsed: Rehearsed, tmp_path: Path) -> None:
    (tmp_path / QUERIES).mkdir()
    for root, words in ((None, f"{SYNTH} and no corpus {QUERIES}"), (tmp_path, SYNTH)):
        inputs = replace(rehearsed.inputs, is_rehearsal=False, root=root)
        with pytest.raises(FednerError, match="no corpus") as caught:
            presidio_cells(inputs, [])
        assert caught.value.message.endswith(f"has no corpus {words}")
        assert "--data" in caught.value.hint


def test_a_rehearsal_on_own_data_takes_a_few_documents(
    rehearsed: Rehearsed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, sizes = [], []

    def load(root: Path, name: str) -> Corpus:
        asked.append((root, name))
        return stand_in(name, 200)

    def tagger(folder: Path, inputs: object, cell: Cell, own: Parts) -> Path:
        sizes.append(len(own.train) + len(own.held_out))
        raise FednerError("enough", "")

    monkeypatch.setattr(module, "load", load)
    monkeypatch.setattr(module, "_tagger", tagger)
    for is_rehearsal in (True, False):
        inputs = replace(rehearsed.inputs, root=tmp_path, is_rehearsal=is_rehearsal)
        with pytest.raises(FednerError, match="enough"):
            DEIDENTIFICATION.run(tagger_cells(inputs, [])[0], Bench(inputs))
    assert asked == [(tmp_path, SYNTH)] * 2
    assert sizes == [60, 200]


class StoppedError(Exception):
    """What was trained is known; the rest of the cell is not run."""


@pytest.mark.parametrize(
    ("arm", "trained"),
    [
        (LOCAL, [(SYNTH, 240, 15, False)]),
        (FEW, [(SYNTH, 100, 45, False)]),
        (JOINED, [(QUERIES, 240, 15, True), (SYNTH, 100, 15, None)]),
    ],
)
def test_what_each_arm_trains_on_and_how_long(
    rehearsed: Rehearsed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arm: str,
    trained: list[tuple[str, int, int, bool | None]],
) -> None:
    seen: list[tuple[str, int, int, bool | None]] = []

    def train(_: Path, corpus: Corpus, training: Training, *, described: bool = False) -> Path:
        assert (training.words, training.seed, training.device) == ("vectors", 1, "cuda")
        seen.append((corpus.name, len(corpus), training.size.epochs, described))
        return tmp_path / "model"

    def join(_: Path, model: Path, corpus: Corpus, training: Training) -> Path:
        assert model == tmp_path / "model"
        assert training.size.grid is None
        seen.append((corpus.name, len(corpus), training.size.epochs, None))
        return tmp_path

    def stopped(*_: object) -> None:
        raise StoppedError

    monkeypatch.setattr(module, "load", lambda _, name: stand_in(name, 400))
    monkeypatch.setattr(module, "train_local_only", train)
    monkeypatch.setattr(module, "joined", join)
    monkeypatch.setattr(module, "by_best_path", stopped)
    inputs = replace(
        rehearsed.inputs, root=tmp_path, is_rehearsal=False, words="vectors", device="cuda"
    )
    cell = next(each for each in tagger_cells(inputs, []) if each.factors["arm"] == arm)
    with pytest.raises(StoppedError):
        DEIDENTIFICATION.run(cell, Bench(inputs))
    assert seen == trained


def test_a_cell_that_was_killed_while_its_folder_is_removed_is_run_again(
    rehearsed: Rehearsed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = next(each for each in rehearsed.cells if each.factors["arm"] == FEW)
    bench, real = Bench(replace(rehearsed.inputs, out=tmp_path)), shutil.rmtree

    def killed(path: Path, *_: Any, **__: Any) -> None:
        if (Path(path) / "own" / "run" / "report.html").is_file():
            shutil.copytree(path, tmp_path / "seen")
            (Path(path) / "own" / "train.jsonl").unlink()
            raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        DEIDENTIFICATION.run(cell, bench)
    assert (tmp_path / "seen").is_dir()
    monkeypatch.setattr(shutil, "rmtree", real)
    rows = DEIDENTIFICATION.run(cell, bench)
    assert rows == [row for row in rehearsed.rows if row.factors.items() >= cell.factors.items()]
    assert not list((tmp_path / "under-way").iterdir())


def test_a_threshold_is_chosen_on_one_half_and_measured_on_the_other() -> None:
    documents = [one_mention(number / 80, number) for number in range(80)]
    wish = Wish(0.5, most_lost=1.0)
    first, second = halves(documents, 1)
    threshold = choose(first, wish)
    every = threshold_rows(CELL, "r", documents, wish)[0].measures
    there = scores_at(second, threshold).overall
    assert every["threshold"] == threshold
    assert (every["mentions"], every["remain"]) == (40, 1000 * there.share.value)
    assert every["remain"] != 1000 * scores_at(first, threshold).overall.share.value
    assert (every["remain_low"], every["remain_high"]) == (
        1000 * there.share.low,
        1000 * there.share.high,
    )


def test_types_that_presidio_looks_for_are_counted_by_themselves() -> None:
    assert "TITLE" not in LOOKED_FOR[SYNTH]
    documents = [one_mention(float(number % 2), number, (0.9,)) for number in range(40)]
    every, person, title = rows_of(CELL, "r", documents, ANY)
    assert (person.factors["type"], title.factors["type"]) == ("PERSON", "TITLE")
    assert (person.measures["remain"], title.measures["remain"]) == (1000, 0)
    assert every.measures["remain_looked_for"] == 1000
    assert 0 < (every.measures["remain"] or 0) < 1000
    assert every.measures["lost"] == 1000
    assert every.measures["threshold"] is None


def test_a_refused_threshold_is_shown_as_refused(rehearsed: Rehearsed) -> None:
    documents = [one_mention(0.1, number, (0.9,)) for number in range(80)]
    removal = REMOVALS[1]
    refused = threshold_rows(CELL, removal, documents, Wish(0.9, most_lost=0.3))
    assert [set(row.measures.values()) for row in refused] == [{None}]
    shown = DEIDENTIFICATION.show(refused, rehearsed.inputs)
    for name in ("deidentification", "deidentification-one-repeat"):
        assert set(table_named(shown, name).rows[1][1:]) == {REFUSED}
    again = Cell("again", {**CELL.factors, "repeat": 2})
    other = threshold_rows(again, removal, documents, Wish(0.9, most_lost=1.0))
    shown = DEIDENTIFICATION.show([*refused, *other], rehearsed.inputs)
    assert mean_of(table_named(shown, "deidentification").rows[1][1]) == 0
    assert f"{SYNTH}: {removal} was refused in 1 of 2 repeats" in shown.notes


def test_tables_hold_means_over_repeats_and_one_repeat_by_itself(rehearsed: Rehearsed) -> None:
    def row(repeat: int, remain: float) -> Row:
        held = ("remain", "remain_looked_for", "lost")
        ends = {f"{name}{end}": remain + more for name in held
                for end, more in (("", 0), ("_low", -5), ("_high", 5))}  # fmt: skip
        factors = {"corpus": SYNTH, "removal": REMOVALS[0], "type": ALL_TYPES, "repeat": repeat}
        return Row(factors, {**ends, "threshold": None, "mentions": 1500.0})

    shown = DEIDENTIFICATION.show([row(2, 30), row(1, 20)], rehearsed.inputs)
    assert mean_of(table_named(shown, "deidentification").rows[0][1]) == 25
    one = table_named(shown, "deidentification-one-repeat").rows[0]
    assert one[1:] == (*["20 (15 to 25)"] * 3, "none", "1,500")
    bars = figure_named(shown, "deidentification").panels[0]
    assert [mean_of(bars.series[0].points[0]), bars.series[0].points[1]] == [25, None]


def test_stand_ins_have_ten_templates_and_true_mentions() -> None:
    for name in NAMES:
        corpus = stand_in(name)
        assert len({each.patient for each in corpus}) == 10
        for document in corpus:
            for span in document.spans:
                words = span.text_in(document.text)
                assert words.strip() == words
                assert words[0].isupper() or words[-1].isdigit()
        looked_for = {span.label for each in corpus for span in each.spans} & set(LOOKED_FOR[name])
        assert len(looked_for) == 2, "one of three types is none that Presidio looks for"
