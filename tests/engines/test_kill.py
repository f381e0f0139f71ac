"""Kill -9 at random moments, resume, and get the bits of a run that nobody touched."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_run.py")
KILLS, MOST_STARTS = 3, 20


def begin(folder: Path, kind: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(SCRIPT), str(folder), kind]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.splitlines()[-1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """What a run comes to that nobody touches, and how many seconds its rounds take here."""
    process = begin(tmp_path_factory.mktemp("whole") / "run", "serial")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("go")
    began = time.perf_counter()
    said = finish(process)
    assert said.startswith("done")
    return said, time.perf_counter() - began


@pytest.fixture(scope="module")
def expected(whole: tuple[str, float]) -> str:
    """What a run comes to that nobody touches."""
    return whole[0]


@pytest.mark.parametrize("kind", ["serial", pytest.param("workers", marks=pytest.mark.slow)])
def test_a_run_killed_at_random_moments_ends_with_the_same_bits(
    kind: str, whole: tuple[str, float], tmp_path: Path
) -> None:
    expected, seconds = whole
    rng = random.Random(kind)
    # All kills together fall within the first half of the run, however fast the machine is.
    longest = seconds / (2 * KILLS)
    kills = 0
    for _ in range(MOST_STARTS):
        process = begin(tmp_path / "killed", kind)
        assert process.stdout is not None
        line = process.stdout.readline()
        if kills < KILLS and line.startswith("go"):
            time.sleep(rng.uniform(0.0, longest))
            process.kill()
            out, _ = process.communicate()
            kills += "done" not in out
            continue
        out = finish(process) if line.startswith("go") else line.strip()
        assert out == expected
        break
    assert kills == KILLS


@pytest.mark.slow
def test_a_kill_before_the_first_checkpoint_begins_anew(expected: str, tmp_path: Path) -> None:
    process = begin(tmp_path / "killed", "serial")
    while not (tmp_path / "killed").exists() and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    process.communicate()
    assert finish(begin(tmp_path / "killed", "serial")) == expected
