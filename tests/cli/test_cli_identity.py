"""Documents and patients through the data commands, as a user runs them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.reading import read


def run_json(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def shown(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Twelve notes of four patients, five sentences each."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(12):
        lines = [f"Aspirin {number}.{line} helped." for line in range(5)]
        (folder / f"p{number % 4}_n{number}.txt").write_text("\n".join(lines))
        (folder / f"p{number % 4}_n{number}.ann").write_text("T1\tDrug 0 7\tAspirin\n")
    return folder


def test_platforms_by_document_then_split_by_document(notes: Path, tmp_path: Path) -> None:
    shown_ = run_json(
        "data", "platforms", notes, "--into", 2, "--by", "document", "--out", tmp_path / "p"
    )
    assert sum(row["documents"] for row in shown_["platforms"]) == 12
    assert shown_["divided_documents"] == 0
    platform = tmp_path / "p" / "platform-1.jsonl"
    assert {each.id for each in read(platform)} < {file.stem for file in notes.iterdir()}
    found = run_json("data", "split", platform, tmp_path / "s", "--by", "document")
    assert found["parts"][0]["leakage"]["documents"] == []
    train, test = (read(tmp_path / "s" / f"{name}.jsonl") for name in ("train", "test"))
    assert not {each.id for each in train} & {each.id for each in test}
    assert {each.id for each in train} | {each.id for each in test} == {
        each.id for each in read(platform)
    }


def test_what_a_split_by_sentence_tears_apart_is_said(notes: Path, tmp_path: Path) -> None:
    pattern = ("--patient-pattern", r"^(?P<patient>p\d)_")
    out = shown("data", "split", notes, tmp_path / "s", *pattern)
    assert re.search(r"\d+ documents have sentences in both parts \(p", out)
    assert "4 patients have sentences in both parts" in out
    assert "--by patient keeps them together" in out
    again = run_json("data", "split", notes, tmp_path / "t", "--by", "patient", *pattern)
    assert again["parts"][0]["leakage"]["patients"] == []
    assert again["parts"][0]["train"]["patients"] + again["parts"][0]["test"]["patients"] == 4
    divided = shown("data", "platforms", notes, "--into", 2)
    assert "documents have sentences on several platforms; --by document keeps" in divided


def test_inspect_shows_patients_and_documents_without_one(notes: Path, tmp_path: Path) -> None:
    table = tmp_path / "patients.csv"
    table.write_text("document,patient\np0_n0,a\np0_n4,a\np1_n1,b\n")
    found = run_json("data", "inspect", notes, "--patients", table)
    assert (found["patients"], found["documents_without_patient"]) == (2, 9)
    out = shown("data", "inspect", notes, "--patients", table)
    assert "patients" in out
    assert "documents without a patient" in out
    assert "documents without a patient" not in shown("data", "inspect", notes)


@pytest.mark.parametrize("to", ["jsonl", "columns", "bioc", "bioc-json"])
def test_patients_and_ids_survive_convert(notes: Path, tmp_path: Path, to: str) -> None:
    out = tmp_path / "out"
    pattern = ("--patient-pattern", r"^(?P<patient>p\d)_")
    written = run_json("data", "convert", notes, out, "--to", to, *pattern)
    assert (written["documents"], written["mentions"]) == (12, 12)
    assert {each.id: each.patient for each in read(out)} == {
        file.stem: file.stem[:2] for file in notes.glob("*.txt")
    }
    found = run_json("data", "inspect", out)
    assert (found["documents"], found["patients"], found["sentences"]) == (12, 4, 60)


def test_convert_counts_what_was_written(notes: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"id": "1", "text": "a b", "patient": "p"}\n{"id": "2", "text": ""}\n')
    for to in ("brat", "columns"):
        written = run_json("data", "convert", path, tmp_path / to, "--to", to)
        assert written["documents"] == 1
        assert any("left out" in what for what in written["losses"])
    flat = tmp_path / "flat.jsonl"
    span = '{"start": 0, "end": 3, "label": "X"}'
    flat.write_text(f'{{"id": "1", "text": "a b", "spans": [{span}, {span}]}}\n')
    written = run_json("data", "convert", flat, tmp_path / "flat.tsv", "--to", "columns")
    assert written["mentions"] == 1


def test_an_encoding_is_read_and_a_replaced_byte_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("fièvre\tB-X\nhaute\tO\n\n".encode("latin-1") * 3)
    out = tmp_path / "out.jsonl"
    run_json("data", "convert", path, out, "--to", "jsonl", "--encoding", "latin-1")
    assert [each.text for each in read(out)] == ["fièvre haute"] * 3
    lenient = run_json("data", "convert", path, tmp_path / "b", "--to", "jsonl", "--lenient")
    assert sum(count for what, count in lenient["losses"].items() if "U+FFFD" in what) == 3
    assert run_json("data", "inspect", path)["reading_changes"] == dict.fromkeys(
        lenient["losses"], 3
    )
    result = CliRunner().invoke(app, ["data", "inspect", str(path), "--encoding", "latn-1"])
    assert 'Did you mean "latin-1"' in str(result.exception)
