"""Draw mutants by a seed, run the tests that see them, list the survivors.

`make mutation`, or `python -m scripts.mutation --help`. The result goes to `.mutation/`; a run that
was stopped goes on where it was. Exit code 1 where fewer are killed than asked for.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from scripts.mutation.child import TIMED_OUT, collect, judge
from scripts.mutation.coverage_map import MOST_SECONDS, Trace, chosen, digest, traced
from scripts.mutation.forks import Done, Job, copies, run_jobs, warm_up
from scripts.mutation.mutants import Mutant, all_mutants, drawn, mutated_source

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("privacy", "federated", "scoring", "models/layers", "models/per_unit")
# A fork is ended after so many seconds (`--wait`) and this many times what its tests take: then
# something waits for what never comes. Generous, because the machine may be busy.
WAIT_SECONDS = 300
PATIENCE = 10


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        name: The mutant.
        outcome: killed, hung (killed too), survived, unseen (no test runs its line), or unsure:
            the test that failed also fails without it.
        by: The test that failed.
        path: Its file.
        line: Its line.
        before: The code that was changed.
        after: What it became.
        tests: How many tests it met at most.
        seconds: How long that took.
        key: A hash of all sources with the change.
        tests_key: A hash of all tests.
    """

    name: str
    outcome: str
    by: str
    path: str
    line: int
    before: str
    after: str
    tests: int
    seconds: float
    key: str
    tests_key: str

    @property
    def is_killed(self) -> bool:
        """Whether a test noticed."""
        return self.outcome in ("killed", "hung")


def main(arguments: list[str]) -> int:
    # Before torch is imported (`warm_up`): a process that has threads must not fork.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends the forks too
    options = _options(arguments)
    console = Console()
    mutants = all_mutants(ROOT, options.rooms)
    if options.only:
        picked = [mutant for mutant in mutants if mutant.name in options.only]
    else:
        picked = drawn(mutants, options.draw, options.seed)
    console.print(f"{len(mutants):,} mutants of {', '.join(options.rooms)}; {len(picked)} drawn")
    if options.list:
        for mutant in picked:
            console.print(
                _shown(mutant.name, mutant.path, mutant.lines[0]), markup=False, soft_wrap=True
            )
            console.print(_changed(mutant.before, mutant.after), markup=False, soft_wrap=True)
        return 0
    store = ROOT / ".mutation" / f"seed-{options.seed}.jsonl"
    verdicts = _judged(picked, store, options, console)
    _summary(verdicts, console)
    killed = sum(each.is_killed for each in verdicts)
    return 0 if killed >= options.least * len(verdicts) else 1


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="draws the mutants")
    parser.add_argument("--draw", type=int, default=300, help="how many are drawn")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=60, help="of tests for each mutant")
    parser.add_argument(
        "--rooms", nargs="+", default=ROOMS, metavar="ROOM",
        help="folders or files of src/fedner whose lines are broken",
    )  # fmt: skip
    parser.add_argument(
        "--tests", nargs="+", default=("tests",), metavar="PATH",
        help="files or folders of tests that may notice; all by default",
    )  # fmt: skip
    parser.add_argument(
        "--wait", type=float, default=WAIT_SECONDS, help="seconds for a mutant that only waits"
    )
    parser.add_argument("--least", type=float, default=0.9, help="the share that must be killed")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these mutants alone")
    parser.add_argument("--list", action="store_true", help="list the draw, run nothing")
    return parser.parse_args(arguments)


def _judged(
    picked: list[Mutant], store: Path, options: argparse.Namespace, console: Console
) -> list[Verdict]:
    """Return what became of every mutant, from the store where it still holds."""
    sources = {mutant.path: (ROOT / mutant.path).read_text() for mutant in picked}
    texts = {each.name: mutated_source(each, sources[each.path]) for each in picked}
    keys = _keys(picked, texts)
    tests_key = digest(ROOT, (ROOT / "tests").rglob("*.py")) + " ".join(options.tests)
    held = {
        name: verdict
        for name, verdict in _stored(store).items()
        if verdict.key == keys.get(name) and (verdict.is_killed or verdict.tests_key == tests_key)
    }
    left = [mutant for mutant in picked if mutant.name not in held]
    console.print(f"{len(held)} are known from before; {len(left)} to run")
    if not left:
        return list(held.values())
    warm_up()
    with TemporaryDirectory(
        prefix="copies-", dir=store.parent, ignore_cleanup_errors=True
    ) as place:
        roots = copies(ROOT, Path(place), min(options.workers, len(left)))
        traces = traced(roots, store.parent / "traces", options.rooms, options.tests, console.print)
        gather = partial(collect, tests=options.tests)
        list(run_jobs([Job("collect", gather, MOST_SECONDS) for _ in roots], roots))
        found = []
        for done, mutant, num_tests in _run(left, texts, traces, roots, options, console):
            found.append(_verdict(done, mutant, num_tests, keys[mutant.name], tests_key))
            _store(store, found[-1])
        unsteady = _unsteady({each.by for each in found if each.by in traces}, traces, roots)
    for number, each in enumerate(found):
        if each.by in unsteady:
            found[number] = replace(each, outcome="unsure")
            _store(store, found[number])
    return [*held.values(), *found]


def _unsteady(tests: set[str], traces: dict[str, Trace], roots: list[Path]) -> set[str]:
    """Return those of the tests that fail without any mutant: what they killed may live."""
    found: set[str] = set()
    while tests - found:
        own = {test: traces[test].seconds for test in sorted(tests - found)}
        limit = WAIT_SECONDS + PATIENCE * sum(own.values())
        [done] = run_jobs([Job("no mutant", partial(_judge, seconds=own), limit)], roots[:1])
        if done.code == 0:
            break
        named = _failed(done)
        found |= {named} if named in own else set(own)
    return found


def _run(
    left: list[Mutant],
    texts: dict[str, str],
    traces: dict[str, Trace],
    roots: list[Path],
    options: argparse.Namespace,
    console: Console,
) -> Iterator[tuple[Done | None, Mutant, int]]:
    jobs, mutants = [], {each.name: each for each in left}
    tests = {each.name: chosen(each, traces, options.seconds) for each in left}
    for mutant in left:
        own = tests[mutant.name]
        if not own:
            yield None, mutant, 0
            continue
        limit = options.wait + PATIENCE * sum(own.values())
        work = partial(_judge, seconds=own)
        jobs.append(Job(mutant.name, work, limit, ((mutant.path, texts[mutant.name]),)))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    # Refreshed by hand: a thread of rich's own would stand in the way of forks.
    with Progress(*columns, TimeRemainingColumn(), console=console, auto_refresh=False) as progress:
        task = progress.add_task("mutants", total=len(jobs))
        for done in run_jobs(jobs, roots):
            yield done, mutants[done.job.name], len(tests[done.job.name])
            progress.advance(task)
            progress.refresh()


def _judge(root: Path, seconds: dict[str, float]) -> int:
    report = root / "failed.txt"
    report.unlink(missing_ok=True)
    return judge(root, seconds, report)


def _verdict(
    done: Done | None, mutant: Mutant, num_tests: int, key: str, tests_key: str
) -> Verdict:
    outcome, by = "unseen", ""
    if done is not None:
        by = _failed(done)
        outcome = {0: "survived", None: "hung", TIMED_OUT: "hung"}.get(done.code, "killed")
        if outcome == "killed" and not by:
            by = f"exit code {done.code}: the tests cannot be collected, or the process died"
    return Verdict(
        mutant.name, outcome, by, mutant.path, mutant.lines[0], mutant.before, mutant.after,
        num_tests, round(done.seconds, 2) if done else 0.0, key, tests_key,
    )  # fmt: skip


def _failed(done: Done) -> str:
    """Return the test that failed, as far as it was named."""
    report = done.root / "failed.txt"
    return report.read_text() if report.is_file() else ""


def _keys(picked: list[Mutant], texts: dict[str, str]) -> dict[str, str]:
    whole = digest(ROOT, (ROOT / "src").rglob("*.py"))
    return {
        each.name: hashlib.sha256((whole + texts[each.name]).encode()).hexdigest()
        for each in picked
    }


def _store(store: Path, verdict: Verdict) -> None:
    with store.open("a") as file:
        file.write(json.dumps(asdict(verdict)) + "\n")


def _stored(store: Path) -> dict[str, Verdict]:
    store.parent.mkdir(exist_ok=True)
    if not store.is_file():
        return {}
    lines = store.read_text().splitlines()
    found = [Verdict(**json.loads(line)) for line in lines if line.endswith("}")]
    return {verdict.name: verdict for verdict in found}


def _summary(verdicts: list[Verdict], console: Console) -> None:
    counts = Counter(each.outcome for each in verdicts)
    for each in sorted(verdicts, key=lambda each: each.name):
        if not each.is_killed:
            where = _shown(each.name, each.path, each.line)
            console.print(
                f"{each.outcome} {where} ({each.tests} tests)", markup=False, soft_wrap=True
            )
            console.print(_changed(each.before, each.after), markup=False, soft_wrap=True)
    killed = sum(each.is_killed for each in verdicts)
    shares = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    seconds = sum(each.seconds for each in verdicts) / max(1, len(verdicts))
    console.print(f"{shares}; {seconds:.1f} s each on average", markup=False, soft_wrap=True)
    console.print(f"killed: {killed} of {len(verdicts)} ({killed / max(1, len(verdicts)):.1%})")


def _shown(name: str, path: str, line: int) -> str:
    return f"{name}  {path}:{line}"


def _changed(before: str, after: str) -> str:
    return "".join(
        f"    {sign} {line}\n"
        for sign, text in (("-", before), ("+", after))
        for line in text.splitlines()
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
