"""Prediction end to end: a small model is trained, saved, loaded, and reads whatever comes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from fedner.cli.models import models
from fedner.cli.predict import predict
from fedner.corpus.document import Document
from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read
from fedner.corpus.synthetic import generate
from fedner.errors import FednerError
from fedner.inference.predict import Predictor
from fedner.inference.reading import CHUNK_TOKENS, read_documents
from fedner.models.checkpoint import LoadedTagger, save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, encode_corpus
from fedner.models.zoo import RECIPES, build_tagger, resized
from fedner.optimizers import OptimizerSettings
from fedner.scoring import score_documents
from fedner.training import TrainingSettings, train

CORPUS = generate("case-reports", 40, seed=3)
RECIPE = resized(RECIPES["CNN-CLSTM-CRF"], hidden=24, filters=24, character_filters=16)
SPACE = TagSpace.of(CORPUS.labels, "BIO")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    words = WordEmbedding(HashedWords(1000, 24), trainable=True)
    tagger = build_tagger(RECIPE, words, SPACE)
    sentences = prepare(CORPUS.documents).sentences
    settings = TrainingSettings(
        epochs=25, batch_size=8, optimizer=OptimizerSettings(learning_rate=1e-2)
    )
    train(tagger, encode_corpus(sentences, words, space=SPACE), settings, seed=1)
    folder = tmp_path_factory.mktemp("model")
    save_tagger(folder, tagger, RECIPE, SPACE)
    return folder


@pytest.fixture(scope="module")
def predictor(model: Path) -> Predictor:
    return Predictor.load(model)


def test_offsets_labels_and_confidences(predictor: Predictor) -> None:
    found = list(predictor.predict_documents(CORPUS.documents))
    assert [each.document for each in found] == list(CORPUS.documents)
    right = total = 0
    for predicted in found:
        gold = {(span.start, span.end, span.label) for span in predicted.document.spans}
        for mention in predicted.mentions:
            assert mention.text == predicted.document.text[mention.start : mention.end]
            assert 0.0 < mention.confidence <= 1.0
            right += (mention.start, mention.end, mention.label) in gold
            total += 1
        assert list(predicted.mentions) == sorted(predicted.mentions)
    assert right > 0.9 * total > 20


@pytest.mark.parametrize(("limit", "size"), [("CHUNK_CHARACTERS", 150), ("CHUNK_TOKENS", 30)])
def test_chunks_change_nothing(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch, limit: str, size: int
) -> None:
    whole = list(predictor.predict_documents(CORPUS.documents))
    monkeypatch.setattr(f"fedner.inference.reading.{limit}", size)
    for ours, theirs in zip(predictor.predict_documents(CORPUS.documents), whole, strict=True):
        places = [(m.start, m.end, m.label) for m in ours.mentions]
        assert places == [(m.start, m.end, m.label) for m in theirs.mentions]
        assert [m.confidence for m in ours.mentions] == pytest.approx(
            [m.confidence for m in theirs.mentions], abs=1e-5
        )


def test_a_long_document_is_tagged_in_parts(predictor: Predictor) -> None:
    sizes = []

    def find(sentences):
        sizes.append(sum(len(sentence.tokens) for sentence in sentences))
        return [[] for _ in sentences]

    (document,) = read_documents(find, [Document("book", "He had a fever. " * 20_000)])
    assert document.mentions == ()
    assert len(sizes) > 2
    assert max(sizes) <= CHUNK_TOKENS
    assert sum(sizes) == 100_000


def test_it_streams(predictor: Predictor) -> None:
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield Document(str(taken), "He had a fever. " * 500)

    stream = predictor.predict_documents(endless())
    assert next(stream).document.id == "1"
    assert taken < 40


def test_whatever_comes(predictor: Predictor) -> None:
    texts = ["", "   \n ", "🦠 漢字 \u200b", "a", "fever " * 3000, "x" * 5000]
    found = predictor.predict_texts(texts)
    assert len(found) == len(texts)
    assert found[0] == found[1] == ()
    assert predictor.predict(texts[3]) == found[3]
    assert predictor.predict_texts([]) == []
    assert predictor.predict_tokens([]) == []


def test_tokens_give_the_mentions_of_their_text(predictor: Predictor) -> None:
    sentences = prepare(CORPUS.documents).sentences[:10]
    by_tokens = predictor.predict_tokens([sentence.tokens for sentence in sentences] + [[]])
    assert by_tokens.pop() == ()
    found = predictor.predict_sentences(sentences)
    for tokens, entities in zip(by_tokens, found, strict=True):
        assert [(m.start, m.end, m.label) for m in tokens] == [tuple(e) for e, _ in entities]
        assert [m.confidence for m in tokens] == pytest.approx([c for _, c in entities], abs=1e-6)


def test_context_is_computed_on_the_fly() -> None:
    class LastLetters:
        dimension = 3

        def encode(self, sentences):
            return [
                np.array([[ord(t[-1]) / 100, len(t), 1.0] for t in s], np.float32).reshape(-1, 3)
                for s in sentences
            ]

    words = WordEmbedding(HashedWords(100, 8))
    recipe = resized(RECIPES["ELMoNER"], hidden=4, filters=4, character_filters=4)
    tagger = build_tagger(recipe, words, SPACE, 3, seed=2)
    torch.nn.init.normal_(tagger.emissions.bias, std=3.0)
    predictor = Predictor.of(LoadedTagger(tagger, recipe, SPACE, LastLetters()))
    assert predictor.predict("It was a drug.") is not None
    assert predictor.predict("") == ()


def app_of(command) -> typer.Typer:
    app = typer.Typer()
    app.command()(command)
    return app


def test_the_command_writes_what_score_reads(model: Path, tmp_path: Path) -> None:
    from fedner.corpus.writers.jsonl import write_jsonl

    gold, out = tmp_path / "gold.jsonl", tmp_path / "found.jsonl"
    write_jsonl(gold, CORPUS)
    result = CliRunner().invoke(app_of(predict), [str(model), str(gold), "--out", str(out)])
    assert result.exit_code == 0, result.output
    found = read(out)
    assert [document.id for document in found] == [document.id for document in CORPUS]
    assert score_documents(CORPUS, found).strict_micro.f1 > 0.9
    spans = [
        span for line in out.read_text().splitlines()[1:] for span in json.loads(line)["spans"]
    ]
    assert all(0 < span["confidence"] <= 1 for span in spans)


def test_the_command_reads_text_and_speaks_json(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("He developed a rash.\n\nNothing else happened.\n")
    result = CliRunner().invoke(app_of(predict), [str(model), str(text), "--json"])
    assert result.exit_code == 0, result.output
    head, *lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert head["labels"] == list(CORPUS.labels)
    assert [line["id"] for line in lines] == ["notes"]
    assert lines[0]["text"] == text.read_text()
    piped = CliRunner().invoke(app_of(predict), [str(model), "-"], input="He had a rash.\n")
    assert piped.exit_code == 0
    assert "He had a rash" in piped.stdout.replace("\n", " ")


def test_an_interrupted_prediction_leaves_no_file(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_bytes(b"Fine.\n" * 3 + b"\xff\xfe\n")
    options = [str(model), str(text), "--out", str(tmp_path / "out"), "--format", "text"]
    result = CliRunner().invoke(app_of(predict), options)
    assert isinstance(result.exception, FednerError)
    assert "not UTF-8" in result.exception.message
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    result = CliRunner().invoke(app_of(predict), [*options[:-1], "lines"])
    assert isinstance(result.exception, FednerError)
    assert "UTF-8" in result.exception.message
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_out_is_never_overwritten(model: Path, tmp_path: Path) -> None:
    text, out = tmp_path / "notes.txt", tmp_path / "found.jsonl"
    text.write_text("He had a rash.")
    options = [str(model), str(text), "--out", str(out)]
    assert CliRunner().invoke(app_of(predict), options).exit_code == 0
    first = out.read_bytes()
    result = CliRunner().invoke(app_of(predict), options)
    assert isinstance(result.exception, FednerError)
    assert "already there" in result.exception.message
    assert out.read_bytes() == first
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "elsewhere.jsonl")
    result = CliRunner().invoke(app_of(predict), [*options[:-1], str(link)])
    assert isinstance(result.exception, FednerError)


def test_a_corpus_whose_texts_are_broken_is_refused_unless_leniently(
    model: Path, tmp_path: Path
) -> None:
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "found.jsonl"
    corpus.write_text('{"id": "1", "text": "He had a rash."}\n{"id": "2", "text"\n')
    options = [str(model), str(corpus), "--out", str(out)]
    result = CliRunner().invoke(app_of(predict), options)
    assert isinstance(result.exception, FednerError)
    assert "corpus.jsonl:2" in result.exception.message
    assert not out.exists()
    result = CliRunner().invoke(app_of(predict), [*options, "--lenient"])
    assert result.exit_code == 0
    assert "1 malformed line" in result.stderr
    assert len(read(out)) == 1


def test_the_snippet_of_the_docs_runs_and_stands_in_them(model: Path) -> None:
    snippet = ROOT / "docs" / "snippets" / "predict.py"
    document = max(CORPUS.documents, key=lambda each: len(each.spans))
    result = subprocess.run(
        [sys.executable, str(snippet), str(model), document.text],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = result.stdout.splitlines()
    assert lines
    start, _, end = lines[0].split()[0].partition("-")
    assert document.text[int(start) : int(end)] in lines[0]
    body = snippet.read_text().split('"""\n\n', 1)[1]
    assert body in (ROOT / "docs" / "predict.md").read_text()


def test_models_lists_the_zoo() -> None:
    result = CliRunner().invoke(app_of(models), ["--json"])
    assert result.exit_code == 0, result.output
    listed = json.loads(result.stdout)
    assert [row["name"] for row in listed["models"]] == list(RECIPES)
    for row in listed["models"]:
        assert row["parameters"] == row["shared_parameters"] + row["private_parameters"]
        assert row["parameters"] == sum(row["parameters_by_module"].values())
    by_name = {row["name"]: row for row in listed["models"]}
    assert by_name["ELMoNER"]["shared_modules"] == ["embeddings.characters", "word_cnn"]
    assert by_name["ELMoNER"]["private_modules"] == ["bilstm", "decoder", "emissions"]
    shown = CliRunner().invoke(app_of(models), [])
    assert "GRAM-CNN" in shown.stdout
