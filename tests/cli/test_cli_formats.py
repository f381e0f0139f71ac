"""Formats and archives as a user meets them on the command line."""

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.reading import read

TEXT = "Pain in knees and hips after Aspirin. It went."
ANN = "T1\tADE 0 7;18 22\tPain in hips\nT2\tDrug 29 36\tAspirin\n"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "corpora.zip"
    with zipfile.ZipFile(path, "w") as file:
        for folder in ("gold", "silver"):
            file.writestr(f"{folder}/one.txt", TEXT)
            file.writestr(f"{folder}/one.ann", ANN)
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    return result.exit_code, result.stdout, str(result.exception or "")


def test_inspecting_an_archive_of_two_corpora(archive: Path) -> None:
    code, _, error = run("data", "inspect", archive)
    assert code != 0
    assert "2 corpora in it: gold (brat), silver (brat)" in error
    assert f"{archive}!/gold" in error
    code, shown, _ = run("data", "inspect", f"{archive}!/gold", "--json")
    assert code == 0
    found = json.loads(shown)
    assert (found["format"], found["mentions"]) == ("brat", {"ADE": 1, "Drug": 1})


def test_converting_between_formats_counts_what_is_lost(archive: Path, tmp_path: Path) -> None:
    source = f"{archive}!/gold"
    code, shown, _ = run("data", "convert", source, tmp_path / "a.jsonl", "--to", "jsonl", "--json")
    assert code == 0
    assert json.loads(shown)["losses"] == {}
    corpus = read(source)
    assert read(tmp_path / "a.jsonl") == corpus
    code, shown, _ = run("data", "convert", source, tmp_path / "out", "--to", "brat", "--json")
    assert (code, json.loads(shown)["losses"]) == (0, {})
    assert [each.spans for each in read(tmp_path / "out")] == [each.spans for each in corpus]
    code, shown, _ = run(
        "data", "convert", source, tmp_path / "a.conll", "--to", "columns", "--json"
    )
    assert code == 0
    assert json.loads(shown)["losses"]  # the discontinuous mention became its hull
    code, shown, _ = run("data", "convert", tmp_path / "a.conll", tmp_path / "b", "--to", "brat")
    assert code == 0
    assert "Changed or lost" in shown


@pytest.mark.parametrize("to", ["bioc", "bioc-json"])
def test_converting_to_bioc_and_back(archive: Path, tmp_path: Path, to: str) -> None:
    pytest.importorskip("bioc", reason="needs the extra fedner[formats]")
    source = f"{archive}!/gold"
    assert run("data", "convert", source, tmp_path / "c", "--to", to)[0] == 0
    assert read(tmp_path / "c") == read(source)


def test_a_folder_in_use_is_never_written_to(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.md").write_text("x")
    code, _, error = run(
        "data", "convert", f"{archive}!/gold", tmp_path / "mine", "--to", "brat", "--overwrite"
    )
    assert code != 0
    assert "a folder with files in it" in error
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.md"]


@pytest.mark.parametrize("label", ["[/b]", "[red]ADE", "[link=x]"])
def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path: Path, label: str) -> None:
    span = {"start": 0, "end": 6, "label": label}
    path = tmp_path / "a[red].jsonl"
    path.write_text(json.dumps({"id": "1", "text": "Nausea today", "spans": [span]}) + "\n")
    for arguments in (
        ("data", "inspect", path),
        ("data", "platforms", path, "--into", 1),
        ("score", path, path),
    ):
        code, shown, error = run(*arguments)
        assert (code, error) == (0, "")
        assert label in "".join(shown.split()) or "score" in arguments
    code, shown, _ = run("data", "convert", path, tmp_path / "b[red].jsonl", "--to", "jsonl")
    assert code == 0
    assert "b[red].jsonl" in shown
