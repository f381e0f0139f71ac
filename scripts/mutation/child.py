"""What a forked process does: run some tests of a copy of the repository, and say what came of it.

The parent has imported torch and the like already, and nothing of fedner: each fork imports fedner
from its own copy, where one file may be mutated.
"""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

# More than any test needs; a mutant that asks for more is stopped before the machine is.
MEMORY_BYTES = 12 * 2**30
# A test that runs this many times as long as it should hangs.
PATIENCE = 10
LEAST_SECONDS = 15
TIMED_OUT = 124
# The parent has imported plugins before pytest could rewrite them.
OPTIONS = (
    "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip


def enter(root: Path) -> None:
    """Make this process one of a copy of the repository."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(root)
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(root / "src")]
    os.environ["PYTHONPATH"] = str(root / "src")
    # The sources' bytecode is there, checked by hash, so that a mutated file is read anew.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    with (root / "output.txt").open("w") as sink:
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
    _calm_hypothesis()


def _calm_hypothesis() -> None:
    """Let Hypothesis draw the same examples each time, and never shrink: a failure is enough."""
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutation",
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("mutation")


def pytest_run(root: Path, files: list[str], plugin: object) -> int:
    """Run test files of the copy with a plugin of ours; return pytest's exit code."""
    options = ["-m", "not slow", f"--basetemp={root / 'scratch'}"]
    return int(pytest.main([*OPTIONS, *options, *files], [plugin]))


class Chosen:
    """Runs the chosen tests in the order given, ends at the first failure, notices hanging ones."""

    def __init__(self, seconds: Mapping[str, float], tell: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._tell = tell
        self._now = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: Any, items: list[pytest.Item]) -> None:
        """Keep the chosen tests, in the order given."""
        session.shouldfail = False
        order = {name: place for place, name in enumerate(self._seconds)}
        items[:] = sorted(
            (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """End the process if a test hangs."""
        self._now = item.nodeid
        allowed = max(LEAST_SECONDS, PATIENCE * self._seconds[item.nodeid])
        # The processor's time: on a busy machine a test may well take long.
        signal.signal(signal.SIGPROF, self._hangs)
        signal.setitimer(signal.ITIMER_PROF, allowed)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name the test that fails."""
        if report.failed:
            self._tell(report.nodeid)
            os._exit(1)

    def _hangs(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        self._tell(self._now)
        os._exit(TIMED_OUT)


class Traced:
    """Notes which lines each test runs, and how long it takes.

    What a fixture of a module or the session runs counts for every test that uses it.
    """

    def __init__(self, rooms: list[str]) -> None:
        import coverage

        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=rooms)
        self._context = ["outside"]
        self.seconds: dict[str, float] = {}
        self.passed: dict[str, bool] = {}
        self.fixtures: dict[str, list[str]] = {}

    def start(self) -> None:
        """Begin to trace; before fedner is imported."""
        self._coverage.start()

    def _within(self, context: str) -> None:
        self._context.append(context)
        self._coverage.switch_context(context)

    def _out(self) -> None:
        self._context.pop()
        self._coverage.switch_context(self._context[-1])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace a test under its own name."""
        held = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - pytest's own record
        self.fixtures[item.nodeid] = [_fixture_context(each[-1]) for each in held.values()]
        self._within(item.nodeid)
        started = time.monotonic()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.monotonic() - started
            self._out()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Trace a fixture that several tests share under a name of its own."""
        if fixturedef.scope == "function":
            return (yield)
        self._within(_fixture_context(fixturedef))
        try:
            return (yield)
        finally:
            self._out()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which tests passed: others prove nothing."""
        if report.when == "call" or not report.passed:
            before = self.passed.get(report.nodeid, True)
            self.passed[report.nodeid] = before and report.passed

    def lines(self, root: Path) -> dict[str, dict[str, list[int]]]:
        """Return for each test the lines that it runs, by file."""
        self._coverage.stop()
        data = self._coverage.get_data()
        by_context: dict[str, dict[str, set[int]]] = {}
        for file in data.measured_files():
            name = str(Path(file).relative_to(root))
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in contexts:
                    by_context.setdefault(context, {}).setdefault(name, set()).add(line)
        found = {}
        for test, fixtures in self.fixtures.items():
            merged: dict[str, set[int]] = {}
            for context in (test, *fixtures):
                for name, lines in by_context.get(context, {}).items():
                    merged.setdefault(name, set()).update(lines)
            found[test] = {name: sorted(lines) for name, lines in merged.items()}
        return found


def _fixture_context(fixturedef: Any) -> str:
    return f"fixture {fixturedef.baseid} {fixturedef.argname}"


def collect(root: Path, tests: Sequence[str]) -> int:
    """Collect tests once, so that their bytecode is there for whoever runs them later."""
    enter(root)
    sys.dont_write_bytecode = False
    return int(pytest.main([*OPTIONS, "--collect-only", *tests]))


def trace(root: Path, file: str, rooms: Sequence[str], report: Path) -> int:
    """Run a test file and write which lines each of its tests runs."""
    enter(root)
    places = (root / "src/fedner" / room for room in rooms)
    traced = Traced([str(each if each.is_file() else each / "*") for each in places])
    traced.start()
    pytest_run(root, [file], traced)
    lines = traced.lines(root)
    tests = {
        test: {"seconds": round(traced.seconds[test], 3), "lines": lines[test]}
        for test in traced.seconds
        if traced.passed.get(test)
    }
    report.write_text(json.dumps(tests))
    return 0


def judge(root: Path, seconds: Mapping[str, float], report: Path) -> int:
    """Run chosen tests; exit code 0 if all pass. The one that fails is named in the report."""
    enter(root)
    files = list(dict.fromkeys(test.split("::")[0] for test in seconds))
    return pytest_run(root, files, Chosen(seconds, report.write_text))
