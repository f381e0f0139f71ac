"""Run folders that were harmed: every command says so, and none ends in a trace."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedner.cli import app as cli
from fedner.cli.failures import USER_ERROR
from fedner.errors import FednerError
from fedner.runs.comparison import compare
from fedner.runs.folder import RunFolder
from fedner.runs.report import write_report

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
      for command in ("evaluate", "report", "join")),
    *(("facts.json", harm, command) for harm in (remove, cut, other_json)
      for command in ("report", "join")),
    *((name, harm, "report") for name in ("disclosure.json", "scores.json")
      for harm in (remove, cut, other_json)),
    *((name, drop_key, "report") for name in ("disclosure.json", "scores.json", "facts.json")),
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
        "join": ["--data", "synthetic:social-posts", "--out", tmp_path / "late"],
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


def of_platform(name: str, change: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda record: change(record["platforms"][name])


DAMAGED = [
    ("scores.json", of_platform("case-reports", lambda one: one.pop("intervals")),
     "platforms.case-reports.intervals: missing"),
    ("scores.json", of_platform("case-reports", lambda one: one["gain"].update(verdict="maybe")),
     "platforms.case-reports.gain.verdict: input should be 'yes', 'no' or 'not clear'; found"),
    ("scores.json", of_platform("case-reports", lambda one: one["methods"]["federated"].pop(
        "strict")), "platforms.case-reports.methods.federated"),
    ("scores.json", lambda record: record.update(seed="1"),
     "seed: input should be a valid integer"),
    ("facts.json", of_platform("case-reports", lambda one: one["types"][0].pop("kept")),
     "platforms.case-reports.types[0].kept: missing"),
    ("facts.json", lambda record: record.update(versions=None), "versions: "),
    ("disclosure.json", of_platform("forum-posts", lambda one: one.update(bytes=1.5)),
     "platforms.forum-posts.bytes: input should be a valid integer"),
    ("disclosure.json", lambda record: record.pop("never"), "never: missing"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "told"), DAMAGED)
def test_a_damaged_record_is_refused_with_file_and_key(
    name: str, change: Callable[[Any], None], told: str, finished: Path, tmp_path: Path
) -> None:
    for path in (*finished.glob("*.json"), finished / "rounds.jsonl"):
        shutil.copy(path, tmp_path)
    place = tmp_path / name
    record = json.loads(place.read_bytes())
    change(record)
    place.write_text(json.dumps(record))
    with pytest.raises(FednerError) as caught:
        write_report(RunFolder(tmp_path))
    assert caught.value.message.startswith(f"{place} is damaged: {told}")
    assert "undamaged copy" in caught.value.hint
    assert not (tmp_path / "report.html").exists()


def test_counts_of_a_platform_are_refused_with_file_and_key(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    place = tmp_path / "run" / "platforms" / "case-reports" / "counts.json"
    record = json.loads(place.read_bytes())
    record["methods"]["federated"]["strict"][1] = [1, 2]
    place.write_text(json.dumps(record))
    with pytest.raises(FednerError, match=r"counts.json is damaged: methods.federated.strict\[1\]"):
        compare(RunFolder(finished), RunFolder(tmp_path / "run"))


def test_a_round_without_its_keys_is_refused_with_file_and_line(
    finished: Path, tmp_path: Path
) -> None:
    lines = (finished / "rounds.jsonl").read_text().splitlines()
    second = json.loads(lines[1])
    second.pop("losses")
    lines[1] = json.dumps(second)
    (tmp_path / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(FednerError, match=r"rounds.jsonl, line 2 is not the record of a round"):
        RunFolder(tmp_path).rounds()
