"""`fedner platform record`: verified, summed up, line by line, for people and machines."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fedner.cli.record import record, show_record
from fedner.errors import FednerError
from fedner.federated.messages import Failure, Order, ScoreReport, Update
from fedner.privacy.events import GaussianRelease, to_json
from fedner.runs.disclosure_record import RECORD, DisclosureRecord, Protection, read_record
from fedner.runs.disclosure_summary import summarise
from fedner.tensors import SharedState

EVENT = {"release": to_json(GaussianRelease(1.0, 0.1, "document", 1.0, 400))}
HELD = Protection("unit-local", 1e-5)
STUDY = "d" * 64


def update(round_: int, value: float) -> Update:
    return Update("c", round_, SharedState({"word_cnn.weight": torch.full((2, 3), value)}))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A run with a round that was sent twice, one that was refused, and another run."""
    written = DisclosureRecord(tmp_path / RECORD)

    def sent(order: Order, reply: Any) -> None:
        written.append(order, reply, asked_by="server", protection=HELD)

    for value, round_ in ((1.0, 1), (2.0, 2), (2.0, 2)):
        made = update(round_, value)
        sent(Order("first", round_, study=STUDY), Update("c", round_, made.tensors, event=EVENT))
    sent(Order("first", 3, study=STUDY), Failure("c", 3, "policy-rounds"))
    sent(Order("second", 1, study=STUDY, verb="evaluate"), ScoreReport("c", 1))
    written.append_refusal("e" * 64, ["policy-unit"], asked_by="server", run="third")
    return tmp_path


def test_runs_are_summed_up(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(home=home)
    shown = capsys.readouterr().out
    first, second, third = shown.split("run ")[1:]
    assert first.startswith("first\n")
    assert "sent: 3 updates (1 of them again), 0 score reports" in first
    assert f"study {STUDY}\n" in first
    assert "mechanism unit-local, epsilon " in first
    assert "refused: 1 x policy-rounds (its policy allows fewer rounds)" in first
    assert "refused" not in second
    assert "refused: 1 x policy-unit (its policy asks for a larger protected unit)" in third
    assert max(map(len, shown.replace(STUDY, "").split("digest of")[0].splitlines())) <= 80
    assert "verified: 6 lines" in shown
    assert read_record(home / RECORD).digest in shown.replace("\n", "")


def test_what_was_sent_twice_costs_once(home: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    from fedner.privacy.accountant import epsilon

    first, second, third = summarise(read_record(home / RECORD))
    assert (first.updates, first.resent, first.refused) == (3, 1, {"policy-rounds": 1})
    two = [GaussianRelease(1.0, 0.1, "document", 1.0, 400, steps=2)]
    assert first.epsilon == pytest.approx(epsilon(two, 1e-5).pld)
    assert (second.updates, second.epsilon) == (0, None)
    assert (third.run, third.study) == ("third", "e" * 64)


def test_a_run_is_shown_line_by_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_record(home / RECORD, run="first")
    shown = capsys.readouterr().out
    assert "2 x 3" in shown
    assert "word_cnn.weight" in shown
    assert "verified" in shown


def test_json_has_every_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_record(home / RECORD, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert shown["verified"] is True
    assert len(shown["lines"]) == shown["num_lines"] == 6
    assert shown["lines"][0]["tensors"][0]["shape"] == [2, 3]
    assert [each["run"] for each in shown["runs"]] == ["first", "second", "third"]


def test_a_noted_digest_is_found_or_missed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noted = read_record(home / RECORD).lines[2].digest
    show_record(home / RECORD, expect=noted[:16])
    assert "that of line 3" in capsys.readouterr().out
    with pytest.raises(FednerError, match="no line of the record has the digest"):
        show_record(home / RECORD, expect="0" * 64)
    with pytest.raises(FednerError, match="at least 8"):
        show_record(home / RECORD, expect="")


def test_what_is_wrong_is_said(home: Path, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="no disclosure record"):
        show_record(tmp_path / "elsewhere" / RECORD)
    with pytest.raises(FednerError, match="no run 'fist'") as caught:
        show_record(home / RECORD, run="fist")
    assert "'first'" in caught.value.hint
    data = (home / RECORD).read_bytes()
    (home / RECORD).write_bytes(data.replace(b"first", b"fisrt", 1))
    with pytest.raises(FednerError, match="was changed in line 1"):
        show_record(home / RECORD)
