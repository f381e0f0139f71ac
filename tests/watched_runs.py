"""Folders of runs that grow: written line by line, as a coordinator and platforms write them."""

import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fedner.engines.flare.job_ends import JobEnd, append_end
from fedner.federated.folder_lock import LOCK
from fedner.federated.record import Missing, RecordFile, RoundRecord
from fedner.federated.run import RECORD
from fedner.federated.screening import Refusal
from fedner.privacy.events import GaussianRelease
from fedner.runs.folder import SETTINGS, STUDY, write_record
from fedner.scoring import Scores
from fedner.settings import Study
from run_records import scores_of

NAMES = ("case-reports", "forum-posts", "social-posts")
GONE = "its process ended"
_HOLD = (
    "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); "
    "fcntl.lockf(fd, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
)


def study_of(names: Sequence[str] = NAMES, rounds: int = 20, **changes: object) -> Study:
    platforms = [{"name": name, "public_size": 32, "labels": ["ADE"]} for name in names]
    table = {"title": "watched", "training": {"rounds": rounds}, "platforms": platforms}
    return Study.model_validate(table | changes)


def scores_near(share: float) -> Scores:
    right = round(100 * share)
    return scores_of(("ADE", right, 100 - right))


def released(name: str) -> GaussianRelease:
    return GaussianRelease(1.0, 0.25, "sentence", 1.0, 32, is_simulation=True)


def record_of(
    number: int, names: Sequence[str] = NAMES, *, every: int = 5, **changes: object
) -> RoundRecord:
    """Return a round like those of a run that learns."""
    losses = {
        name: 20.0 * math.exp(-number / (30 + 9 * at)) + 2 + at for at, name in enumerate(names)
    }
    f1 = {name: 0.7 * (1 - math.exp(-number / (25 + 10 * at))) for at, name in enumerate(names)}
    scores = {name: scores_near(each) for name, each in f1.items()}
    record = RoundRecord(
        round=number,
        seconds=0.5 + 0.25 * (number % every == 0),
        loss=sum(losses.values()) / len(losses),
        losses=losses,
        norms=dict.fromkeys(names, 1.0),
        bytes_up=dict.fromkeys(names, 1_000),
        bytes_down=dict.fromkeys(names, 1_500),
        scores=scores if number % every == 0 else {},
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def missing_in(record: RoundRecord, name: str) -> RoundRecord:
    gone = Missing(name, "round", "platform-gone", GONE)
    kept = {key: each for key, each in record.losses.items() if key != name}
    return replace(record, failures=(gone,), losses=kept)


def refused_in(record: RoundRecord, name: str) -> RoundRecord:
    return replace(record, refusals=(Refusal(name, "norm", "its norm is absurd"),))


def begin_run(folder: Path, study: Study, *, is_local: bool = True) -> Path:
    """Make the folder of a run without rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    if is_local:
        write_record(folder, SETTINGS, {"title": study.title})
    write_record(folder, STUDY, study.model_dump(mode="json"))
    return folder


def append(folder: Path, *records: RoundRecord) -> None:
    """Add rounds, as a run does."""
    file = RecordFile(folder / RECORD)
    for record in records:
        file.append(record)
    file.close()


def resume_after(folder: Path, round_: int) -> None:
    """Drop what lies beyond a round, as a run that goes on does."""
    RecordFile(folder / RECORD).keep_until(round_)


def end_job(folder: Path, outcome: str, time: float = 2.0, **facts: object) -> None:
    append_end(folder, JobEnd(outcome, time=time, **facts))  # type: ignore[arg-type]


@contextmanager
def held(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Let another process work in a folder."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-S", "-c", _HOLD, str(folder / name)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield
        process.communicate(b"")
