"""What happens in the life of a federation: a server moves, a platform is upgraded, a certificate
ends. The run goes on to the bits that it would have come to anyway."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from live import (
    NAMES,
    RUN,
    SERVER,
    Live,
    assert_same_tensors,
    live,
    quick_keys,
    reference,
    slowed,
    tiny_settings,
    until,
)

import fedner
from fedner.engines.flare.job_ends import read_ends
from fedner.engines.flare.processes import stop
from fedner.engines.flare.session import AdminSession
from fedner.runs.deployment import federation as issuing
from fedner.runs.deployment.homes import ServerHome
from fedner.runs.deployment.identity import read_certificate
from fedner.runs.deployment.taking_part import request_platform
from fedner.runs.deployment.trial import install_here

pytestmark = [pytest.mark.deployment, pytest.mark.slow]
ROUNDS = 400
VICTIM = NAMES[1]


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Live]:
    settings = tiny_settings(training={"rounds": ROUNDS, "batch_size": 16, "checkpoint_every": 10})
    with quick_keys(), live(tmp_path, settings) as found:
        yield found


def begun(federation: Live, rounds: int = 3) -> None:
    federation.start()
    federation.watch_apart()
    federation.wait_connected()
    federation.submit()
    federation.wait_round(rounds)


def stopped(federation: Live, name: str) -> None:
    """Stop as SIGTERM at `start` does."""
    stop(federation.processes.pop(name), federation.program(name))


def assert_finished(federation: Live, folder: Path) -> None:
    federation.wait_done(seconds=180)
    assert_same_tensors(federation, reference(federation, folder / "reference"))


def test_a_server_moves_with_its_backup(federation: Live, tmp_path: Path) -> None:
    """As docs/operating.md says: stop, copy the folder, start it there."""
    begun(federation)
    stopped(federation, SERVER)
    federation._end_companion()
    assert federation.rounds() < ROUNDS, "the run was over before the move"
    old = federation.homes.server.path
    new = tmp_path / "elsewhere"
    new.mkdir()
    subprocess.run(
        ["tar", "-cpf", str(tmp_path / "server.tar"), "server"], cwd=old.parent, check=True
    )
    shutil.rmtree(old)
    subprocess.run(["tar", "-xpf", str(tmp_path / "server.tar"), "-C", str(new)], check=True)
    federation.homes = replace(federation.homes, server=ServerHome(new / "server"))
    with (tmp_path / "moved.log").open("wb") as log:
        command = [sys.executable, "-m", "fedner", "server", "start", "--home", str(new / "server")]
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        assert_finished(federation, tmp_path)
    finally:
        process.terminate()
        process.wait(30)


def test_a_platform_is_upgraded_between_rounds(
    federation: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One platform goes on with another release of fedner, from another place."""
    begun(federation)
    stopped(federation, VICTIM)
    assert federation.rounds() < ROUNDS, "the run was over before the upgrade"
    source = Path(fedner.__file__).parents[1]
    shutil.copytree(source / "fedner", tmp_path / "next" / "fedner")
    version = tmp_path / "next" / "fedner" / "version.py"
    text = version.read_text("utf-8")
    assert fedner.__version__ in text
    version.write_text(text.replace(fedner.__version__, "99.0.0"), "utf-8")
    with monkeypatch.context() as changed:
        changed.setenv("PYTHONPATH", str(tmp_path / "next"))
        federation.start(VICTIM)
    assert_finished(federation, tmp_path)
    card = federation.homes.platforms[VICTIM].runs / RUN
    assert any(b"99.0.0" in path.read_bytes() for path in card.rglob("*") if path.is_file())


def test_a_certificate_ends_during_a_run(federation: Live, tmp_path: Path) -> None:
    """Connections that stand go on; then the platform is named as missing until it is renewed."""
    ends = datetime.now(UTC) + timedelta(seconds=60)
    _issue_until(federation, ends)
    begun(federation)
    assert datetime.now(UTC) < ends, "it took too long to begin"
    with slowed(federation.job_pids(NAMES[0]), asleep=0.4, awake=0.05):
        until(lambda: datetime.now(UTC) > ends, 90, "the end of the certificate")
        before_end = federation.rounds()
        until(lambda: federation.rounds() > before_end + 2, 60, "the connections that stand")
    before = len(read_ends(federation.homes.server.runs / RUN))
    assert federation.rounds() < ROUNDS, "the run was over before the certificate ended"
    federation.kill_all(VICTIM)
    federation.start(VICTIM)

    def is_named() -> bool:
        found = read_ends(federation.homes.server.runs / RUN)[before:]
        return any(VICTIM in each.missing for each in found)

    until(is_named, 60, "the platform is named")
    connected = AdminSession.connected  # within the last ten seconds
    until(lambda: VICTIM not in federation._told(connected, [VICTIM]), 30, "it is not connected")
    federation.kill_all(VICTIM)
    home = federation.homes.platforms[VICTIM]
    install_here(federation.homes.federation, home, request_platform(home, VICTIM))
    federation.start(VICTIM)
    assert_finished(federation, tmp_path)


def _issue_until(federation: Live, ends: datetime) -> None:
    """Give a platform a certificate that ends at a moment."""
    home, issue = federation.homes.platforms[VICTIM], issuing.issue
    begins = ends - timedelta(days=issuing.CERTIFICATE_DAYS)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(issuing, "issue", lambda *given: issue(*given, now=begins))
        install_here(federation.homes.federation, home, request_platform(home, VICTIM))
    own = read_certificate(home.certificate.read_text(), "own")
    assert own.not_valid_after_utc <= ends
