"""A folder with several corpora or formats shows all of them; files counted twice are named."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus import repeats
from fedner.corpus.document import Document
from fedner.corpus.folder_corpora import Shelved, corpora_in
from fedner.corpus.inspection import inspect
from fedner.corpus.problems import ProblemLog
from fedner.corpus.reading import read
from fedner.corpus.repeats import Repeats

BIO = "aspirin\tB-Drug\nhelped\tO\n\n"
JSONL = (
    '{"id": "1", "text": "Aspirin helped.", "spans": [{"start": 0, "end": 7, "label": "Drug"}]}\n'
)


def put_brat(folder: Path, name: str = "a") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(f"Aspirin helped {name}.")
    (folder / f"{name}.ann").write_text("T1\tDrug 0 7\tAspirin\n")


def put_cadec(folder: Path) -> None:
    for name, content in (
        ("text/A.1.txt", "Aspirin."),
        ("original/A.1.ann", "T1\tDrug 0 7\tAspirin\n"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def run_json(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """CADEC, a brat folder, columns in a folder of their own, and JSONL beside them."""
    top = tmp_path / "corpora"
    put_cadec(top / "cadec")
    put_brat(top / "notes" / "ward")
    (top / "conll").mkdir()
    (top / "conll" / "train.tsv").write_text(BIO * 3)
    (top / "conll" / "README.md").write_text("# Prose")
    (top / "mine.jsonl").write_text(JSONL)
    return top


def test_every_corpus_of_a_folder_is_found(shelf: Path) -> None:
    assert set(corpora_in(shelf)) == {
        Shelved(shelf / "cadec", "cadec"),
        Shelved(shelf / "notes", "brat"),
        Shelved(shelf / "conll", "columns"),
        Shelved(shelf, "jsonl"),
    }


def test_inspect_lists_them_all_with_their_counts(shelf: Path) -> None:
    found = run_json("data", "inspect", shelf)["corpora"]
    assert {(each["format"], each["documents"]) for each in found} == {
        ("cadec", 1),
        ("brat", 1),
        ("columns", 3),
        ("jsonl", 1),
    }
    result = CliRunner().invoke(app, ["data", "inspect", str(shelf)])
    assert "4 corpora in" in result.stdout
    for name in ("cadec", "notes", "conll", "columns", "jsonl"):
        assert name in result.stdout
    assert run_json("data", "inspect", shelf, "--format", "jsonl")["documents"] == 1


def test_what_another_command_leaves_out_is_remarked(shelf: Path) -> None:
    log = ProblemLog()
    read(shelf, log=log)
    assert {remark for remark in log.remarks if remark.startswith("left out: ")} == {
        "left out: brat in notes",
        "left out: columns in conll",
        "left out: jsonl in this folder",
    }


def test_one_corpus_stays_one(tmp_path: Path) -> None:
    for ward in ("a", "b"):
        put_brat(tmp_path / "notes" / ward, ward)
    assert corpora_in(tmp_path / "notes") == [Shelved(tmp_path / "notes", "brat")]
    assert run_json("data", "inspect", tmp_path / "notes")["documents"] == 2
    put_cadec(tmp_path / "c")
    assert corpora_in(tmp_path / "c") == [Shelved(tmp_path / "c", "cadec")]


def test_parts_that_are_counted_twice_get_a_warning(tmp_path: Path) -> None:
    def sentence(number: int) -> str:
        return f"aspirin\tB-Drug\nhelped\tO\n{number}\tO\n\n"

    for name, numbers in (("full", range(40)), ("train", range(30)), ("test", range(30, 40))):
        (tmp_path / f"all.{name}.tsv").write_text("".join(map(sentence, numbers)))
    found = run_json("data", "inspect", tmp_path)
    assert [(each["larger"], each["smaller"], each["sentences"]) for each in found["repeats"]] == [
        ("all.full.tsv", "all.train.tsv", 30),
        ("all.full.tsv", "all.test.tsv", 10),
    ]
    result = CliRunner().invoke(app, ["data", "inspect", str(tmp_path)])
    text = " ".join(result.stdout.split())
    assert "warning: 30 sentences of all.train.tsv (100%) are in all.full.tsv too" in text
    (tmp_path / "all.full.tsv").unlink()
    assert inspect(tmp_path).repeats == ()


def test_the_same_notes_in_two_folders(tmp_path: Path) -> None:
    for folder in ("gold", "copy"):
        for number in range(40):
            put_brat(tmp_path / folder, f"n{number}")
    (repeat,) = inspect(tmp_path).repeats
    assert {repeat.larger, repeat.smaller} == {"gold", "copy"}
    assert (repeat.sentences, repeat.share, repeat.is_estimate) == (40, 1.0, False)


def test_memory_is_bounded_and_the_estimate_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "MAX_COMPARED", 500)
    found = Repeats()
    for source, numbers in (("full", range(20_000)), ("part", range(10_000))):
        for number in numbers:
            found.add(Document("x", f"sentence {number * 7919}", source=source))
            assert len(found.owners) <= 501
    (repeat,) = found.found()
    assert repeat.is_estimate
    assert repeat.share == 1.0
    assert 5_000 < repeat.sentences < 20_000
