"""Reading token columns: speed on one core for both layouts, and the memory of inspecting 1 GB.

Run it alone with `python -m benchmarks.reading [--megabytes N] [--gigabytes G]`.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks._memory import in_fresh_process, peak_megabytes
from fedner.corpus.inspection import inspect
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import READERS, ReadOptions

Row = tuple[str, float, str]

MEGABYTES = 50
GIGABYTES = 1.0
LABELS = ("ADE", "Disease", "Drug")


def _two_columns(word: str, tag: str) -> str:
    return f"{word}\t{tag}"


def _four_columns(word: str, tag: str) -> str:
    return f"{word} NNP I-NP {tag}"


LAYOUTS: dict[str, Callable[[str, str], str]] = {
    "two columns": _two_columns,
    "four columns": _four_columns,
}


def sentences(layout: Callable[[str, str], str], seed: int) -> Iterator[str]:
    """Yield synthetic sentences for ever: short words, one token in twelve within an entity."""
    rng = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(20_000)]
    while True:
        rows: list[str] = []
        for _ in range(rng.randint(2, 10)):
            rows += [layout(rng.choice(words), "O") for _ in range(rng.randint(1, 6))]
            if rng.random() < 0.25:
                label = rng.choice(LABELS)
                rows.append(layout(rng.choice(words), f"B-{label}"))
                rows += [layout(rng.choice(words), f"I-{label}")] * rng.choice((0, 0, 1))
        yield "\n".join(rows) + "\n\n"


def write_file(path: Path, layout: Callable[[str, str], str], num_bytes: int) -> None:
    """Write a column file of about `num_bytes`: two megabytes of sentences, over and over."""
    parts, size = [], 0
    for text in sentences(layout, seed=7):
        parts.append(text)
        size += len(text)
        if size >= min(2_000_000, num_bytes):
            break
    block = "".join(parts).encode()
    with path.open("wb") as file:
        for _ in range(max(1, round(num_bytes / len(block)))):
            file.write(block)


def read_through(path: Path) -> int:
    """Stream a column file into documents with spans and drop them; return how many there were."""
    log = ProblemLog()
    count = sum(1 for _ in READERS["columns"].stream(path, log, ReadOptions()))
    if log.total:
        raise RuntimeError(f"the benchmark's own file has problems: {log.problems[0]}")
    return count


def speed(name: str, folder: Path, megabytes: float) -> Row:
    """Measure one layout in megabytes a second of processor time."""
    path = folder / f"{name.replace(' ', '-')}.txt"
    write_file(path, LAYOUTS[name], int(megabytes * 1e6))
    began = time.process_time()
    read_through(path)
    seconds = time.process_time() - began
    return f"reading {name}", path.stat().st_size / 1e6 / seconds, "MB/s"


def peak_memory(folder: Path, gigabytes: float) -> Row:
    """Measure the peak resident memory of a process that inspects a file of `gigabytes`."""
    path = folder / "large.txt"
    write_file(path, _two_columns, int(gigabytes * 1e9))
    peak = in_fresh_process("benchmarks.reading", "--inspect", str(path))
    path.unlink()
    return f"peak memory of inspecting {gigabytes:g} GB", peak, "MB"


def run(megabytes: float = MEGABYTES, gigabytes: float = GIGABYTES) -> list[Row]:
    """Measure both layouts, and the memory of a large file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [speed(layout, folder, megabytes) for layout in LAYOUTS]
        return [*rows, peak_memory(folder, gigabytes)]


def main() -> list[Row]:
    """Return (name, value, unit) of every measurement at full size."""
    return run()


def _command_line() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=MEGABYTES)
    parser.add_argument("--gigabytes", type=float, default=GIGABYTES)
    parser.add_argument("--inspect", type=Path, help="only inspect this file, print peak memory")
    arguments = parser.parse_args()
    if arguments.inspect:
        inspect(arguments.inspect)
        print(peak_megabytes())
        return
    for name, value, unit in run(arguments.megabytes, arguments.gigabytes):
        print(f"{name:36} {value:10,.1f} {unit}")


if __name__ == "__main__":
    _command_line()
