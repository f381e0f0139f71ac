"""The whole way of docs/deidentification.md, as it stands there: raw notes into a tool and back."""

import csv
import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedner
from fedner.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deidentification.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    block = re.search(r"```bash\n(.*?)```", PAGE.split("## The whole way", 1)[1], re.S)
    assert block is not None
    return [line for line in block[1].splitlines() if line and not line.startswith("#")]


def as_annotators_would(tasks: Path, exported: Path) -> int:
    """Do what Label Studio does: every pre-annotation is accepted, but the first one of a task."""
    num_kept = 0
    records = json.loads(tasks.read_text())
    for record in records:
        result = [each for given in record["predictions"] for each in given["result"]][1:]
        num_kept += len(result)
        record["annotations"] = [{"result": result, "was_cancelled": False}]
    exported.write_text(json.dumps(records))
    return num_kept


def test_the_whole_way_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    num_kept = 0
    for command in commands():
        program, *arguments = shlex.split(command)
        if program == "python":
            monkeypatch.setattr(sys, "argv", arguments)
            runpy.run_path(str(ROOT / arguments[0]), run_name="__main__")
            continue
        assert program == "fedner"
        if "exported.json" in arguments and not Path("exported.json").exists():
            num_kept = as_annotators_would(Path("tasks.json"), Path("exported.json"))
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, (command, result.output)
    _check_notes(Path("data/notes"), Path("safe"))
    _check_table(Path("data/export.csv"), Path("safe.csv"))
    back = fedner.read("corrected.jsonl")
    assert num_kept == sum(len(document.spans) for document in back) > 0
    assert len(back.documents) == len(list(Path("data/notes").rglob("*.txt")))


def _check_notes(raw: Path, safe: Path) -> None:
    before, after = (sorted(place.rglob("*.txt")) for place in (raw, safe))
    assert len(before) == len(after) == 22
    names = {path.stem.removesuffix("_2020") for path in before}
    every = " ".join(path.read_text() + str(path) for path in after)
    assert not any(word in every for name in names for word in (name, name.replace("_", " ")))
    assert "Continue warfarin 5 mg daily." in every


def _check_table(raw: Path, safe: Path) -> None:
    with raw.open() as old, safe.open() as new:
        rows = list(zip(csv.DictReader(old), csv.DictReader(new), strict=True))
    assert [before["visit"] for before, _ in rows] == [after["visit"] for _, after in rows]
    names = {path.stem.split("_")[1] for path in Path("data/notes").rglob("*.txt")}
    for before, after in rows:
        assert not any(name in after["note"] for name in names)
        assert "MRN" not in after["patient"]
        assert before["seen"] != after["seen"]
