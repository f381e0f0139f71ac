"""Joining from Python: a corpus in memory, a tagger back, and what it came to."""

import json
import runpy
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedner
from fedner.cli.app import app
from fedner.corpus.writers.jsonl import write_jsonl
from fedner.runs.joining import candidates

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6}
OWN = fedner.synthetic_corpus("social-posts", 20, seed=1)


@pytest.fixture(autouse=True)
def two_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two settings for each arm in place of six: what is chosen from is not in question here."""
    for name in ("_RECEIVED", "_DESCRIBED", "_FREE"):
        monkeypatch.setattr(candidates, name, getattr(candidates, name)[2:4])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    names = ("case-reports", "forum-posts")
    corpora = {name: fedner.synthetic_corpus(name, 30, seed=1) for name in names}
    study = fedner.study_for(
        corpora,
        training={"rounds": 3},
        model={**SMALL, "head": "described", "rank": 8},
        partition={"shared": "everything"},
    )
    fedner.simulate(study, corpora, folder)
    return folder


def test_the_same_from_python_and_from_the_command_line(run: Path, tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    tagger = fedner.join(
        run / "model",
        OWN,
        tmp_path / "python",
        types={"ADE": "an unwanted effect"},
        epochs=1,
        on_training=lambda *how_far: done.append(how_far),
    )
    assert done[-1] == (6, 6), "the learning curves"
    assert (18, 18) in done, "the folds"
    write_jsonl(tmp_path / "own.jsonl", OWN)
    result = CliRunner().invoke(
        app,
        ["join", str(run), "--data", str(tmp_path / "own.jsonl"), "--types",
         "ADE=an unwanted effect", "--epochs", "1", "--out", str(tmp_path / "line"), "--json"],
    )  # fmt: skip
    shown = json.loads(result.stdout)
    found = tagger.facts["joining"]
    assert shown["results"] == json.loads(json.dumps(found["results"]))
    assert shown["selection"] == json.loads(json.dumps(found["selection"]))
    loaded = fedner.Tagger.load(tmp_path / "python")
    text = "Took aspirin, got a headache."
    assert loaded.predict(text) == tagger.predict(text)
    assert loaded.facts["joining"]["kept"] == found["kept"]


def test_a_test_corpus_of_its_own_is_that_of_a_test_file(run: Path, tmp_path: Path) -> None:
    test = fedner.synthetic_corpus("social-posts", 12, seed=2)
    tagger = fedner.join(run, OWN, tmp_path / "python", test_corpus=test, epochs=1)
    found = json.loads(json.dumps(tagger.facts["joining"]))
    assert (found["train_sentences"], found["test_sentences"]) == (20, 12)
    for name, corpus in (("own", OWN), ("test", test)):
        write_jsonl(tmp_path / f"{name}.jsonl", corpus)
    result = CliRunner().invoke(
        app,
        ["join", str(run), "--data", str(tmp_path / "own.jsonl"), "--test-data",
         str(tmp_path / "test.jsonl"), "--epochs", "1", "--out", str(tmp_path / "line"), "--json"],
    )  # fmt: skip
    shown = json.loads(result.stdout)
    assert {key: shown[key] for key in found} == found
    card = (tmp_path / "python" / "MODEL_CARD.md").read_text()
    assert "| test sentences | 12 |" in card


@pytest.mark.parametrize("share", [0.2, 0])
def test_a_share_and_a_corpus_to_test_on_are_one_too_many(
    run: Path, tmp_path: Path, share: float
) -> None:
    with pytest.raises(fedner.FednerError, match="at most one of them"):
        fedner.join(run, OWN, tmp_path / "out", test=share, test_corpus=OWN)
    assert not (tmp_path / "out").exists()


def test_a_test_corpus_without_a_sentence_is_refused(run: Path, tmp_path: Path) -> None:
    nothing = fedner.Corpus("empty", OWN.labels, ())
    with pytest.raises(fedner.FednerError, match="20 sentences to train on and 0 to test on"):
        fedner.join(run, OWN, tmp_path / "out", test_corpus=nothing)


def test_nothing_stays_on_disk_unless_asked_for(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tagger = fedner.join(run, OWN, epochs=1, test=0)
    assert tagger.facts["joining"]["results"] == {}
    assert tagger.labels == ("ADE", "Drug")
    assert list(tmp_path.iterdir()) == []
    tagger.save(tmp_path / "tagger")
    assert fedner.Tagger.load(tmp_path / "tagger").labels == ("ADE", "Drug")


def test_the_snippet_runs_and_stands_in_the_docs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = (ROOT / "docs" / "snippets" / "join.py").read_text().split('"""\n\n', 1)[1]
    assert len(body.splitlines()) <= 10
    assert body in (ROOT / "docs" / "joining.md").read_text()
    quick = body.replace("sys.argv[3])", "sys.argv[3], epochs=1)")
    assert quick != body
    (tmp_path / "snippet.py").write_text(quick)
    write_jsonl(tmp_path / "own.jsonl", OWN)
    given = [str(run), str(tmp_path / "own.jsonl"), str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["join", *given])
    runpy.run_path(str(tmp_path / "snippet.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert shown.startswith("as received 0.")
    assert "sentences of your own" in shown.splitlines()[-1]
