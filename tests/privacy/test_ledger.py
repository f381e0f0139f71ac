"""The ledger: resending, refusing, tampering, going back in time, and who may read it."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedner.errors import FednerError
from fedner.privacy.accountant import epsilon
from fedner.privacy.budget import Budget
from fedner.privacy.events import DeclaredUse, GaussianRelease
from fedner.privacy.ledger import Ledger, read_spent
from fedner.privacy.ledger_marks import LedgerMark, check_mark

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
    "change a line in the middle": edited(lambda x: [*x[:4], cheaper(x[4]), *x[5:]]),
    "change the last charge": edited(lambda x: [*x[:-2], cheaper(x[-2]), x[-1]]),
    "change the last line": edited(lambda x: [*x[:-1], x[-1].replace(b"answer", b"charge")]),
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


def rewritten(folder: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Rewrite lines with digests that fit: what an owner can do, since the chain has no key."""
    path = folder / "ledger.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    change(records)
    previous, lines = "0" * 64, []
    for number, record in enumerate(records):
        body = {key: value for key, value in record.items() if key != "digest"}
        body |= {"counter": number, "previous": previous}
        packed = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
        previous = hashlib.sha256(packed).hexdigest()
        lines.append(json.dumps({**body, "digest": previous}, sort_keys=True) + "\n")
    path.write_text("".join(lines))
    mark = {"ledger": records[0]["ledger"], "counter": len(lines) - 1, "digest": previous}
    witness_of(folder).write_text(json.dumps({**mark, "previous": "0" * 64}))


@pytest.mark.parametrize("charge", [0, 2, 99, "2", None])
def test_an_answer_needs_a_charge_that_waits_for_it(folder: Path, charge: object) -> None:
    filled(folder, 2)
    rewritten(folder, lambda records: records[-1].update(charge=charge))
    with pytest.raises(FednerError, match="line 6 answers a charge that is not there"):
        Ledger.open(folder, BUDGET)


def test_a_ledger_of_the_version_before_is_read_and_continued(folder: Path) -> None:
    """It had one line for each release, and marks that named one line before."""
    filled(folder, 2)

    def as_before(records: list[dict[str, Any]]) -> None:
        opening, budget, *rest = records
        charges, answers = rest[::2], rest[1::2]
        records[:] = [opening, budget]
        for charge, answer in zip(charges, answers, strict=True):
            del charge["platform"], charge["study"], answer["charge"]
            records.append({**charge, **answer, "kind": "release"})

    rewritten(folder, as_before)
    with Ledger.open(folder, BUDGET) as ledger:
        stored = ledger.stored("run", 1, "b1")
        assert stored is not None
        assert stored.payload == b"update 1"
        assert ledger.spent().steps == 2
        ledger.record("run", 2, "b2", STEP, b"update 2")
    assert read_spent(folder).steps == 3


# Charge, then answer.


def test_a_charge_counts_before_there_is_an_answer(folder: Path) -> None:
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.charge("run", 1, "b", STEP)
        assert ledger.spent().steps == 1
        assert ledger.stored("run", 1, "b") is None
        assert ledger.newest_round("run") == 1
    assert read_spent(folder).steps == 1
    with Ledger.open(folder, BUDGET) as ledger:  # killed in between: the same charge is used
        ledger.charge("run", 1, "b", STEP)
        assert ledger.spent().steps == 1
        ledger.answer("run", 1, "b", b"noised", kept=b"private")
        with pytest.raises(FednerError, match="no charge that waits"):
            ledger.answer("run", 1, "b", b"other")
        with pytest.raises(FednerError, match="charged before"):
            ledger.charge("run", 1, "b", STEP)
        with pytest.raises(FednerError, match="no charge that waits"):
            ledger.answer("run", 2, "b", b"uncharged")
    with Ledger.open(folder, BUDGET) as ledger:
        stored = ledger.stored("run", 1, "b")
        assert stored is not None
        assert (stored.payload, stored.kept) == (b"noised", b"private")
        assert ledger.spent().steps == 1


def test_another_request_for_a_charged_round_is_charged_by_itself(folder: Path) -> None:
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.charge("run", 1, "b", STEP)
        ledger.charge("run", 1, "c", STEP)
        assert ledger.spent().steps == 2
        ledger.answer("run", 1, "b", b"first")  # whichever of them is answered first
        assert ledger.stored("run", 1, "c") is None


def test_unanswered_charges_leave_no_room_in_the_budget(folder: Path) -> None:
    exact = Budget(epsilon([replace(STEP, steps=3)], 1e-5).pld, 1e-5, "patient")
    with Ledger.open(folder, exact) as ledger:
        for number in range(3):
            ledger.charge("run", number, "b", STEP)
    with Ledger.open(folder, exact) as ledger:
        with pytest.raises(FednerError, match="Refused"):
            ledger.charge("run", 3, "b", STEP)
        ledger.charge("run", 2, "b", STEP)  # already counted
        ledger.answer("run", 2, "b", b"x")


def test_rounds_are_told_apart_by_run_and_platform(folder: Path) -> None:
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.charge("run", 3, "b", STEP, "one")
        ledger.charge("run", 2, "c", STEP, "two")
        ledger.charge("other", 9, "d", STEP, "two")
        assert ledger.newest_round("run", "one") == 3
        assert ledger.newest_round("run", "two") == 2
        assert ledger.newest_round("other", "one") == 0


def test_why_work_failed_is_for_the_owner_alone(folder: Path) -> None:
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.note_failure("patient Jane \ud800 Doe")
        ledger.note_failure("and once more")
    path = folder / "failures.log"
    assert [line.split()[-1] for line in path.read_text().splitlines()] == ["Doe", "more"]
    assert "Jane" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


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
    check_mark("a", seen, LedgerMark(seen.ledger, seen.counter + 5, "d", "p", "e"))
    with pytest.raises(FednerError, match="another history"):
        check_mark("a", seen, LedgerMark(seen.ledger, seen.counter + 2, "d", "p", "e"))
    check_mark("a", seen, LedgerMark(seen.ledger, seen.counter + 2, "d", "p", seen.digest))
    with pytest.raises(FednerError, match="another history"):
        check_mark("a", seen, LedgerMark(seen.ledger, seen.counter + 1, "d", "p", seen.digest))


def test_a_changed_or_lost_payload_is_never_sent(folder: Path) -> None:
    filled(folder)
    with Ledger.open(folder, BUDGET) as ledger:
        answer = ledger.releases[1].answer
        assert answer is not None
        file = folder / "payloads" / answer.payload_sha256
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
