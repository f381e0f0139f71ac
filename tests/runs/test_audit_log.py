"""FLARE's audit log at the server: rotated, and without the watchdog's looks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs the extra flare")

from nvflare.fuel.sec.audit import Auditor

from fedner.runs.deployment import audit_log
from fedner.runs.deployment.homes import WATCHDOG


@pytest.fixture
def auditor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Auditor]:
    monkeypatch.setattr(Auditor, "__init__", Auditor.__init__)  # undone at the end
    monkeypatch.setattr(Auditor, "add_event", Auditor.add_event)
    monkeypatch.setattr(audit_log, "LOG_BYTES", 1000)
    audit_log.bound_audit_log()
    made = Auditor(str(tmp_path / "audit.log"))
    yield made
    made.close()


def test_the_log_does_not_grow_beyond_five_files(auditor: Auditor, tmp_path: Path) -> None:
    for number in range(200):
        auditor.add_event("coordinator@fedner.local", f"submit_job {number}")
    auditor.close()
    held = sorted(tmp_path.iterdir())
    assert len(held) == 5
    assert max(path.stat().st_size for path in held) <= 1000
    assert (tmp_path / "audit.log").read_text().endswith("[A:submit_job 199]\n")


def test_what_the_watchdog_looks_at_is_left_out_and_what_it_does_is_not(
    auditor: Auditor, tmp_path: Path
) -> None:
    for action in ("list_jobs -d", "fedner lost 1", "fedner present", "submit_job a"):
        auditor.add_event(WATCHDOG, action)
    auditor.add_event("coordinator@fedner.local", "list_jobs -d")
    lines = (tmp_path / "audit.log").read_text().splitlines()
    assert [line.split("[U:")[1] for line in lines] == [
        f"{WATCHDOG}][A:submit_job a]",
        "coordinator@fedner.local][A:list_jobs -d]",
    ]


def test_what_there_was_is_kept(auditor: Auditor, tmp_path: Path) -> None:
    auditor.add_event("coordinator@fedner.local", "stop")
    auditor.close()
    again = Auditor(str(tmp_path / "audit.log"))
    again.add_event("coordinator@fedner.local", "resume")
    again.close()
    assert len((tmp_path / "audit.log").read_text().splitlines()) == 2
