"""A federation file that fits data which are there."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.document import Corpus
from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_jsonl
from fedner.errors import FednerError
from fedner.runs.checks import read_settings
from fedner.runs.fitting_file import fitting_file

COLUMNS = "Nausea B-ADE\nafter O\naspirin B-Drug\n\n"


def notes(path: Path, num_sentences: int = 60, *, patients: bool = True) -> Path:
    """Write synthetic notes, with or without the patients' ids."""
    corpus = generate("forum-posts", num_sentences, 1)
    if not patients:
        documents = tuple(replace(each, patient=None) for each in corpus.documents)
        corpus = Corpus(corpus.name, corpus.labels, documents)
    write_jsonl(path, corpus)
    return path


def test_a_file_fits_the_data_and_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parted").mkdir()
    (tmp_path / "parted" / "my-train.conll").write_text(COLUMNS * 30)
    (tmp_path / "parted" / "my.test.conll").write_text(COLUMNS * 5)
    notes(tmp_path / "clinic.jsonl", 200)
    notes(tmp_path / "ward.jsonl", 200, patients=False)
    named = ("clinic=clinic.jsonl", "ward=ward.jsonl", "parted=parted", "x=synthetic:case-reports")
    options = [word for each in named for word in ("--platform", each)]
    made = CliRunner().invoke(app, ["init", "study/new.toml", *options, "--json"])
    assert made.exit_code == 0, made.output
    seen = {each["name"]: each for each in json.loads(made.output)["platforms"]}
    assert seen["clinic"]["by"] == "patient"
    assert seen["ward"]["by"] == "document"
    assert seen["parted"]["test_data"] == "../parted/my.test.conll"
    assert set(seen["parted"]["labels"]) == {"ADE", "Drug"}
    settings = read_settings(tmp_path / "study" / "new.toml")
    clinic = settings.platform("clinic")
    assert (clinic.data, clinic.format) == (str(tmp_path / "clinic.jsonl"), "jsonl")
    assert clinic.labels is None, "types are not declared unless the user says so"
    assert settings.platform("parted").split.test_data == str(tmp_path / "parted/my.test.conll")
    told = CliRunner().invoke(app, ["check", "study/new.toml", "--quick"])
    assert "ready to train" in told.output


def test_many_sentences_get_the_sizes_of_the_recipe(tmp_path: Path) -> None:
    small = fitting_file([("a", str(notes(tmp_path / "a.jsonl", 100)))], tmp_path)
    assert "\nhidden = 48 " in small.text
    large = fitting_file([("b", str(notes(tmp_path / "b.jsonl", 2_100)))], tmp_path)
    assert "\nhidden" not in large.text
    assert "\nbatch_size = 64 " in large.text
    assert "learning_rate = 0.004" not in large.text


def test_problems_are_read_leniently_and_said(tmp_path: Path) -> None:
    good = json.dumps({"text": "Nausea after aspirin.", "entities": [[0, 6, "ADE"]]})
    bad = json.dumps({"text": "Nausea after aspirin.", "entities": [[0, 600, "ADE"]]})
    (tmp_path / "notes.jsonl").write_text("\n".join([good] * 12 + [bad]))
    made = fitting_file([("a", str(tmp_path / "notes.jsonl"))], tmp_path)
    assert made.platforms[0].num_problems == 1
    assert "lenient = true   # strict reading refuses 1 places" in made.text


def test_data_in_another_encoding_are_said_not_read_without_their_letters(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.txt").write_bytes("Müdigkeit am Tag.\nMehr.\n".encode("latin-1"))
        (folder / f"{number}.ann").write_text("T1\tADE 10 12\tam\n")
    named = f"a={folder}"
    told = CliRunner().invoke(app, ["init", str(tmp_path / "new.toml"), "--platform", named])
    assert told.exit_code == 0, told.output
    assert '12 of them are not UTF-8: name their encoding in the file, as encoding = "latin-1"' in (
        told.output
    )
    written = (tmp_path / "new.toml").read_text()
    assert '# encoding = "latin-1"   # 12 of them are not UTF-8' in written
    settings = read_settings(tmp_path / "new.toml", ['platforms.a.encoding="latin-1"'])
    assert settings.platform("a").encoding == "latin-1"


def test_a_file_that_cannot_be_read_is_refused_not_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.txt").write_text("Nausea after aspirin.\nMore.\n")
        (folder / f"{number}.ann").write_text("T1\tADE 0 6\tNausea\n")
    (folder / "3.ann").unlink()
    (folder / "3.ann").symlink_to("gone")
    with pytest.raises(FednerError, match=r"platform a: .*3\.ann cannot be read: No such file"):
        fitting_file([("a", str(folder))], tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("clinic", "expected NAME=PATH"),
        ("clinic=gone.jsonl", "no such file"),
        ("clinic=empty.conll", "annotates no type"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.conll").write_text("nothing O\nhere O\n\n" * 20)
    told = CliRunner().invoke(app, ["init", "new.toml", "--platform", given])
    assert isinstance(told.exception, FednerError)
    assert said in told.exception.message
    assert not (tmp_path / "new.toml").exists()
