"""Platforms whose process dies in a real simulation: the run goes on, and they return."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
import torch
from killed_simulation import CHANGES
from safetensors.torch import load_file

from fedner.federated.checkpoints import read_state
from fedner.federated.engine import Engine
from fedner.federated.messages import Order, Reply
from fedner.federated.record import RoundRecord
from fedner.runs.coordinator import coordinate
from fedner.runs.folder import RunFolder
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import engine_for, open_sites, train_run
from fedner.settings import Settings

Make = Callable[..., Settings]
SCRIPT = Path(__file__).with_name("killed_simulation.py")
LOST = "forum-posts"


class Deadly:
    """An engine whose worker of one platform dies while it works on round 4."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self.platforms = inner.platforms

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        order = next(iter(orders.values()))
        if (order.verb, order.round) == ("round", 4):
            worker = next(
                each for each in multiprocessing.active_children() if each.name == f"fedner-{LOST}"
            )
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGSTOP)  # so that it cannot be quicker
            threading.Timer(0.2, worker.kill).start()
        yield from self.inner.ask(orders, timeout)

    def close(self) -> None:
        self.inner.close()


def test_a_platform_returns_with_the_private_part_that_it_stored(
    tiny: Make, tmp_path: Path
) -> None:
    settings = tiny("engine.workers=3", "participation.quorum=2", "training.evaluate_every=0")
    sites = open_sites(settings, tmp_path)
    study = sites[0].study
    private: dict[int, dict[str, torch.Tensor]] = {}

    def look(record: RoundRecord) -> None:
        if record.round % 2 == 0:  # stored just now
            private[record.round] = private_part(tmp_path / "platforms" / LOST, record.round)

    with closing(Deadly(engine_for(settings, sites, algorithm_for(study)))) as engine:
        done = coordinate(study, engine, tmp_path, on_round=look)
    gone = {
        each.round: [(m.platform, m.verb, m.code) for m in each.failures] for each in done.rounds
    }
    assert gone.pop(4) == [(LOST, "round", "worker-died")]
    assert not any(gone.values()), "it is back at once"
    assert set(done.rounds[3].losses) == set(study.names) - {LOST}
    assert set(done.rounds[4].losses) == set(study.names)
    assert is_same(private[2], private[4]), "of round 3 nothing was stored, round 4 was missed"
    assert not is_same(private[4], private[6])
    assert set(done.reports) == set(study.names)
    tagger = load_file(RunFolder(tmp_path).tagger(LOST) / "model.safetensors")
    assert is_same(private[6], {name: tagger[name] for name in private[6]})


def private_part(folder: Path, round_: int) -> dict[str, torch.Tensor]:
    tensors, _ = read_state(folder, round_)
    found = {key: tensor for key, tensor in tensors.items() if key.startswith("private/")}
    return {key.removeprefix("private/"): tensor for key, tensor in found.items()}


def is_same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    assert one
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def begin(folder: Path) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    command = [sys.executable, str(SCRIPT), str(folder)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def killed_in_round(folder: Path, rounds: int) -> list[int]:
    """Kill the coordinator's process alone after some rounds; return its orphans."""
    process = begin(folder)
    assert process.stdin is not None
    assert process.stdout is not None
    orphans: list[int] = []
    assert process.stdout.readline() == "begin\n"
    for _ in range(rounds):
        word, _, *workers = process.stdout.readline().split()
        assert word == "go"
        orphans = [int(each) for each in workers]
        print(file=process.stdin, flush=True)
    assert len(orphans) == 2
    for each in orphans:
        os.kill(each, signal.SIGSTOP)  # they are found alive, whatever they were doing
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return orphans


def released(orphans: list[int], how: signal.Signals) -> None:
    for each in orphans:
        try:
            os.kill(each, how)
        except ProcessLookupError:
            continue


@pytest.fixture(scope="module")
def whole(tiny: Make, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train_run(tiny(*CHANGES), folder)
    return RunFolder(folder).shared(6)


def test_a_successor_waits_for_orphans_and_ends_with_the_same_bits(
    tmp_path: Path, whole: dict[str, torch.Tensor]
) -> None:
    orphans = killed_in_round(tmp_path / "run", 2)
    try:
        successor = begin(tmp_path / "run")
        assert successor.stdout is not None
        assert successor.stdout.readline() == "begin\n"
        time.sleep(0.5)  # it has asked by now, and has to wait
    finally:
        released(orphans, signal.SIGCONT)  # within two seconds they see that they are alone
    out, error = successor.communicate(timeout=300)
    assert out.splitlines()[-1] == "done", error
    assert is_same(whole, RunFolder(tmp_path / "run").shared(6))


@pytest.mark.slow
def test_a_successor_of_orphans_that_never_end_fails_by_name(
    tmp_path: Path, whole: dict[str, torch.Tensor]
) -> None:
    orphans = killed_in_round(tmp_path / "run", 2)
    try:
        _, error = begin(tmp_path / "run").communicate(timeout=300)
        assert "another process still works in its folder" in error
        assert "case-reports" in error
    finally:
        released(orphans, signal.SIGKILL)
    out, error = begin(tmp_path / "run").communicate(timeout=300)
    assert out.splitlines()[-1] == "done", error
    assert is_same(whole, RunFolder(tmp_path / "run").shared(6))
