"""Run folders that were harmed: every command says so, and none ends in a trace."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedner.cli import app as cli
from fedner.cli.failures import USER_ERROR

NOTE = "Took aspirin, no rash."
CARD = "platforms/case-reports/taggers/federated/model.json"
WEIGHTS = "platforms/case-reports/taggers/federated/model.safetensors"


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * 3 // 4] ^= 0x55
    path.write_bytes(data)


def drop_key(path: Path) -> None:
    record = json.loads(path.read_bytes())
    record.pop(sorted(record)[len(record) // 2])
    path.write_text(json.dumps(record))


def other_json(path: Path) -> None:
    path.write_text("[1, 2]\n")


def become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARM = (remove, cut, flip, drop_key, other_json, become_folder)
USES_TAGGER = ("evaluate", "errors", "predict", "export")
CASES = [
    *((CARD, harm, command) for harm in HARM for command in ("predict", "export")),
    *((CARD, harm, "evaluate") for harm in (remove, become_folder)),
    *((WEIGHTS, harm, command) for harm in (remove, cut, flip) for command in USES_TAGGER),
    *(("settings.json", harm, command) for harm in (cut, drop_key, other_json)
      for command in ("evaluate", "report", "adapt")),
    *(("facts.json", harm, command) for harm in (remove, cut, other_json)
      for command in ("report", "adapt")),
    *((name, harm, "report") for name in ("disclosure.json", "scores.json")
      for harm in (remove, cut, other_json)),
    ("disclosure.json", drop_key, "report"),
    ("rounds.jsonl", flip, "report"),
    ("rounds.jsonl", other_json, "report"),
    ("platforms/case-reports/counts.json", cut, "compare"),
    ("platforms/case-reports/counts.json", other_json, "compare"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "harm", "command"), CASES)
def test_a_harmed_run_is_told_so(
    name: str,
    harm: Callable[[Path], None],
    command: str,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    scores = (run / "scores.json").read_bytes()
    harm(run / name)
    (tmp_path / "note.txt").write_text(NOTE)
    arguments = {
        "evaluate": [],
        "report": [],
        "compare": [finished],
        "errors": ["--platform", "case-reports"],
        "predict": [tmp_path / "note.txt", "--platform", "case-reports"],
        "export": ["--platform", "case-reports", "--to", tmp_path / "exported"],
        "adapt": ["--data", "synthetic:social-posts", "--out", tmp_path / "late"],
    }[command]
    monkeypatch.setattr(sys, "argv", ["fedner", command, str(run), *map(str, arguments), "--json"])
    with pytest.raises(SystemExit) as done:
        cli.main()
    said = capsys.readouterr()
    error = json.loads(said.out)["error"]
    assert (done.value.code, said.err) == (USER_ERROR, "")
    assert error["kind"] in ("input", "system")
    assert error["hint"]
    if name != "scores.json":
        assert (run / "scores.json").read_bytes() == scores
    assert not (tmp_path / "exported").exists()
    assert not (tmp_path / "late").exists()
