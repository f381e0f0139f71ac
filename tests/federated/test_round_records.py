"""The record of a run: one line a round, names as people write them, torn lines dropped."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.federated.record import Missing, RecordFile, RoundRecord
from fedner.federated.screening import Refusal
from fedner.privacy.events import GaussianRelease
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Counts, Scores

NOISED = NoisedScores(3.0, 1.0, -2.0, 6.0, GaussianRelease(1.5, 1.0, "patient", 1.0, 500))

FIRST = RoundRecord(
    round=1,
    seconds=0.5,
    loss=1.25,
    losses={"Köln": 1.25},
    norms={"Köln": 2.0},
    bytes_up={"Köln": 10},
    bytes_down={"Köln": 12},
    refusals=(Refusal("b", "norm", "its norm is 9"),),
    failures=(Missing("c", "save", "no-reply", "it did not answer in time"),),
    scores={"a": Scores(strict={"X": Counts(1, 2, 3)}), "b": NOISED},
    events={"b": NOISED.event},
)


def written(path: Path, *rounds: int) -> RecordFile:
    file = RecordFile(path)
    for round_ in rounds:
        file.append(replace(FIRST, round=round_))
    file.sync()
    file.close()
    file.close()
    return file


def test_a_line_is_json_with_names_as_they_are() -> None:
    line = FIRST.line()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert '"losses": {"Köln": 1.25}' in line.decode()
    stated = json.loads(line)
    assert stated["failures"] == [FIRST.failures[0]._asdict()]
    assert stated["scores"]["a"]["strict"]["micro"]["tp"] == 1


def test_what_was_written_is_read_and_what_lies_beyond_is_dropped(tmp_path: Path) -> None:
    file = written(tmp_path / "rounds.jsonl", 1, 2, 3)
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + b'{"round": 4, "sec')
    kept = file.keep_until(2)
    assert kept == [FIRST, replace(FIRST, round=2)]
    assert file.path.read_bytes() == b"".join(record.line() for record in kept)
    assert file.path.stat().st_mode & 0o777 == 0o600
    file.append(replace(FIRST, round=3))
    assert file.path.read_bytes() == whole
    file.close()


def test_a_record_that_was_altered_is_refused_with_its_place(tmp_path: Path) -> None:
    file = written(tmp_path / "rounds.jsonl", 1, 2)
    with pytest.raises(FednerError, match="ends with round 2; expected 3 rounds"):
        file.keep_until(3)
    swapped = written(tmp_path / "swapped.jsonl", 1, 3)
    with pytest.raises(FednerError, match="line 2 has round 3; expected 2"):
        swapped.keep_until(2)
    for damage in (b"odd\n", b"{}\n", b"[]\n", b'{"refusals": [], "failures": [], "x": 1}\n'):
        file.path.write_bytes(FIRST.line() + damage)
        with pytest.raises(FednerError, match="line 2 is not the record of a round"):
            file.keep_until(2)
    assert RecordFile(tmp_path / "none.jsonl").keep_until(0) == []
