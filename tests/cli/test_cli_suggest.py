"""`fedner suggest`: what it reads, passes over, chooses and writes; stopped, it goes on."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.document import Document
from fedner.corpus.reading import read
from fedner.errors import FednerError
from fedner.inference import job
from fedner.inference.inputs import PredictionInput
from fedner.inference.onnx_export import export_onnx
from fedner.inference.onnx_tagger import OnnxTagger
from fedner.inference.predict import Predictor
from fedner.inference.ranking import uncertainty_of
from fedner.inference.reading import Mention, Predicted, sentences_of
from fedner.inference.several import open_inputs
from fedner.inference.suggestions import Chooser, Fresh, Judging, Known, known_texts
from fedner.models.checkpoint import load_tagger, save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized
from traced import traced_peak

SECRET = "Ibuprofen"
NOTES = {
    "a.txt": f"{SECRET} twice.\nNo rash since. Sleeps well.",
    "b.txt": "Fever, then aspirin 20 mg\r\nand chills.",
    "c.txt": "Walks again.",
    "deep/d.txt": "Nausea 😀 after breakfast; none after lunch.",
    "deep/e.txt": "He said no.",
}


@pytest.fixture(scope="module", params=["CNN-CRF", "CNN-LSTM-softmax"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger without training whose mind changes from word to word, and its ONNX form."""
    torch.set_num_threads(1)
    return _saved(request.param, tmp_path_factory.mktemp("model"))


def _saved(name: str, folder: Path) -> Path:
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    if name != "CNN-CRF":
        recipe = replace(recipe, decoder="softmax")
    space = TagSpace.of(("ADE", "Drug"), "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in tagger.parameters():
            weight.normal_(0.0, 0.7, generator=generator)
    save_tagger(folder / "saved", tagger, recipe, space)
    export_onnx(load_tagger(folder / "saved"), folder / "exported")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return _saved("CNN-CRF", tmp_path_factory.mktemp("one")) / "exported"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    for name, text in NOTES.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())
    return folder


def suggested(*arguments: object, code: int = 0) -> dict[str, object]:
    command = ["suggest", *map(str, arguments), "--json"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == code, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def ids(found: dict[str, object]) -> list[str]:
    return [each["id"] for each in found["suggestions"]]


def test_doubt_is_that_of_the_best_path_with_torch_and_without(saved: Path) -> None:
    predictor, exported = Predictor.load(saved / "saved"), OnnxTagger.load(saved / "exported")
    documents = [Document(name, text) for name, text in NOTES.items()]
    documents.append(Document("blank", "  "))
    ours, theirs = (list(each.judge_documents(documents)) for each in (predictor, exported))
    plain = list(predictor.predict_documents(documents))
    assert [each.mentions for each in ours] == [each.mentions for each in plain]
    assert [each.uncertainty for each in plain] == [None] * len(plain)
    assert [each.uncertainty for each in ours] == pytest.approx(
        [each.uncertainty for each in theirs], abs=1e-5
    )
    assert ours[-1].uncertainty == 0.0
    for document, found in zip(documents[:-1], ours, strict=False):
        doubt, num_tokens = 0.0, 0
        for sentence in sentences_of(document):
            (tagged,) = predictor.tag([sentence])
            num_tokens += len(sentence.tokens)
            sure_B = predictor.model.tagger.decoder.log_likelihood(
                tagged.emissions_BLK, tagged.tags_BL, tagged.batch.lengths_B
            )
            doubt -= sure_B.detach().item()
        assert found.uncertainty == pytest.approx(uncertainty_of(doubt, num_tokens), abs=1e-5)
        assert found.uncertainty > 0


def test_the_most_uncertain_first_and_people_see_no_text(
    model: Path, notes: Path, tmp_path: Path
) -> None:
    out = tmp_path / "next.json"
    command = ["suggest", str(model), str(notes), "--out", str(out), "--by", "uncertainty"]
    result = CliRunner().invoke(app, [*command, "--count", "3"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    shown = result.stdout + result.stderr
    assert "3 of 5 notes" in shown.replace("\n", " ")
    assert not any(word in shown for word in re.findall(r"[A-Za-z]{6,}", " ".join(NOTES.values())))
    tasks = json.loads(out.read_text("utf-8"))
    found = suggested(model, notes, "--out", tmp_path / "again.json", "--by", "uncertainty")
    doubts = [each["uncertainty"] for each in found["suggestions"]]
    assert doubts == sorted(doubts, reverse=True)
    assert [each["rank"] for each in found["suggestions"]] == [1, 2, 3, 4, 5]
    assert [each["data"]["document_id"] for each in tasks] == ids(found)[:3]
    assert [len(each["predictions"][0]["result"]) for each in tasks] == [
        each["mentions"] for each in found["suggestions"][:3]
    ]


def test_empty_repeated_and_annotated_texts_are_passed_over(
    model: Path, notes: Path, tmp_path: Path
) -> None:
    (notes / "blank.txt").write_text(" \n\t")
    (notes / "copy.txt").write_bytes(NOTES["b.txt"].replace("\r\n", "\n ").encode() + b"\n")
    done = tmp_path / "done.jsonl"
    done.write_text(json.dumps({"id": "1", "text": NOTES["c.txt"] + "\n", "spans": []}) + "\n")
    found = suggested(model, notes, "--out", tmp_path / "next.json", "--not-in", done)
    assert set(ids(found)) == {"a", "b", "deep/d", "deep/e"}
    assert found["judged"] == 4
    assert found["passed_over"] == {
        "empty": 1, "the same text as another": 1, "annotated already": 1
    }  # fmt: skip


def test_sentences_are_annotated_by_themselves(model: Path, notes: Path, tmp_path: Path) -> None:
    done = tmp_path / "done.jsonl"
    done.write_text(json.dumps({"id": "1", "text": "No rash since.", "spans": []}) + "\n")
    out = tmp_path / "next.jsonl"
    found = suggested(model, notes, "--out", out, "--unit", "sentence", "--not-in", done)
    assert set(ids(found)) == {"a.s1", "a.s3", "b.s1", "c.s1", "deep/d.s1", "deep/e.s1"}
    for document in read(out):
        place, _, span = document.source.rpartition(":")
        start, end = map(int, span.split("-"))
        whole = (notes / place).read_bytes().decode()
        assert whole[start:end] == document.text


def test_words_make_a_difference_and_so_does_the_seed(model: Path, tmp_path: Path) -> None:
    lines = tmp_path / "posts.txt"
    kinds = ("no rash after aspirin", "sleeps well all night", "walks a mile")
    lines.write_text("".join(f"{kinds[at % 3]} {'abcdefgh'[at // 3]}\n" for at in range(24)))

    def texts(name: str, *options: str) -> list[str]:
        out = tmp_path / f"{name}.jsonl"
        suggested(model, lines, "--format", "lines", "--out", out, "--count", 3, *options)
        return [each.text for each in read(out)]

    assert {each[:4] for each in texts("d", "--by", "diversity")} == {"no r", "slee", "walk"}
    assert texts("r1", "--by", "random") != texts("r2", "--by", "random", "--seed", "2")
    assert texts("b", "--seed", "1") == texts("b2", "--seed", "2"), "both draws nothing"


def test_all_that_predict_reads(model: Path, notes: Path, tmp_path: Path) -> None:
    table = tmp_path / "export.csv"
    table.write_bytes("key;note\n7;Fièvre après aspirine.\n8;Rien.\n".encode("cp1252"))
    options = ("--text-column", "note", "--id-column", "key", "--encoding", "cp1252")
    assert set(ids(suggested(model, table, *options, "--out", tmp_path / "a.json"))) == {"7", "8"}
    more = tmp_path / "east"
    more.mkdir()
    (more / "a.txt").write_text("Rash on both arms.")
    several = suggested(model, notes, more, "--out", tmp_path / "b.json")
    assert {"notes/a", "east/a"} <= set(ids(several))
    command = ["suggest", str(model), "-", "--format", "lines", "--out", str(tmp_path / "c.json")]
    piped = CliRunner().invoke(app, [*command, "--json"], input="Rash.\nFever.\n")
    assert json.loads(piped.stdout)["judged"] == 2


@pytest.mark.parametrize("tool", ["label-studio", "doccano", "xmi", "brat", "bioc", "jsonl"])
def test_every_form_holds_the_same_notes_in_the_same_permissions(
    tool: str, model: Path, notes: Path, tmp_path: Path
) -> None:
    for each in notes.rglob("*.txt"):
        each.chmod(0o600)
    (notes / "b.txt").write_bytes(b"Fever, then aspirin.")  # XML keeps no carriage return
    (notes / "deep" / "d.txt").write_bytes(b"Nausea after lunch.")
    out = tmp_path / "out"
    found = suggested(model, notes, "--out", out, "--to", tool, "--count", 2)
    files = [out] if out.is_file() else [each for each in out.rglob("*") if each.is_file()]
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert not (tmp_path / "out.partial").exists()
    if tool != "label-studio":  # it keeps predictions apart until somebody accepts them
        assert {each.id for each in read(out)} == set(ids(found))


def test_stopped_it_goes_on_and_another_count_is_no_other_job(
    model: Path, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, count = job.append_whole, 0

    def stopping(descriptor: int, data: bytes) -> None:
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        append(descriptor, data)

    out = tmp_path / "next.json"
    command = ["suggest", str(model), str(notes), "--out", str(out), "--count", "2"]
    monkeypatch.setattr(job, "append_whole", stopping)
    stopped = CliRunner().invoke(app, command)
    assert stopped.exit_code == 130
    assert "the same command goes on where it was" in stopped.stderr.replace("\n", "")
    assert not out.exists()
    monkeypatch.undo()
    refused = CliRunner().invoke(app, [*command, "--unit", "sentence"])
    assert "other unit" in str(refused.exception)
    done = suggested(*command[1:], "--count", 3)
    assert (done["resumed"], done["judged"], len(done["suggestions"])) == (3, 5, 3)
    whole = suggested(model, notes, "--out", tmp_path / "whole.json", "--count", 3)
    assert ids(whole) == ids(done)
    assert (tmp_path / "whole.json").read_bytes() == out.read_bytes()
    assert not (tmp_path / "next.json.partial").exists()
    again = CliRunner().invoke(app, command)
    assert "is already there" in str(again.exception)


def test_what_makes_no_sense_is_refused(model: Path, notes: Path, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.json"
    suggested(model, notes, "--out", tasks)
    for options, words in (
        (["--out", "x.json", "--count", "0"], "--count 0; expected 1 to 2,000"),
        (["--out", "x.json", "--count", "2001"], "--count 2,001"),
        (["--out", "x"], "does not say which tool"),
        (["--out", "x.json", "--not-in", str(tasks)], "has no annotated text"),
        (["--out", str(notes / "x.json")], "is inside"),
        (["--out", "x.json", "--id-column", "key"], "--id-column without --text-column"),
    ):
        result = CliRunner().invoke(app, ["suggest", str(model), str(notes), *options])
        assert words in str(result.exception), options


class Stub:
    """A tagger that is quick: it is unsure of the notes whose number it is told."""

    labels, digest = ("ADE",), "stub"

    def judge_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        for document in documents:
            mention = Mention(0, 4, "ADE", document.text[:4], 0.5)
            yield Predicted(document, (mention,), float(document.id) % 997 / 997)


def test_many_notes_need_the_memory_of_a_few(tmp_path: Path) -> None:
    def documents() -> Iterator[Document]:
        for number in range(2_000):
            yield Document(str(number), f"Note {number}: word{number % 50} " * 250)

    chooser = Chooser("both", 5, Known(), 1)
    work = job.Job(tmp_path / "next.json", "label-studio", {}, None, chooser)
    fresh = Fresh(PredictionInput(documents(), ()))
    peak = traced_peak(lambda: work.run(Judging(Stub()), fresh.input()))
    assert chooser.judged == 2_000
    assert min(each.uncertainty for each in chooser.suggestions) > 988 / 997
    assert peak < 2_000_000, "eight megabytes of notes went through"


def test_known_are_texts_and_their_sentences(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("No rash. Sleeps well.")
    whole, parts = (known_texts([open_inputs([note])], unit) for unit in ("note", "sentence"))
    assert (len(whole.hashes), whole.texts) == (1, ("No rash. Sleeps well.",))
    assert len(parts.hashes) == 3
    assert set(parts.texts) == {"No rash.", "Sleeps well."}
    assert whole.hashes < parts.hashes
    with pytest.raises(FednerError, match="no annotated text that the others do not have"):
        known_texts([open_inputs([note]), open_inputs([note])], "note")
