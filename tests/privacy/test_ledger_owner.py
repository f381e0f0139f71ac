"""The owner's part of a ledger: its budget and delta, its key, and who may change them."""

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.privacy.budget import Budget
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger
from fedner.privacy.ledger_chain import opened, read_chain
from fedner.privacy.ledger_marks import encode_mark
from fedner.privacy.ledger_owner import change_budget, ledger_chain, open_ledger, unit_key
from fedner.privacy.unit_key import KEY_FILE

BUDGET = Budget(3.0, 1e-5, "patient")
STEP = GaussianRelease(2.0, 0.1, "patient", 1.0, 500)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def lines_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


def test_a_run_takes_the_budget_of_the_owner_and_cannot_bring_its_own(folder: Path) -> None:
    open_ledger(folder, BUDGET, 500)
    before = lines_of(folder)
    with Ledger.open(folder) as ledger:
        assert ledger.budget == BUDGET
    for asked in (replace(BUDGET, epsilon=9.0), replace(BUDGET, delta=0.4)):
        with pytest.raises(FednerError) as caught:
            Ledger.open(folder, asked)
        for part in ("epsilon 3 at delta 1e-05", f"epsilon {asked.epsilon:g} at delta"):
            assert part in caught.value.message
        assert f"fedner privacy budget {folder}" in caught.value.hint
    assert lines_of(folder) == before, "a refused run leaves no line"


def test_without_an_owner_there_is_no_ledger(folder: Path) -> None:
    with pytest.raises(FednerError, match="nobody granted a budget") as caught:
        Ledger.open(folder)
    assert f"fedner privacy open {folder}" in caught.value.hint
    assert not folder.exists()
    with pytest.raises(FednerError, match="nobody granted a budget"):
        change_budget(folder, epsilon=1.0)


def test_a_second_opening_is_refused(folder: Path) -> None:
    open_ledger(folder, BUDGET, 500)
    with pytest.raises(FednerError, match="already a ledger"):
        open_ledger(folder, replace(BUDGET, epsilon=99.0), 500)
    assert ledger_chain(folder).budget == BUDGET


def test_a_change_names_who_when_old_and_new(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwd = pytest.importorskip("pwd")
    monkeypatch.setenv("LOGNAME", "somebody else")
    monkeypatch.setenv("USER", "somebody else")
    open_ledger(folder, BUDGET, 500)
    change_budget(folder, epsilon=5.0, delta=1e-6, public_units=800)
    *_, last = lines_of(folder)
    assert last["who"] == pwd.getpwuid(os.geteuid()).pw_name
    assert last["time"].endswith("+00:00")
    assert (last["old"]["epsilon"], last["old"]["delta"]) == (3.0, 1e-5)
    assert (last["budget"]["epsilon"], last["budget"]["delta"]) == (5.0, 1e-6)
    assert last["public_units"] == 800
    chain = ledger_chain(folder)
    assert [line.budget.epsilon for line in chain.grants] == [3.0, 5.0]
    assert chain.public_units == 800
    data = (folder / "ledger.jsonl").read_bytes()
    with pytest.raises(FednerError, match="line 2 was changed"):
        read_chain(data.replace(b'"epsilon":3.0', b'"epsilon":9.0', 1), folder)


def test_a_lowered_budget_holds_and_a_raised_one_lets_go_on(folder: Path) -> None:
    open_ledger(folder, BUDGET, 500)
    with Ledger.open(folder) as ledger:
        ledger.record("run", 1, "b", STEP, b"x")
    change_budget(folder, epsilon=0.01)
    with Ledger.open(folder) as ledger, pytest.raises(FednerError, match="Refused"):
        ledger.require(STEP)
    change_budget(folder, epsilon=4.0)
    with Ledger.open(folder) as ledger:
        ledger.require(STEP)
        with pytest.raises(FednerError, match="in use by another process"):
            change_budget(folder, epsilon=5.0)


@pytest.mark.parametrize(("delta", "is_refused", "warns"), [
    (0.0021, True, False), (0.002, False, True), (0.00021, False, True), (0.0002, False, False),
])  # fmt: skip
def test_delta_is_at_most_one_over_the_public_size(
    folder: Path, delta: float, is_refused: bool, warns: bool
) -> None:
    if is_refused:
        with pytest.raises(FednerError, match="more than one over the public size of 500"):
            open_ledger(folder, replace(BUDGET, delta=delta), 500)
        assert not folder.exists()
        open_ledger(folder, BUDGET, 500)
        with pytest.raises(FednerError, match="more than one over"):
            change_budget(folder, delta=delta)
        with pytest.raises(FednerError, match="more than one over"):
            change_budget(folder, public_units=200_000)
        assert ledger_chain(folder).budget == BUDGET
        return
    assert bool(open_ledger(folder, replace(BUDGET, delta=delta), 500).warnings) is warns


def test_the_key_has_256_bits_and_is_for_the_owner_alone(folder: Path, tmp_path: Path) -> None:
    open_ledger(folder, BUDGET, 500)
    open_ledger(tmp_path / "other", BUDGET, 500)
    key = unit_key(folder)
    assert len(key) == 32
    assert key != unit_key(tmp_path / "other")
    assert stat.S_IMODE((folder / KEY_FILE).stat().st_mode) == 0o600
    change_budget(folder, epsilon=9.0)
    assert unit_key(folder) == key, "made once, for good"
    everything = b"".join(
        each.read_bytes()
        for each in tmp_path.rglob("*")
        if each.is_file() and each.name != KEY_FILE
    )
    assert key not in everything
    assert key.hex().encode() not in everything


def test_a_key_that_is_gone_exchanged_or_open_to_others_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    open_ledger(folder, BUDGET, 500)
    open_ledger(tmp_path / "other", BUDGET, 500)
    (folder / KEY_FILE).chmod(0o640)
    with pytest.raises(FednerError, match="may be read by others: found mode 640"):
        unit_key(folder)
    shutil.copy(tmp_path / "other" / KEY_FILE, folder / KEY_FILE)
    (folder / KEY_FILE).chmod(0o600)
    with pytest.raises(FednerError, match="not the one that the ledger was made with"):
        unit_key(folder)
    (folder / KEY_FILE).unlink()
    with pytest.raises(FednerError, match="cannot be read"):
        unit_key(folder)


def test_a_simulation_has_no_key(folder: Path) -> None:
    with Ledger.open(folder, BUDGET, is_simulation=True):
        pass
    assert not (folder / KEY_FILE).exists()


def test_a_ledger_of_an_earlier_version_needs_its_owner_first(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    chain, first = opened("2026-01-01T00:00:00+00:00", is_simulation=False)
    budget = {"epsilon": 3.0, "delta": 1e-5, "unit": "patient",
              "adjacency": "add_or_remove_one", "accountant": "pld"}  # fmt: skip
    old = {"kind": "budget", "budget": budget, "time": "2026-01-01T00:00:00+00:00"}
    second, digest = _earlier(old, 1, chain.mark.digest)
    (folder / "ledger.jsonl").write_bytes(first + second)
    mark = replace(chain.mark, counter=1, digest=digest, previous=chain.mark.digest)
    folder.with_name("ledger.witness").write_bytes(encode_mark(mark))
    with pytest.raises(FednerError, match="earlier version") as caught:
        unit_key(folder)
    assert "fedner privacy budget" in caught.value.hint
    with pytest.raises(FednerError, match="how many units"):
        change_budget(folder, epsilon=3.0)
    change_budget(folder, epsilon=3.0, public_units=500)
    assert len(unit_key(folder)) == 32


def _earlier(record: dict, counter: int, previous: str) -> tuple[bytes, str]:
    import hashlib

    def canonical(value: dict) -> bytes:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    body = {**record, "counter": counter, "previous": previous}
    digest = hashlib.sha256(canonical(body)).hexdigest()
    return canonical({**body, "digest": digest}) + b"\n", digest


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users have numbers on Unix alone")
def test_somebody_else_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_ledger(folder, BUDGET, 500)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(FednerError, match="belongs to user"):
        change_budget(folder, epsilon=9.0)
