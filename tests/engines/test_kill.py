"""Kill -9 at random moments, resume, and get the bits of a run that nobody touched."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killed_run import ROUNDS

SCRIPT = Path(__file__).with_name("killed_run.py")
KILLS, GRANTED = 3, 6  # fewer rounds than the run has, all lives together


def begin(folder: Path, kind: str, encoding: str = "float32") -> "subprocess.Popen[str]":
    command = [sys.executable, str(SCRIPT), str(folder), kind, encoding]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    """Let a run go on to its end; return its last line."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.splitlines()[-1]


def kill_within(process: "subprocess.Popen[str]", rounds: int, chance: random.Random) -> None:
    """Grant a run some rounds and kill it at some moment of the last."""
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(rounds):
        assert process.stdout.readline().startswith("go")
        print(file=process.stdin, flush=True)
    # A moment of the next round, or just after it: the run waits there, it cannot end.
    time.sleep(chance.uniform(0.0, 0.02))
    process.kill()
    process.communicate()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run comes to that nobody touches."""
    said = finish(begin(tmp_path_factory.mktemp("whole") / "run", "serial"))
    assert said.startswith("done")
    return said


@pytest.mark.parametrize("kind", ["serial", pytest.param("workers", marks=pytest.mark.slow)])
def test_a_run_killed_at_random_moments_ends_with_the_same_bits(
    kind: str, expected: str, tmp_path: Path
) -> None:
    chance = random.Random(kind)
    assert KILLS * (GRANTED + 1) < ROUNDS, "no life can reach the end of the run"
    for _ in range(KILLS):
        kill_within(begin(tmp_path / "killed", kind), chance.randint(1, GRANTED), chance)
    assert finish(begin(tmp_path / "killed", kind)) == expected


def test_what_encoding_left_over_survives_a_kill(tmp_path: Path, expected: str) -> None:
    whole = finish(begin(tmp_path / "whole", "serial", "bfloat16"))
    kill_within(begin(tmp_path / "killed", "serial", "bfloat16"), 3, random.Random(5))
    assert finish(begin(tmp_path / "killed", "serial", "bfloat16")) == whole
    assert whole != expected, "the encoding was in force"


@pytest.mark.slow
def test_a_kill_before_the_first_checkpoint_begins_anew(expected: str, tmp_path: Path) -> None:
    process = begin(tmp_path / "killed", "serial")
    while not (tmp_path / "killed").exists() and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    process.communicate()
    assert finish(begin(tmp_path / "killed", "serial")) == expected
