"""The data commands as a user runs them, in a process of their own where that matters."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedner.cli.app import app

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER

-DOCSTART- -X- O O

LONDON NNP I-NP I-LOC
"""


Run = Callable[..., tuple[int, str, str]]


def run_json(*arguments: object) -> dict:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def conll(tmp_path: Path) -> Path:
    path = tmp_path / "eng.train"
    path.write_text(CONLL)
    return path


@pytest.fixture
def brat(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "one.txt").write_text("Pain in knees and hips after Aspirin.\nNo rash.\n")
    (folder / "one.ann").write_text(
        "T1\tADE 0 13\tPain in knees\nT2\tADE 0 7;18 22\tPain in hips\nT3\tDrug 29 36\tAspirin\n"
    )
    (folder / "two.txt").write_text("Aspirin helped.")
    (folder / "two.ann").write_text("T1\tDrug 0 7\tAspirin\n")
    return folder


def test_inspect_counts_what_a_column_file_declares(conll: Path) -> None:
    found = run_json("data", "inspect", conll)
    assert found["format"] == "columns"
    assert found["tag_scheme"] == "IOB1"
    assert found["documents"] == 2
    assert found["sentences"] == 5
    assert found["document_markers"] == 2
    assert found["tokens"] == 7
    assert found["mentions"] == {"LOC": 1, "MISC": 1, "ORG": 1, "PER": 1}
    assert found["problems"] == []


def test_inspect_counts_before_flattening_and_shows_what_it_would_change(brat: Path) -> None:
    found = run_json("data", "inspect", brat)
    assert found["format"] == "brat"
    assert found["mentions"] == {"ADE": 2, "Drug": 2}
    assert found["discontinuous"] == 1
    assert found["overlapping"] == 2
    assert found["for_training"]["dropped_overlapping"] == 1
    assert found["for_training"]["entities"] == 3


def test_inspect_finishes_on_a_bad_input_and_says_what_is_wrong(brat: Path) -> None:
    (brat / "two.ann").write_text(
        "T1\tDrug 0 7\tIbuprofen\nT2\tDrug 90 95\tgone\nT3\tADE 3 3\t\nT4 nonsense\n"
    )
    (brat / "three.txt").write_text("no annotations")
    found = run_json("data", "inspect", brat)
    kinds = found["problems_by_kind"]
    assert kinds["offset and quote differ"] == 1
    assert kinds["offset outside the text"] == 1
    assert kinds["zero-length span"] == 1
    assert kinds["missing twin file"] == 1
    assert found["mentions"]["Drug"] == 3, "what cannot be placed is declared all the same"
    assert found["skipped_mentions"] >= 2
    for problem in found["problems"]:
        assert problem["file"]
        assert problem["found"]
        assert problem["expected"]
        assert problem["hint"]


def test_a_strict_command_reports_every_problem_at_once_and_exits_2(
    brat: Path, fedner: Run
) -> None:
    (brat / "two.ann").write_text("T1\tDrug 0 7\tIbuprofen\nT2\tDrug 90 95\tgone\n")
    out = brat.parent / "out.jsonl"
    code, _, error = fedner("data", "convert", brat, out, "--to", "jsonl")
    assert code == 2
    assert "two.ann:1" in error
    assert "two.ann:2" in error
    assert "--lenient" in error
    assert not out.exists()
    code, said, _ = fedner("data", "convert", brat, out, "--to", "jsonl", "--lenient", "--json")
    assert code == 0
    assert json.loads(said)["mentions"] == 4
    assert out.exists()


def test_convert_to_columns_and_back(conll: Path, tmp_path: Path) -> None:
    there = tmp_path / "bioes.tsv.gz"
    run_json("data", "convert", conll, there, "--to", "columns", "--to-scheme", "BIOES")
    found = run_json("data", "inspect", there)
    assert found["tag_scheme"] == "BIOES"
    assert found["mentions"] == {"LOC": 1, "MISC": 1, "ORG": 1, "PER": 1}
    kept = tmp_path / "kept.jsonl"
    run_json("data", "convert", conll, kept, "--to", "jsonl")
    assert run_json("data", "inspect", kept)["tokens"] == 7


def test_convert_does_not_overwrite_unasked(conll: Path, tmp_path: Path, fedner: Run) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("precious")
    code, _, error = fedner("data", "convert", conll, out, "--to", "jsonl")
    assert code == 2
    assert "--overwrite" in error
    assert out.read_text() == "precious"


def test_split_writes_both_parts_and_reports_leaking_texts(tmp_path: Path) -> None:
    path = tmp_path / "posts.tsv"
    path.write_text("".join(f"word\tO\nnumber{i % 6}\tB-X\n\n" for i in range(20)))
    found = run_json("data", "split", path, tmp_path / "parts", "--test", "0.25", "--seed", "3")
    part = found["parts"][0]
    assert part["train"]["sentences"] == 15
    assert part["test"]["sentences"] == 5
    assert part["leakage"]["texts"] > 0
    train = run_json("data", "inspect", tmp_path / "parts" / "train.jsonl")
    assert train["mentions"] == {"X": 15}
    folds = run_json("data", "split", path, tmp_path / "folds", "--folds", "4")
    assert sum(part["test"]["sentences"] for part in folds["parts"]) == 20


def test_built_in_platforms_are_written_and_read_back(tmp_path: Path) -> None:
    shown = run_json("data", "platforms", "--num-sentences", "60", "--out", tmp_path / "p")
    assert shown["synthetic"] is True
    assert [row["platform"] for row in shown["platforms"]] == [
        "case-reports",
        "forum-posts",
        "social-posts",
    ]
    for row in shown["platforms"]:
        found = run_json("data", "inspect", tmp_path / "p" / f"{row['platform']}.jsonl")
        assert found["documents"] == row["documents"]
        assert found["problems_total"] == 0


def test_one_corpus_among_platforms(tmp_path: Path) -> None:
    path = tmp_path / "posts.tsv"
    path.write_text("".join(f"word{i}\tO\nx\tB-X\n\n" for i in range(30)))
    shown = run_json("data", "platforms", path, "--into", "4", "--out", tmp_path / "parts")
    assert sorted(row["sentences"] for row in shown["platforms"]) == [7, 7, 8, 8]
    assert len(list((tmp_path / "parts").glob("*.jsonl"))) == 4


def test_overlap_counts_strings_in_common(brat: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tsv"
    other.write_text("aspirin\tB-Drug\n\nrash\tB-ADE\n")
    found = run_json("data", "overlap", brat, other)
    assert found["strings"] == 1
    assert found["pairs"][0]["mentions"] == [2, 1]


def test_score_of_column_files_with_a_paired_test(tmp_path: Path) -> None:
    gold, good, bad = (tmp_path / name for name in ("gold.tsv", "good.tsv", "bad.tsv"))
    gold.write_text("a\tB-X\nb\tI-X\nc\tO\n\nd\tB-Y\n\n" * 20)
    good.write_text("a\tB-X\nb\tI-X\nc\tO\n\nd\tB-Y\n\n" * 20)
    bad.write_text("a\tB-X\nb\tO\nc\tO\n\nd\tO\n\n" * 20)
    assert run_json("score", gold, good)["strict"]["micro"]["f1"] == 1.0
    found = run_json("score", gold, bad, "--against", good)
    assert found["strict"]["micro"]["f1"] == 0.0
    assert found["relaxed"]["micro"]["precision"] == 1.0
    assert found["against"]["difference"]["value"] == -1.0
    assert found["against"]["p_value"] < 0.01


def test_score_refuses_other_tokens(tmp_path: Path, fedner: Run) -> None:
    gold, other = tmp_path / "gold.tsv", tmp_path / "other.tsv"
    gold.write_text("a\tB-X\n")
    other.write_text("z\tB-X\n")
    code, _, error = fedner("score", gold, other)
    assert code == 2
    assert "other tokens" in error


def test_score_of_brat_folders(brat: Path, tmp_path: Path) -> None:
    found = run_json("score", brat, brat)
    assert found["strict"]["micro"]["f1"] == 1.0


def test_an_unknown_path_is_an_error_with_a_hint(tmp_path: Path, fedner: Run) -> None:
    (tmp_path / "corpus.tsv").write_text("a\tO\n")
    code, _, error = fedner("data", "inspect", tmp_path / "corpsu.tsv")
    assert code == 2
    assert "corpus.tsv" in error
    assert "Traceback" not in error
    command = [sys.executable, "-m", "fedner", "data", "inspect", "corpsu.tsv", "--debug"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" in shown.stderr


def test_help_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; sys.argv = ['fedner', '--help']\n"
        "from fedner.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'numpy', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
