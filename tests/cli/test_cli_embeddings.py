"""`fedner embeddings inspect` as a user runs it, on every format of vectors, without torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.models.checkpoint import load_tagger
from fedner.runs.checks import checked
from fedner.runs.folder import tagger_folder
from fedner.runs.simulation import train_run

CORPUS = "Aspirin B-Drug\ncaused O\n[red]rash B-ADE\n\nRash B-ADE\nafter O\naspirin B-Drug\n\n"
WORDS = ("aspirin", "caused", "after", "rash")
FORMATS = ("text", "text with a header", "word2vec binary", "row-mapped table")


def vectors(folder: Path, form: str) -> Path:
    rows = np.arange(20, dtype=np.float32).reshape(4, 5) / 10
    lines = [" ".join((w, *map(str, row))) for w, row in zip(WORDS, rows.tolist(), strict=True)]
    if form == "row-mapped table":
        np.save(folder / "vectors.npy", rows[:2])
        (folder / "words.tsv").write_text("".join(f"{w}\t{i % 2}\n" for i, w in enumerate(WORDS)))
        return folder
    path = folder / "vectors.any"
    if form == "word2vec binary":
        records = (w.encode() + b" " + row.tobytes() for w, row in zip(WORDS, rows, strict=True))
        path.write_bytes(b"4 5\n" + b"".join(records))
    else:
        path.write_text("\n".join([*(["4 5"] if "header" in form else []), *lines]) + "\n")
    return path


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "vectors").mkdir()
    path = tmp_path / "corpus.bio"
    path.write_text(CORPUS)
    return path


def invoke(*arguments: object) -> str:
    given = ["embeddings", "inspect", *map(str, arguments)]
    result = CliRunner().invoke(app, given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_shown_with_its_coverage(tmp_path: Path, corpus: Path, form: str) -> None:
    path = vectors(tmp_path / "vectors", form)
    found = json.loads(invoke(path, "--corpus", corpus, "--json"))
    assert found["vectors"]["format"] == form
    assert (found["vectors"]["num_words"], found["vectors"]["dimension"]) == (4, 5)
    tokens = found["coverage"]["tokens"]
    assert (tokens["total"], tokens["exact"], tokens["lowercased"], tokens["found"]) == (6, 3, 5, 5)
    assert found["coverage_in_mentions"]["tokens"]["found"] == 3
    assert found["coverage_by_type"]["ADE"]["types"]["total"] == 2
    assert found["unknown"] == [{"word": "[red]rash", "tokens": 1, "in_mentions": 1}]
    shown = invoke(path, "--corpus", corpus, "--top", 1)
    assert form in shown
    assert "[red]rash" in shown, "words are text, never markup"
    assert "shown only here" in shown


def test_the_rule_of_the_tagger_can_be_given(tmp_path: Path, corpus: Path) -> None:
    path = vectors(tmp_path / "vectors", "text")
    found = json.loads(invoke(path, "--corpus", corpus, "--lowercase", "never", "--json"))
    assert found["coverage"]["tokens"]["found"] == 3
    assert [each["word"] for each in found["unknown"]] == ["Aspirin", "Rash", "[red]rash"]
    assert "all in lower case" in invoke(path, "--corpus", corpus, "--lowercase", "never")
    assert "no unknown words" not in invoke(path, "--corpus", corpus, "--top", 0)


def test_torch_is_not_loaded(tmp_path: Path, corpus: Path) -> None:
    path = vectors(tmp_path / "vectors", "word2vec binary")
    program = (
        "import sys; from fedner.cli.app import app\n"
        f"app(['embeddings', 'inspect', {str(path)!r}, '--corpus', {str(corpus)!r}], "
        "standalone_mode=False)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("False\n")


def test_what_is_wrong_is_told_with_the_hint(tmp_path: Path, corpus: Path) -> None:
    command = [sys.executable, "-m", "fedner", "embeddings", "inspect"]
    done = subprocess.run(
        [*command, str(tmp_path / "none"), "--corpus", str(corpus)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no word vectors at" in done.stderr


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_trains_with_every_format(tmp_path: Path, corpus: Path, form: str) -> None:
    corpus.write_text(CORPUS * 10)
    tables = {
        "model": {"hidden": 4, "filters": 4, "character_filters": 4, "character_dimension": 4},
        "embeddings": {"words": str(vectors(tmp_path / "vectors", form))},
        "training": {"rounds": 1, "batch_size": 8, "evaluate_every": 0},
        "platforms": [{"name": "a", "data": str(corpus)}],
    }
    train_run(checked(tables, tmp_path), tmp_path / "run")
    words = load_tagger(tagger_folder(tmp_path / "run", "a")).words
    assert words.dimension == 5
    np.testing.assert_array_equal(
        words.source.take(words.source.rows(["CAUSED"]))[0], np.float32([0.5, 0.6, 0.7, 0.8, 0.9])
    )
