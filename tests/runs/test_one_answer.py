"""One answer everywhere: command line, redaction, spaCy, Python and ONNX find the same mentions."""

import json
from pathlib import Path

import pytest
import spacy
import torch
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.inference.notes import find_notes
from fedner.inference.onnx_export import export_onnx
from fedner.inference.onnx_tagger import OnnxTagger
from fedner.inference.predict import Predictor
from fedner.inference.redacted_files import plan_redaction, redact_files
from fedner.inference.redaction_audit import read_audit
from fedner.models.checkpoint import load_tagger, save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized

Answer = set[tuple[str, int, int, str, str]]

BODY = "Took aspirin 20mg/day.\nNo rash after ibuprofen; he felt dizzy.\nSeen by Dr. Smith.\n"
NOTES = {
    "plain": BODY.encode(),
    "windows": BODY.replace("\n", "\r\n").encode(),
    "old-mac": BODY.replace("\n", "\r").encode(),
    "marked": b"\xef\xbb\xbf" + BODY.replace("\n", "\r\n").encode(),
    "blank-lines": ("\n\n \n" + BODY.replace("\n", "\n\n\t\n") + "\n\n").encode(),
    "one-long-line": ("He had fever and took aspirin, then " * 400).encode(),
    "not-bmp": "🦠 Fever 🤒🤒 after 𝒜spirin-𝓫 20mg.\r\n👩‍⚕️ said naïve 漢字 — no rash!\n".encode(),
    "tabs": b"Drug\tDose\taspirin\t20 mg\nrash\t\tyes\tno\n\t- fever\n",
    "glued": b"aspirin+ibuprofen(20mg)day.She had#rash/fever@home tablets(2)x\n",
    "no-end": b"fever",
    "empty": b"",
    "white": b" \r\n\t\n",
    "odd": "a\u2028b\x0bfever\x0cnext\x85line\u00a0rash\u200bno\u3000drug\n".encode(),
    "headings": b"HISTORY:\n1. Fever\n2) Rash\n- Aspirin 20 mg b.i.d.\nPLAN: none. none.\n",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger without training whose mind changes from word to word."""
    torch.set_num_threads(1)
    recipe = resized(recipe_named("CNN-CLSTM-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(("ADE", "Drug"), "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in tagger.parameters():
            weight.normal_(0.0, 0.7, generator=generator)
    folder = tmp_path_factory.mktemp("model") / "tagger"
    save_tagger(folder, tagger, recipe, space)
    return folder


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes")
    (folder / "deep").mkdir()
    for name, data in NOTES.items():
        place = folder / "deep" if name == "tabs" else folder
        (place / f"{name}.{'TXT' if name == 'windows' else 'txt'}").write_bytes(data)
    return folder


def paths(notes: Path) -> dict[str, Path]:
    return {path.stem: path for path in find_notes(notes).files}


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig")


def said(output: str) -> Answer:
    found: Answer = set()
    for record in map(json.loads, output.splitlines()[1:]):
        for span in record["spans"]:
            start, end = span["start"], span["end"]
            name = record["id"].rpartition("/")[2]
            found.add((name, start, end, span["label"], record["text"][start:end]))
    return found


def predicted(*arguments: object, stdin: bytes | None = None) -> str:
    command = ["predict", *map(str, arguments), "--json"]
    result = CliRunner().invoke(app, command, catch_exceptions=False, input=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def answer(model: Path, notes: Path) -> Answer:
    """What Python finds, one text at a time."""
    predictor = Predictor.load(model)
    found: Answer = set()
    for name, path in paths(notes).items():
        text = text_of(path)
        for mention in predictor.predict(text):
            assert text[mention.start : mention.end] == mention.text
            found.add((name, mention.start, mention.end, mention.label, mention.text))
    assert {name for name, *_ in found} >= NOTES.keys() - {"empty", "white", "no-end"}
    assert len(found) > 50
    return found


def test_predict_on_a_folder(model: Path, notes: Path, answer: Answer) -> None:
    output = predicted(model, notes)
    assert said(output) == answer
    records = [json.loads(line) for line in output.splitlines()[1:]]
    assert {record["id"].rpartition("/")[2] for record in records} == NOTES.keys()
    for record in records:
        assert record["text"] == text_of(notes / record["source"]), "the file as decoded"


def test_predict_on_each_file(model: Path, notes: Path, answer: Answer) -> None:
    found = [said(predicted(model, path)) for path in paths(notes).values()]
    assert set.union(*found) == answer


def test_predict_on_standard_input(model: Path, notes: Path, answer: Answer) -> None:
    for name, path in paths(notes).items():
        found = said(predicted(model, "-", stdin=path.read_bytes()))
        assert {each[1:] for each in found} == {each[1:] for each in answer if each[0] == name}


def test_annotation_beside_a_note_changes_nothing(
    model: Path, notes: Path, answer: Answer, tmp_path: Path
) -> None:
    for path in paths(notes).values():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "plain.ann").write_text("T1\tDrug 5 12\taspirin\n")
    (tmp_path / "marked.ann").write_text("no annotation at all\n")
    assert said(predicted(model, tmp_path)) == answer
    one = said(predicted(model, tmp_path / "plain.txt"))
    assert one == {each for each in answer if each[0] == "plain"}


def test_redact(model: Path, notes: Path, answer: Answer, tmp_path: Path) -> None:
    command = ["redact", str(model), str(notes), "--out", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: Answer = set()
    for file in read_audit(Path(json.loads(result.stdout)["audit"])):
        text, new = text_of(notes / file.source), text_of(tmp_path / "out" / file.target)
        for each in file.replacements:
            start, end = each.start, each.end
            found.add((Path(file.source).stem, start, end, each.label, text[start:end]))
            assert new[each.new_start : each.new_end] == f"[{each.label}]"
    assert found == answer
    plan = plan_redaction(paths(notes)["marked"], tmp_path / "one.txt")
    (single,) = redact_files(Predictor.load(model), plan)
    places = {(each.start, each.end, each.label) for each in single.replacements}
    assert places == {each[1:4] for each in answer if each[0] == "marked"}
    kept = (tmp_path / "one.txt").read_bytes()
    assert kept.startswith(b"\xef\xbb\xbf")
    assert kept.count(b"\r\n") == kept.count(b"\n") == 3


def test_spacy(model: Path, notes: Path, answer: Answer) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("fedner", config={"model": str(model), "spans_key": "found"})
    names, files = zip(*paths(notes).items(), strict=True)
    for docs in (map(nlp, map(text_of, files)), nlp.pipe(map(text_of, files))):
        found: Answer = set()
        grouped: Answer = set()
        for name, doc in zip(names, docs, strict=True):
            for spans, into in ((doc.ents, found), (doc.spans["found"], grouped)):
                into |= {(name, s.start_char, s.end_char, s.label_, s.text) for s in spans}
        assert found == grouped == answer


def test_onnx(model: Path, notes: Path, answer: Answer, tmp_path: Path) -> None:
    export_onnx(load_tagger(model), tmp_path / "exported")
    tagger = OnnxTagger.load(tmp_path / "exported", num_threads=1)
    assert answer == {
        (name, each.start, each.end, each.label, each.text)
        for name, path in paths(notes).items()
        for each in tagger.predict(text_of(path))
    }


def test_a_mark_that_was_decoded_too_only_moves_the_offsets(model: Path) -> None:
    predictor = Predictor.load(model)
    plain = predictor.predict(BODY)
    marked = predictor.predict("\ufeff" + BODY)
    assert [(m.start + 1, m.end + 1, m.label, m.text) for m in plain] == [
        (m.start, m.end, m.label, m.text) for m in marked
    ]


def test_lines_are_documents_on_request(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "posts.txt"
    path.write_bytes(b"\xef\xbb\xbfHe had a rash.\r\n\r\nNothing else.\n")
    for source, stdin in ((path, None), ("-", path.read_bytes())):
        lines = predicted(model, source, "--format", "lines", stdin=stdin).splitlines()[1:]
        records = [json.loads(line) for line in lines]
        name = "posts.txt" if stdin is None else "-"
        assert [record["id"] for record in records] == [f"{name}:1", f"{name}:3"]
        assert [record["text"] for record in records] == ["He had a rash.", "Nothing else."]
