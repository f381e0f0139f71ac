"""Exports in 8 bits: close to those in 32, refused where they cost too much."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.document import Corpus, Document
from fedner.corpus.prepare import prepare
from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_jsonl
from fedner.errors import FednerError
from fedner.inference import precision
from fedner.inference.onnx_export import export_onnx
from fedner.inference.onnx_tagger import OnnxTagger
from fedner.models.checkpoint import load_tagger, save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, encode_corpus
from fedner.models.zoo import RECIPES, build_tagger, resized
from fedner.optimizers import OptimizerSettings
from fedner.training import TrainingSettings, train

CORPUS = generate("case-reports", 80, seed=3)
HELD_OUT = generate("case-reports", 80, seed=4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    recipe = resized(RECIPES["CNN-LSTM-CRF"], hidden=24, filters=8, character_filters=16)
    space = TagSpace.of(CORPUS.labels, "BIO")
    words = WordEmbedding(HashedWords(1000, 24), trainable=True)
    tagger = build_tagger(recipe, words, space)
    sentences = prepare(CORPUS.documents).sentences
    settings = TrainingSettings(
        epochs=10, batch_size=8, optimizer=OptimizerSettings(learning_rate=1e-2)
    )
    train(tagger, encode_corpus(sentences, words, space=space), settings, seed=1)
    folder = tmp_path_factory.mktemp("model")
    save_tagger(folder, tagger, recipe, space)
    return folder


def test_emissions_in_8_bits_are_close(model: Path, tmp_path: Path) -> None:
    loaded = load_tagger(model)
    export_onnx(loaded, tmp_path / "wide")
    export_onnx(loaded, tmp_path / "narrow", "int8")
    sentences = prepare(HELD_OUT.documents).sentences
    wide, narrow = (OnnxTagger.load(tmp_path / each) for each in ("wide", "narrow"))
    exact = np.concatenate(wide.emissions(sentences))
    rounded = np.concatenate(narrow.emissions(sentences))
    error = np.abs(rounded - exact).mean() / np.abs(exact).mean()
    assert 0 < error < 0.03, "rounded, and to the right values"
    assert wide.digest != narrow.digest, "a job does not mix them"
    assert json.loads((tmp_path / "narrow" / "tagger.json").read_text())["precision"] == "int8"


def test_the_command_compares_before_it_writes(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_out, to = tmp_path / "held-out.jsonl", tmp_path / "exported"
    write_jsonl(held_out, HELD_OUT)
    command = ["export", str(model), "--to", str(to), "--precision", "int8"]
    missing = CliRunner().invoke(app, command)
    assert isinstance(missing.exception, FednerError)
    assert "--check" in missing.exception.hint
    command += ["--check", str(held_out), "--json"]
    monkeypatch.setattr(precision, "MOST_LOST", -0.01)
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, FednerError)
    assert "points of strict F1" in refused.exception.message
    assert not to.exists()
    # One mention of so few is more than 0.2 points; benchmarks/peers/notes.py has enough of them.
    monkeypatch.setattr(precision, "MOST_LOST", 3.0)
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    check = json.loads(done.stdout)["check"]
    assert check["documents"] == len(HELD_OUT)
    assert abs(check["float32_f1"] - check["int8_f1"]) <= 3
    assert check["float32_f1"] > 20
    assert check["same_mentions"] > 0.9


def test_what_cannot_be_in_8_bits_or_compared_is_refused(model: Path, tmp_path: Path) -> None:
    space = TagSpace.of(("ADE",), "BIO")
    recipe = resized(RECIPES["CNN-CRF"], hidden=4, filters=8, character_filters=4)
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space)
    save_tagger(tmp_path / "cnn", tagger, recipe, space)
    with pytest.raises(FednerError, match="has no LSTM"):
        export_onnx(load_tagger(tmp_path / "cnn"), tmp_path / "out", "int8")
    bare = Corpus("bare", (), tuple(Document(each.id, each.text) for each in HELD_OUT))
    with pytest.raises(FednerError, match="no mention of the tagger's types"):
        precision.compare(load_tagger(model), bare)
    with pytest.raises(FednerError, match="--check is for"):
        precision.checked_export(load_tagger(model), tmp_path / "out", "float32", tmp_path)


def test_predict_with_an_export_loads_no_torch(model: Path, tmp_path: Path) -> None:
    exported, note = tmp_path / "exported", tmp_path / "a.txt"
    export_onnx(load_tagger(model), exported)
    note.write_text(CORPUS.documents[0].text)
    code = "import sys; sys.modules['torch'] = None; from fedner.cli import main; main()"
    command = [sys.executable, "-c", code, "predict", str(exported), str(note), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    saved = CliRunner().invoke(app, ["predict", str(model), str(note), "--json"])

    def spans(output: str) -> list[tuple[int, int, str]]:
        (record,) = map(json.loads, output.splitlines()[1:])
        return [(span["start"], span["end"], span["label"]) for span in record["spans"]]

    assert spans(done.stdout) == spans(saved.stdout) != []
    with pytest.raises(FednerError, match="--vectors"):
        CliRunner().invoke(
            app,
            ["predict", str(exported), str(note), "--vectors", "x"],
            catch_exceptions=False,
        )
