"""Crashes: torn lines at every byte, and a process killed at random moments, never under-count."""

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.privacy.budget import Budget
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger

pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")

BUDGET = Budget(1e5, 1e-5, "patient", accountant="rdp")
STEP = GaussianRelease(2.0, 0.1, "patient", 1.0, 500)

# A process that has loaded everything and forks a platform for each request on standard input. The
# platform charges, works and answers, one update after the other, and tells the world (a pipe) when
# it touches data ("work") and of each update that left. It is
# killed after a delay, or kills itself at its n-th call that writes to the ledger's files.
DRIVER = """
import json, os, signal, sys, time
from pathlib import Path
from fedner.privacy.budget import Budget
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger
from fedner.privacy.budget import BudgetGate

step = GaussianRelease(2.0, 0.1, "patient", 1.0, 500)
budget = Budget(1e5, 1e-5, "patient", accountant="rdp")
BudgetGate(budget).require(step)  # loads the accountant

def die_at(call, folder):
    calls = 0
    changes = ("os.rename", "os.remove", "os.truncate", "os.mkdir", "os.chmod")
    def watch(event, arguments):
        nonlocal calls
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_WRONLY
        if (opens or event in changes) and folder in str(arguments[0]):
            calls += 1
            if calls == call:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)

def platform(request, world):
    if "call" in request:
        die_at(request["call"], request["folder"])
    with Ledger.open(Path(request["folder"]), budget) as ledger:
        number = first = len(ledger.releases)
        if number and ledger.releases[-1].answer is None:
            number = first = number - 1  # asked again for what was charged and never answered
        while "call" not in request or number < first + 2:
            payload = b"update %d of %s" % (number, request["name"].encode())
            ledger.charge("run", number, "b", step)
            os.write(world, b"work\\n")
            released = ledger.answer("run", number, "b", payload, kept=b"kept %d" % number)
            os.write(world, json.dumps([number, released.payload.decode()]).encode() + b"\\n")
            number += 1

for line in sys.stdin:
    request = json.loads(line)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        platform(request, writing)
        os._exit(0)
    os.close(writing)
    if "delay" in request:
        time.sleep(request["delay"])
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading) as world:
        said = [one for one in world if one.endswith("\\n")]
    works = said.count("work\\n")
    left = [json.loads(one) for one in said if one != "work\\n"]
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps({"left": left, "works": works, "code": code}), flush=True)
"""


class Driver:
    """Runs platforms that die."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, folder: Path, name: str, **death: float
    ) -> tuple[list[tuple[int, bytes]], int, int]:
        """Return what left the platform before it died, how often it worked, its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(
            json.dumps({"folder": str(folder), "name": name, **death}),
            file=self.process.stdin,
            flush=True,
        )
        reply = json.loads(self.process.stdout.readline())
        left = [(number, payload.encode()) for number, payload in reply["left"]]
        return left, reply["works"], reply["code"]

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    started = Driver()
    yield started
    started.close()


@pytest.mark.parametrize("kind", ["charge", "answer"])
def test_a_line_torn_at_any_byte_is_dropped_because_nothing_followed_from_it(
    tmp_path: Path, kind: str
) -> None:
    """The crash before the witness moved on: it stands at the line before."""
    folder = tmp_path / "ledger"
    witness = tmp_path / "ledger.witness"
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.record("run", 0, "b", STEP, b"zero")
        if kind == "answer":
            ledger.charge("run", 1, "b", STEP)
        mark = ledger.mark
        seen = witness.read_bytes()
        whole = (folder / "ledger.jsonl").read_bytes()
        if kind == "charge":
            ledger.charge("run", 1, "b", STEP)
        else:
            ledger.answer("run", 1, "b", b"one")
        longer = (folder / "ledger.jsonl").read_bytes()
    for size in range(len(whole), len(longer) - 1, 19):
        (folder / "ledger.jsonl").write_bytes(longer[:size])
        witness.write_bytes(seen)
        with Ledger.open(folder, BUDGET) as ledger:
            assert ledger.mark == mark
            assert ledger.spent().steps == (1 if kind == "charge" else 2)
            assert ledger.stored("run", 1, "b") is None
    for data in (longer, longer[:-1]):  # all of it arrived: it is counted, whether or not it left
        (folder / "ledger.jsonl").write_bytes(data)
        witness.write_bytes(seen)
        with Ledger.open(folder, BUDGET) as ledger:
            assert ledger.spent().steps == 2
        assert (folder / "ledger.jsonl").read_bytes() == longer


@pytest.mark.parametrize("garbage", [b"\0" * 100, b"\0\n", b"{", b"\xff\xfe\n\n"])
def test_garbage_at_the_end_is_dropped_only_with_proof(tmp_path: Path, garbage: bytes) -> None:
    folder = tmp_path / "ledger"
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.record("run", 0, "b", STEP, b"zero")
        older = (tmp_path / "ledger.witness").read_bytes()
        ledger.record("run", 1, "b", STEP, b"one")
    lines = (folder / "ledger.jsonl").read_bytes()
    (folder / "ledger.jsonl").write_bytes(lines + garbage)
    newest = (tmp_path / "ledger.witness").read_bytes()
    (tmp_path / "ledger.witness").write_bytes(older)
    with pytest.raises(FednerError, match="damaged line"):
        Ledger.open(folder, BUDGET)
    (tmp_path / "ledger.witness").write_bytes(newest)
    with Ledger.open(folder, BUDGET) as ledger:
        assert ledger.spent().steps == 2
    assert (folder / "ledger.jsonl").read_bytes() == lines


def test_the_first_opening_may_be_cut_short(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    with Ledger.open(folder, BUDGET):
        pass
    lines = (folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "ledger.jsonl").write_bytes(lines[0])
    (tmp_path / "ledger.witness").unlink()
    with Ledger.open(folder, BUDGET) as ledger:
        ledger.record("run", 0, "b", STEP, b"zero")


def check_nothing_is_forgotten(
    folder: Path, left: list[tuple[int, bytes]], works: int, deaths: int
) -> None:
    with Ledger.open(folder, BUDGET) as ledger:
        count = len(ledger.releases)
        assert ledger.spent().steps == count
        assert [line.round for line in ledger.releases] == list(range(count))
        waiting = [line.answer is None for line in ledger.releases]
        assert not any(waiting[:-1]), "each charge was answered before the next request came"
        # Work that was killed is done again under its charge: never more releases than works.
        assert count - 1 <= works
        for number, payload in left:
            stored = ledger.stored("run", number, "b")
            assert stored is not None, f"round {number} left and was forgotten"
            assert (stored.payload, stored.kept) == (payload, b"kept %d" % number)
        # A platform that dies while it works or writes counts that release without sending it.
        assert count <= len(left) + deaths


def kill_often(driver: Driver, folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    left: list[tuple[int, bytes]] = []
    works = 0
    for kill in range(kills):
        more, worked, _ = driver.run(folder, f"life {kill}", delay=chance.uniform(0.001, 0.15))
        left, works = left + more, works + worked
        check_nothing_is_forgotten(folder, left, works, deaths=kill + 1)
    assert len({number for number, _ in left}) == len(left) > 0  # no round was released twice


def test_killed_at_random_moments(driver: Driver, tmp_path: Path) -> None:
    kill_often(driver, tmp_path / "ledger", kills=25, seed=1)


@pytest.mark.slow
def test_killed_at_many_random_moments(driver: Driver, tmp_path: Path) -> None:
    for seed in range(10):
        kill_often(driver, tmp_path / f"ledger{seed}", kills=100, seed=seed)


@pytest.mark.parametrize("is_new", [True, False])
def test_killed_between_any_two_write_steps(driver: Driver, tmp_path: Path, is_new: bool) -> None:
    """Not by chance but one by one: the platform dies at its n-th writing call, for every n."""
    for call in range(1, 100):
        folder = tmp_path / str(call) / "ledger"
        folder.parent.mkdir()
        left: list[tuple[int, bytes]] = []
        works = 0
        if not is_new:
            with Ledger.open(folder, BUDGET) as ledger:
                ledger.record("run", 0, "b", STEP, b"before", kept=b"kept 0")
            left, works = [(0, b"before")], 1
        more, worked, code = driver.run(folder, "dying", call=call)
        left += more
        check_nothing_is_forgotten(folder, left, works + worked, deaths=1)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert code == 0, "there are more writing calls than were tried"
    assert call > 10
