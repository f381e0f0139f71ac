"""The ledger: resending, refusing, tampering, going back in time, and who may read it."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.privacy.accountant import epsilon
from fedner.privacy.budget import Budget
from fedner.privacy.events import DeclaredUse, GaussianRelease
from fedner.privacy.ledger import Ledger, check_mark, read_spent
from fedner.privacy.ledger_chain import LedgerMark

pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")

BUDGET = Budget(3.0, 1e-5, "patient")
STEP = GaussianRelease(2.0, 0.1, "patient", 1.0, 500)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def filled(folder: Path, rounds: int = 4) -> None:
    """A ledger with one release in each of `rounds` rounds."""
    with Ledger.open(folder, BUDGET) as ledger:
        for number in range(rounds):
            ledger.record("run", number, f"b{number}", STEP, f"update {number}".encode())


def witness_of(folder: Path) -> Path:
    return folder.with_name("ledger.witness")


def test_the_same_request_gets_the_same_bytes_at_no_new_cost(folder: Path) -> None:
    with Ledger.open(folder, BUDGET) as ledger:
        first = ledger.record("run", 1, "b", STEP, b"noised", kept=b"private part")
        spent = ledger.spent()
        again = ledger.record("run", 1, "b", replace(STEP, steps=50), b"other noise", kept=b"x")
        assert (again.payload, again.kept) == (b"noised", b"private part")
        assert again.is_resent
        assert not first.is_resent
        assert ledger.spent() == spent
    with Ledger.open(folder, BUDGET) as ledger:  # also by another process, later
        stored = ledger.stored("run", 1, "b")
        assert stored is not None
        assert (stored.payload, stored.kept, stored.is_resent) == (b"noised", b"private part", True)
        assert ledger.spent() == spent


@pytest.mark.parametrize("request_", [("run", 1, "c"), ("run", 2, "b"), ("other", 1, "b")])
def test_anything_else_is_a_new_release(folder: Path, request_: tuple[str, int, str]) -> None:
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.record("run", 1, "b", STEP, b"first")
        assert ledger.stored(*request_) is None
        assert ledger.record(*request_, STEP, b"second").payload == b"second"
        assert ledger.spent().steps == 2


def test_spend_is_kept_over_runs_and_told_apart(folder: Path) -> None:
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.record("a", 1, "b", STEP, b"1")
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.record("c", 1, "b", replace(STEP, steps=3), b"2")
        ledger.record("c", -1, "declared", DeclaredUse("rate chosen on these data"), b"")
        declared = DeclaredUse("rate chosen on these data")
        assert ledger.spent() == epsilon([replace(STEP, steps=4), declared], 1e-5)
        assert ledger.spent("a").pld == epsilon([STEP], 1e-5).pld
        assert ledger.spent("c").declared == ("rate chosen on these data",)
        assert ledger.spent("nobody").pld == 0
        assert read_spent(folder) == ledger.spent()  # while it is open
        assert read_spent(folder, "a", delta=1e-6) == ledger.spent("a", delta=1e-6)


def test_a_release_over_the_budget_is_refused_and_leaves_no_trace(folder: Path) -> None:
    exact = epsilon([replace(STEP, steps=5)], 1e-5).pld
    with Ledger.open(folder, Budget(exact, 1e-5, "patient")) as ledger:
        for number in range(5):
            ledger.record("run", number, "b", STEP, b"%d" % number)
        before = sorted(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        with pytest.raises(FednerError, match="Refused"):
            ledger.record("run", 5, "b", STEP, b"5")
        assert sorted(p.read_bytes() for p in folder.rglob("*") if p.is_file()) == before
        assert ledger.record("run", 4, "b", STEP, b"new").payload == b"4"  # resending still works
    with (
        Ledger.open(folder, Budget(exact, 1e-5, "patient")) as ledger,
        pytest.raises(FednerError, match="Refused"),
    ):
        ledger.require(STEP)


def test_a_raised_budget_is_recorded(folder: Path) -> None:
    filled(folder)
    with Ledger.open(folder) as ledger:
        ledger.grant(replace(BUDGET, epsilon=9.0))
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    budgets = [line["budget"]["epsilon"] for line in lines if line["kind"] == "budget"]
    assert budgets == [3.0, 9.0]


def test_a_lowered_budget_refuses_what_comes(folder: Path) -> None:
    filled(folder)
    with Ledger.open(folder) as ledger:
        ledger.grant(replace(BUDGET, epsilon=0.01))
        with pytest.raises(FednerError, match="Refused"):
            ledger.require(STEP)


def test_another_unit_is_refused(folder: Path) -> None:
    filled(folder)
    with pytest.raises(FednerError, match=r"for one patient .* found .* for one sentence"):
        Ledger.open(folder, replace(BUDGET, unit="sentence"))
    with (
        Ledger.open(folder) as ledger,
        pytest.raises(FednerError, match="the budget is for sentence"),
    ):
        ledger.grant(replace(BUDGET, unit="sentence"))


def test_simulations_have_ledgers_of_their_own(folder: Path, tmp_path: Path) -> None:
    seeded = replace(STEP, is_simulation=True)
    with (
        Ledger.open(folder, BUDGET) as ledger,
        pytest.raises(FednerError, match="seeded"),
    ):
        ledger.record("run", 1, "b", seeded, b"x")
    with pytest.raises(FednerError, match="deployed platform"):
        Ledger.open(folder, BUDGET, is_simulation=True)
    with Ledger.open(tmp_path / "simulated", BUDGET, is_simulation=True) as ledger:
        ledger.record("run", 1, "b", seeded, b"x")
        assert ledger.spent().is_simulation
        with pytest.raises(FednerError, match="simulation"):
            ledger.record("run", 2, "b", STEP, b"x")


def edited(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "ledger.jsonl"
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return apply


def cheaper(line: bytes) -> bytes:
    assert b'"noise_multiplier":2.0' in line
    return line.replace(b'"noise_multiplier":2.0', b'"noise_multiplier":9.0')


TAMPERINGS = {
    "change a line in the middle": edited(lambda x: [*x[:3], cheaper(x[3]), *x[4:]]),
    "change the last line": edited(lambda x: [*x[:-1], cheaper(x[-1])]),
    "remove a line in the middle": edited(lambda x: [*x[:3], *x[4:]]),
    "remove the last line": edited(lambda x: x[:-1]),
    "remove the opening": edited(lambda x: x[1:]),
    "swap two lines": edited(lambda x: [*x[:2], x[3], x[2], *x[4:]]),
    "repeat a line": edited(lambda x: [*x, x[-1]]),
    "insert a blank line": edited(lambda x: [*x[:3], b"\n", *x[3:]]),
    "tear the last line": edited(lambda x: [*x[:-1], x[-1][:-20]]),
    "empty the file": edited(lambda _: []),
    "begin anew": edited(lambda x: x[:1]),
    "delete the file": lambda folder: (folder / "ledger.jsonl").unlink(),
    "delete the witness": lambda folder: witness_of(folder).unlink(),
    "spoil the witness": lambda folder: witness_of(folder).write_bytes(b"{}"),
    "delete the folder": lambda folder: shutil.rmtree(folder),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_detected_and_nothing_is_mended(folder: Path, name: str) -> None:
    filled(folder)
    TAMPERINGS[name](folder)
    lines = folder / "ledger.jsonl"
    found = lines.read_bytes() if lines.exists() else None
    for _ in range(2):  # trying again does not help
        with pytest.raises(FednerError):
            Ledger.open(folder, BUDGET)
    assert (lines.read_bytes() if lines.exists() else None) == found


def test_reading_detects_tampering_too(folder: Path) -> None:
    filled(folder)
    TAMPERINGS["remove the last line"](folder)
    with pytest.raises(FednerError, match="not the newest"):
        read_spent(folder)
    with pytest.raises(FednerError, match="no privacy ledger"):
        read_spent(folder / "nowhere")


def test_an_older_copy_put_back_is_detected(folder: Path, tmp_path: Path) -> None:
    filled(folder, 2)
    shutil.copytree(folder, tmp_path / "backup")
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.record("run", 9, "b", STEP, b"later")
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    with pytest.raises(FednerError, match="not the newest"):
        Ledger.open(folder, BUDGET)


def test_another_ledger_in_its_place_is_detected(folder: Path, tmp_path: Path) -> None:
    filled(folder)
    with Ledger.open(tmp_path / "fresh", BUDGET):
        pass
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "fresh", folder)
    with pytest.raises(FednerError, match="another ledger"):
        Ledger.open(folder, BUDGET)


def test_the_server_notices_what_the_platform_cannot(folder: Path, tmp_path: Path) -> None:
    """Folder and witness put back together: only the last mark that the server saw tells."""
    filled(folder, 2)
    shutil.copytree(folder, tmp_path / "backup")
    shutil.copy(witness_of(folder), tmp_path / "backup.witness")
    with Ledger.open(folder, BUDGET) as ledger:
        seen = ledger.record("run", 7, "b", STEP, b"later").mark
        check_mark("a", None, seen)
        check_mark("a", seen, seen)
        newer = ledger.record("run", 8, "b", STEP, b"later still").mark
        check_mark("a", seen, newer)
        check_mark("a", newer, ledger.record("run", 7, "b", STEP, b"").mark)  # a resending
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    shutil.copy(tmp_path / "backup.witness", witness_of(folder))
    with Ledger.open(folder, BUDGET) as ledger:
        with pytest.raises(FednerError, match="platform a went back"):
            check_mark("a", newer, ledger.record("run", 9, "b", STEP, b"again").mark)
        with pytest.raises(FednerError, match="another entry"):
            check_mark("a", seen, ledger.mark)
        with pytest.raises(FednerError, match="another history"):
            check_mark("a", seen, ledger.record("run", 10, "b", STEP, b"more").mark)
    with pytest.raises(FednerError, match="another ledger"):
        check_mark("a", seen, replace(newer, ledger="x"))
    check_mark("a", seen, LedgerMark(seen.ledger, seen.counter + 5, "d", "p"))


def test_a_changed_or_lost_payload_is_never_sent(folder: Path) -> None:
    filled(folder)
    with Ledger.open(folder, BUDGET) as ledger:
        line = ledger.releases[1]
        file = folder / "payloads" / line.payload_sha256
        file.write_bytes(b"update X")
        with pytest.raises(FednerError, match="was changed"):
            ledger.stored("run", 1, "b1")
        file.unlink()
        with pytest.raises(FednerError, match="cannot be read"):
            ledger.record("run", 1, "b1", STEP, b"fresh noise")  # that would be a second release


def test_old_payloads_may_be_forgotten_but_not_their_cost(folder: Path) -> None:
    filled(folder)
    with Ledger.open(folder, BUDGET) as ledger:
        spent = ledger.spent()
        assert ledger.forget_payloads("run", 3) == 3
        assert ledger.forget_payloads("run", 3) == 0
        assert ledger.spent() == spent
        with pytest.raises(FednerError, match="another release"):
            ledger.stored("run", 0, "b0")
        assert ledger.stored("run", 3, "b3") is not None


def test_only_the_owner_may_read(folder: Path) -> None:
    before = os.umask(0o000)
    try:
        filled(folder)
    finally:
        os.umask(before)
    for path in (folder, *folder.rglob("*"), witness_of(folder)):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_one_process_at_a_time(folder: Path) -> None:
    with (
        Ledger.open(folder, BUDGET),
        pytest.raises(FednerError, match="in use by another process"),
    ):
        Ledger.open(folder, BUDGET)
    with Ledger.open(folder, BUDGET) as ledger:
        pass
    with pytest.raises(FednerError, match="closed"):
        ledger.record("run", 1, "b", STEP, b"x")


def test_a_failed_opening_gives_the_lock_back(folder: Path) -> None:
    filled(folder)
    with pytest.raises(FednerError, match="Keep another ledger"):
        Ledger.open(folder, replace(BUDGET, unit="sentence"))
    with Ledger.open(folder, BUDGET):
        pass


def test_a_failed_write_closes_the_ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(folder, BUDGET) as ledger:

        def full(path: Path, data: bytes) -> None:
            with path.open("ab") as handle:
                handle.write(data[:30])
            raise FednerError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr("fedner.privacy.ledger.append_durably", full)
            with pytest.raises(FednerError, match="full"):
                ledger.record("run", 1, "b", STEP, b"x")
        with pytest.raises(FednerError, match="closed"):
            ledger.record("run", 1, "b", STEP, b"x")
    with Ledger.open(folder, BUDGET) as ledger:  # the torn line never left, which is provable
        assert ledger.spent().steps == 0
        assert list((folder / "payloads").iterdir()) == []
        ledger.record("run", 1, "b", STEP, b"y")
