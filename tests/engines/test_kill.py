"""Kill -9 at random moments, resume, and get the bits of a run that nobody touched."""

import random
import time
from pathlib import Path

import pytest
from killed_run import ROUNDS, main

from lives import Life

KILLS, GRANTED = 3, 6  # fewer rounds than the run has, all lives together


def begin(folder: Path, kind: str, encoding: str = "float32") -> Life:
    return Life(main, folder, kind, encoding)


def kill_within(life: Life, rounds: int, chance: random.Random) -> None:
    """Grant a run some rounds and kill it at some moment of the next one, or just after it."""
    life.grant(rounds)
    time.sleep(chance.uniform(0.0, 0.02))
    life.kill()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run comes to that nobody touches."""
    said = begin(tmp_path_factory.mktemp("whole") / "run", "serial").finish()
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
    assert begin(tmp_path / "killed", kind).finish() == expected


def test_what_encoding_left_over_survives_a_kill(tmp_path: Path, expected: str) -> None:
    whole = begin(tmp_path / "whole", "serial", "bfloat16").finish()
    kill_within(begin(tmp_path / "killed", "serial", "bfloat16"), 3, random.Random(5))
    assert begin(tmp_path / "killed", "serial", "bfloat16").finish() == whole
    assert whole != expected, "the encoding was in force"


@pytest.mark.slow
def test_a_kill_before_the_first_checkpoint_begins_anew(expected: str, tmp_path: Path) -> None:
    life = begin(tmp_path / "killed", "serial")
    while not (tmp_path / "killed").exists() and life.process.is_alive():
        time.sleep(0.001)
    life.kill()
    assert begin(tmp_path / "killed", "serial").finish() == expected
