"""Copies of the repository, and processes forked from one that has the heavy libraries already."""

import importlib
import os
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from compileall import compile_dir
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode

# Imported once, before any fork. Never fedner itself: every fork imports its own.
HEAVY = (
    "numpy", "torch", "torch.nn.utils.rnn", "torch._dynamo", "torch.func", "pydantic", "hypothesis",
    "hypothesis.extra.numpy", "rich", "typer.testing", "safetensors.torch", "coverage",
    "scipy.stats", "sklearn.metrics", "seqeval.metrics", "nervaluate", "dp_accounting",
    "dp_accounting.pld", "dp_accounting.rdp", "transformers", "transformers.models.bert", "onnx",
    "onnxruntime", "spacy", "h5py", "pyarrow", "bioc", "cassis",
    "cryptography.x509", "nvflare.fuel.f3.cellnet.core_cell", "nvflare.fuel.f3.drivers.tcp_driver",
)  # fmt: skip
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Job:
    """Something for a forked process to do.

    Attributes:
        name: What the caller knows it by.
        work: What to do in a copy of the repository; its value is the exit code.
        seconds: After how long it is ended.
        files: Files of the copy that are changed while it runs, with their text.
    """

    name: str
    work: Callable[[Path], int]
    seconds: float
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a job.

    Attributes:
        job: The job.
        code: Its exit code; None where it was ended for taking too long.
        seconds: How long it took.
        root: The copy that it ran in; its files are there until the next job is asked for.
    """

    job: Job
    code: int | None
    seconds: float
    root: Path


def warm_up() -> None:
    """Import the heavy libraries; one that is not installed is not needed."""
    for name in HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)


def copies(root: Path, folder: Path, number: int) -> list[Path]:
    """Return fresh copies of what git knows of the repository, and of new files."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    made = [folder / str(each) / "repository" for each in range(number)]
    for copy in made:
        for name in filter(None, listed):
            if (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
        compile_dir(copy / "src", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return made


@dataclass(slots=True)
class _Running:
    job: Job
    root: Path
    pid: int
    started: float
    before: dict[str, str]


def run_jobs(jobs: Iterable[Job], roots: list[Path]) -> Iterator[Done]:
    """Run jobs, as many at a time as there are copies, and yield what came of them."""
    waiting, free, running = iter(jobs), list(roots), list[_Running]()
    is_more = True
    try:
        while is_more or running:
            while is_more and free:
                job = next(waiting, None)
                is_more = job is not None
                if job is not None:
                    running.append(_begin(job, free.pop()))
            for each in list(running):
                done = _finished(each)
                if done is not None:
                    running.remove(each)
                    yield done
                    free.append(each.root)
            time.sleep(POLL_SECONDS)
    finally:
        for each in running:
            _end(each)


def _begin(job: Job, root: Path) -> _Running:
    before = {}
    for name, text in job.files:
        before[name] = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(text, encoding="utf-8")
    shutil.rmtree(root / "scratch", ignore_errors=True)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = job.work(root)
        except BaseException:  # noqa: BLE001 - a child must never go on as its parent
            traceback.print_exc()
        os._exit(code)
    return _Running(job, root, pid, time.monotonic(), before)


def _finished(each: _Running) -> Done | None:
    taken = time.monotonic() - each.started
    pid, status = os.waitpid(each.pid, os.WNOHANG)
    if pid:
        _restore(each)
        return Done(each.job, os.waitstatus_to_exitcode(status), taken, each.root)
    if taken > each.job.seconds:
        _end(each)
        return Done(each.job, None, taken, each.root)
    return None


def _end(each: _Running) -> None:
    """End a child and what it began: it leads a group of its own."""
    with suppress(ProcessLookupError):
        os.killpg(each.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(each.pid, signal.SIGKILL)
    os.waitpid(each.pid, 0)
    _restore(each)


def _restore(each: _Running) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(each.pid, signal.SIGKILL)  # what a test may have left behind
    for name, text in each.before.items():
        (each.root / name).write_text(text, encoding="utf-8")
