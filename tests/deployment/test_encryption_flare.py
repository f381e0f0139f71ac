"""Encrypted sums over FLARE: sealed with the homes' keys; the server never has the key."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from live import (
    NAMES,
    RUN,
    SERVER,
    Live,
    assert_same_states,
    live,
    quick_keys,
    reference,
    tiny_settings,
    until,
)

from fedner.federated.checkpoints import read_state
from fedner.federated.encrypted.kept_key import KEY_FILE
from fedner.federated.encrypted_sum import KEYS
from fedner.runs.disclosure_record import RECORD, read_record
from fedner.settings import Settings

pytestmark = pytest.mark.deployment
HOOKS = Path(__file__).resolve().parent / "kill_hooks"
WARD = "ward"


def encrypted_settings(rounds: int, **changes: Any) -> Settings:
    platforms = [
        {"name": name, "data": f"synthetic:{name}", "num_sentences": 40} for name in NAMES
    ] + [{"name": WARD, "data": "synthetic:case-reports", "num_sentences": 30}]
    return tiny_settings(rounds, transport={"encryption": "ckks"}, platforms=platforms, **changes)


def assert_same_copies(federation: Live, expected: Path) -> None:
    for name, home in federation.homes.platforms.items():
        own = expected / "platforms" / name
        assert_same_states(home.runs / RUN, own)
        assert_same_states(home.runs / RUN / "server-copy", own / "server-copy")


def memory_of(pid: int) -> Iterator[bytes]:
    """Yield what a process may write to, piece by piece."""
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("rb") as memory:
        for line in maps:
            place, rights, *_ = line.split()
            if not rights.startswith("rw"):
                continue
            begin, end = (int(each, 16) for each in place.split("-"))
            memory.seek(begin)
            try:
                yield memory.read(end - begin)
            except OSError:
                continue


@contextmanager
def asleep(pids: list[int]) -> Iterator[None]:
    """Let processes sleep for a while."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def is_in_memory(pids: list[int], secret: bytes) -> bool:
    return any(secret in piece for pid in pids for piece in memory_of(pid))


@pytest.mark.slow
def test_the_bits_of_one_process_and_no_key_in_memory_or_files_of_the_server(
    tmp_path: Path,
) -> None:
    with quick_keys(), live(tmp_path, encrypted_settings(10)) as federation:
        path = federation.settings[WARD]  # takes part only where the server sees nothing
        path.write_text(path.read_text() + "\n[policy]\nencryption = true\n")
        federation.start()
        federation.wait_connected()
        federation.submit()
        federation.wait_round(2)
        key = federation.homes.platforms[WARD].runs / RUN / KEYS / KEY_FILE
        with asleep(federation.job_pids(WARD)):  # so that the run waits
            secret = key.read_bytes()[20_000:20_064]
            assert is_in_memory(federation.job_pids(WARD), secret), "a platform has it"
            server = [federation.processes[SERVER].pid, *federation.job_pids(SERVER)]
            assert len(server) >= 2
            assert not is_in_memory(server, secret)
            files = [each for each in federation.homes.server.path.rglob("*") if each.is_file()]
            assert any(each.name.startswith("sum-") for each in files)
            assert not any(secret in each.read_bytes() for each in files)
        (job,) = federation.wait_done()
        assert job.is_done
        assert not key.exists(), "gone after the last round"
        assert_same_copies(federation, reference(federation, tmp_path / "reference"))
        assert read_state(federation.homes.server.runs / RUN / "server", 10)[0] == {}
        for name, home in federation.homes.platforms.items():
            lines = [each for each in read_record(home.path / RECORD).lines if each.round == 2]
            told = [(each.verb, each.kind, bool(each.tensors)) for each in lines if each.code == ""]
            assert told[:4] == [
                ("sum", "SumMessage", False),
                ("sum", "SumMessage", False),
                ("round", "SumMessage", True),
                ("sum", "SumMessage", False),
            ], name


@pytest.mark.slow
def test_platforms_and_server_killed_in_each_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 of a job in phase k of round k + 1, then of the server: the run goes on."""
    names, box = (*NAMES, WARD), tmp_path / "box"
    for phase in range(1, 5):
        killed = box / names[phase % len(names)]
        killed.mkdir(parents=True, exist_ok=True)
        (killed / f"{phase + 1}-{phase}").touch()
    with quick_keys(), live(tmp_path, encrypted_settings(8)) as federation:
        federation.start(SERVER)
        for name in names:
            with monkeypatch.context() as patch:
                patch.setenv("KILL_BOX", str(box / name))
                path = f"{HOOKS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
                patch.setenv("PYTHONPATH", path)
                federation.start(name)
        federation.watch()
        federation.wait_connected()
        federation.submit()
        until(lambda: not list(box.glob("*/*")), 300, "a job was killed in each phase")
        federation.kill_job(SERVER)
        jobs = federation.wait_done(seconds=200)
        assert len(jobs) >= 5
        assert_same_copies(federation, reference(federation, tmp_path / "reference"))
