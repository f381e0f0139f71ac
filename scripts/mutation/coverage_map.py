"""Which tests run which lines, and how long they take: so that a mutant meets only those.

Kept by test file. A file is traced anew where it, a module that tests share, or any source changed.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scripts.mutation.child import trace
from scripts.mutation.forks import Job, run_jobs
from scripts.mutation.mutants import Mutant

MOST_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class Trace:
    """What one test runs.

    Attributes:
        seconds: How long it takes.
        lines: The lines that it runs, by file.
    """

    seconds: float
    lines: dict[str, frozenset[int]]

    def sees(self, mutant: Mutant) -> bool:
        """Whether the test runs a mutant's statement, or anything of its file for an import."""
        lines = self.lines.get(mutant.path)
        if not lines:
            return False
        first, last = mutant.lines
        return mutant.is_imported or any(line in lines for line in range(first, last + 1))


def digest(root: Path, files: Iterable[Path]) -> str:
    """Return a hash over the names and texts of files."""
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()


def traced(
    copies: list[Path],
    cache: Path,
    rooms: Sequence[str],
    tests: Sequence[str],
    say: Callable[[str], None],
) -> dict[str, Trace]:
    """Return what every test that passes runs, tracing those files whose record is out of date.

    Args:
        copies: Copies of the repository to trace in.
        cache: Where the records lie.
        rooms: Folders and files of src/fedner whose lines are traced.
        tests: Folders and files of tests, relative to the repository.
        say: Is told of each file that was traced.
    """
    cache.mkdir(parents=True, exist_ok=True)
    root = copies[0]
    sources = digest(root, (root / "src").rglob("*.py"))
    records = {}
    for path in sorted({each for name in tests for each in _test_files(root / name)}):
        own = digest(root, [path, *_beside(path, root / "tests")])
        key = hashlib.sha256(f"{sources}{own}{list(rooms)}".encode()).hexdigest()
        records[str(path.relative_to(root))] = cache / f"{path.stem}-{key[:16]}.json"
    stale = [name for name, record in records.items() if not record.is_file()]
    jobs = [
        Job(name, partial(trace, file=name, rooms=rooms, report=records[name]), MOST_SECONDS)
        for name in stale
    ]
    for number, done in enumerate(run_jobs(jobs, copies), start=1):
        record = records[done.job.name]
        if done.code != 0 or not record.is_file():
            output = (done.root / "output.txt").read_text(errors="replace")[-2000:]
            raise SystemExit(f"{done.job.name} cannot be traced:\n{output}")
        held = len(json.loads(record.read_text()))
        say(f"traced {number}/{len(stale)}: {done.job.name}, {held} tests, {done.seconds:.0f} s")
    return {test: each for record in records.values() for test, each in _read(record).items()}


def _test_files(place: Path) -> Iterable[Path]:
    return [place] if place.is_file() else place.rglob("test_*.py")


def _beside(test: Path, top: Path) -> Iterator[Path]:
    """Yield the modules that a test file may share: those of its folder and of the ones above."""
    folders = [folder for folder in test.parents if folder.is_relative_to(top)]
    for path in (path for folder in folders for path in folder.glob("*.py")):
        if not path.name.startswith("test_"):
            yield path


def _read(record: Path) -> dict[str, Trace]:
    held = json.loads(record.read_text())
    return {
        test: Trace(
            each["seconds"], {file: frozenset(lines) for file, lines in each["lines"].items()}
        )
        for test, each in held.items()
    }


def chosen(mutant: Mutant, traces: dict[str, Trace], seconds: float) -> dict[str, float]:
    """Return the tests that a mutant meets, the quickest first, up to a sum of their times.

    Args:
        mutant: The mutant.
        traces: What every test runs.
        seconds: How long they may take together; the quickest test is always among them.
    """
    found: dict[str, float] = {}
    total = 0.0
    seeing = [(each.seconds, test) for test, each in traces.items() if each.sees(mutant)]
    for taken, test in sorted(seeing):
        total += taken
        if found and total > seconds:
            break
        found[test] = taken
    return found
