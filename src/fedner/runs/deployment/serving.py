"""What the server tells of its runs: progress to the coordinator, the model to those it is for.

FLARE's server process asks here, for a caller whose certificate it has checked. Nothing but named
files of a run is ever read. It imports no torch: the process shall stay small.
"""

import base64
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedner.errors import FednerError

COORDINATOR = "coordinator"  # the role in the certificate
NEWEST = "-"  # in place of a run's name: the newest one that is finished
CHUNK_BYTES = 2**20
STOPPED_WORDS = "the coordinator stopped it"
ROUNDS, ENDS, REPORTS, STUDY = "rounds.jsonl", "jobs.jsonl", "score_reports.json", "study.json"
RECORDS = (STUDY, "initial.json", ROUNDS, ENDS, REPORTS, "coordinator.html")
MODEL = "model"
_RUN_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
MODEL_FILE = re.compile(rf"{MODEL}(/[A-Za-z0-9][A-Za-z0-9_.-]{{0,99}}){{1,3}}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the certificate says.

    Attributes:
        name: The platform, or the address of an admin.
        role: The role of an admin; empty for platforms.
    """

    name: str
    role: str

    @property
    def is_coordinator(self) -> bool:
        """Whether the coordinator asks."""
        return self.role == COORDINATOR


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the server's files are.

    Attributes:
        runs: The folder of the run folders.
        removed: FLARE's list of the platforms that the server refuses.
    """

    runs: Path
    removed: Path

    def answer(self, caller: Caller, words: Sequence[str]) -> dict[str, Any]:
        """Return the answer to a question, which is a table for JSON; a refusal has a key `error`.

        It never raises, and what it says of what went wrong are fixed words.
        """
        try:
            verb, arguments = (words[0], list(words[1:])) if words else ("", [])
            if verb not in _VERBS:
                raise FednerError("no such question")
            _require_admitted(self, caller)
            return _VERBS[verb](self, caller, *arguments)
        except FednerError as error:
            return {"error": error.message}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {"error": "the server cannot answer that"}


def _require_admitted(desk: Desk, caller: Caller) -> None:
    if caller.role not in ("", COORDINATOR):
        raise FednerError("not for this identity")
    if caller.name in _removed(desk.removed):
        raise FednerError("this platform was removed")


def _removed(path: Path) -> set[str]:
    """Return the platforms that the server refuses; a list that cannot be read is an error."""
    if not path.is_file():
        return set()
    return set(json.loads(path.read_text("utf-8"))["disabled_clients"])


def _require_coordinator(caller: Caller) -> None:
    if not caller.is_coordinator:
        raise FednerError("only the coordinator may ask that")


def _run(desk: Desk, name: str) -> Path:
    """Return the folder of a run."""
    if name == NEWEST:
        done = [path.parent for path in desk.runs.glob(f"*/{REPORTS}")]
        if not done:
            raise FednerError("no run is finished yet")
        return max(done, key=lambda folder: (folder / REPORTS).stat().st_mtime)
    folder = desk.runs / name
    if not _RUN_NAME.fullmatch(name) or not folder.is_dir():
        raise FednerError("the server has no such run")
    return folder


def _progress(desk: Desk, caller: Caller, name: str, since: str) -> dict[str, Any]:
    """Return the records of rounds after `since`, at most a chunk, and how jobs ended."""
    _require_coordinator(caller)
    if not _RUN_NAME.fullmatch(name):
        raise FednerError("the server has no such run")
    folder = desk.runs / name
    lines = _lines(folder / ROUNDS)
    sent: list[str] = []
    size = 0
    for line in lines[int(since) :]:  # -1: the newest alone
        size += len(line)
        if sent and size > CHUNK_BYTES:
            break
        sent.append(line)
    reported = (folder / REPORTS).is_file()
    return {
        "time": time.time(),
        "rounds": sent,
        "newest": len(lines),
        "ends": _lines(folder / ENDS)[-1000:],
        "reported": reported,
    }


def _time(desk: Desk, caller: Caller) -> dict[str, Any]:
    """Return the server's clock: whoever asks may have set another."""
    del desk, caller
    return {"time": time.time()}


def _lines(path: Path) -> list[str]:
    """Return the whole lines of a file; one that is still written is left out."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1].decode("utf-8").splitlines()


def _stop(desk: Desk, caller: Caller, name: str) -> dict[str, Any]:
    """Note that nobody is to go on with a run; the watchdog reads it."""
    _require_coordinator(caller)
    folder = _run(desk, name)
    end = {"outcome": "stopped", "missing": {}, "words": STOPPED_WORDS, "time": time.time()}
    handle = os.open(folder / ENDS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, (json.dumps(end) + "\n").encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    return {"stopped": folder.name}


def _files(desk: Desk, caller: Caller, name: str) -> dict[str, Any]:
    """Return which files of a run the caller may have, with sizes and digests."""
    folder = _run(desk, name)
    places = _places(folder, caller)
    listed = {
        each: {"bytes": path.stat().st_size, "sha256": _sha256(path)}
        for each, path in places.items()
    }
    return {
        "run": folder.name,
        "finished": (folder / REPORTS).is_file(),
        "released": _is_released(folder, caller),
        "has_model": (folder / MODEL).is_dir(),
        "files": listed,
    }


def _places(folder: Path, caller: Caller) -> dict[str, Path]:
    """Return the files that the caller may have, by their names in the run's folder."""
    places: dict[str, Path] = {}
    if caller.is_coordinator:
        places |= {name: folder / name for name in RECORDS}
    if _is_released(folder, caller):
        model = folder / MODEL
        held = {path.relative_to(folder).as_posix(): path for path in sorted(model.rglob("*"))}
        places |= {name: path for name, path in held.items() if MODEL_FILE.fullmatch(name)}
    return {name: path for name, path in places.items() if _is_own_file(path)}


def _is_own_file(path: Path) -> bool:
    return path.is_file() and path.resolve() == path.absolute()  # no link leads elsewhere


def _is_released(folder: Path, caller: Caller) -> bool:
    """Whether the study lets the caller have the trained model; it must be finished.

    Every platform's policy has accepted the study's `[release]` before it took part.
    """
    if not (folder / REPORTS).is_file():
        return False
    study = json.loads((folder / STUDY).read_text("utf-8"))
    release: Mapping[str, Any] = study.get("release") or {}
    if release.get("to") == "public":
        return True
    took_part = {each["name"] for each in study["platforms"]}
    return caller.name in took_part | set(release.get("newcomers") or ())


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _read(desk: Desk, caller: Caller, name: str, place: str, offset: str) -> dict[str, Any]:
    """Return a part of a file."""
    path = _places(_run(desk, name), caller).get(place)
    if path is None:
        raise FednerError("not for this identity")
    with path.open("rb") as handle:
        handle.seek(int(offset))
        return {"data": base64.b64encode(handle.read(CHUNK_BYTES)).decode()}


def _link(_desk: Desk, _caller: Caller, size: str, *_filling: str) -> dict[str, Any]:
    """Return so many letters of no meaning: whoever asks measures its link, in either direction."""
    if not 0 <= int(size) <= CHUNK_BYTES:
        raise FednerError(f"between 0 and {CHUNK_BYTES} bytes are given")
    return {"data": secrets.token_hex(int(size) // 2)}


_VERBS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "progress": _progress,
    "time": _time,
    "stop": _stop,
    "files": _files,
    "read": _read,
    "link": _link,
}
