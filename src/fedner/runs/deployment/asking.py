"""The parent process of a platform asks a child whether a job may start.

The child loads all that a study needs to be checked, and ends; the parent, which runs for weeks,
stays small. Standard error of the child is the parent's: reasons stand in the platform's own log.
"""

import json
import logging
import subprocess
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from fedner.federated.failure_codes import FAILURES
from fedner.runs.deployment.places import own_home, own_settings

UNREADY_WORDS = FAILURES["platform-unready"]
_MODULE = "fedner.runs.deployment.admission"
_SECONDS = 120.0
_REFUSED = 60.0  # seconds for which a refusal is remembered
_MOST_REMEMBERED = 100
Answer = TypeVar("Answer")
_log = logging.getLogger(__name__)


class Admission:
    """Asks about jobs, one at a time.

    What was accepted is remembered as long as neither the job's words nor the platform's own files
    change, whoever asks; what was refused for a minute, for the one who asked. So a server that did
    not wait for the answer (FLARE's waits for 15 seconds), or submits a run again, hears at once.
    The job itself asks the policy again, on the study that it really uses.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accepted: dict[str, None] = {}  # in the order of asking
        self._refused: dict[str, tuple[str, float]] = {}  # the words, and when they are forgotten

    def refusal(self, spec: object, asked_by: str) -> str:
        """Return why a job must not start, in fixed words; empty where it may. It never raises."""
        try:
            asked = json.dumps(spec)
        except (TypeError, ValueError, RecursionError):
            asked = "null"  # the child records it
        try:
            with self._lock:
                return self._decided(asked, asked_by)
        except Exception:  # noqa: BLE001 - nothing of it may reach the server
            _log.exception("a job could not be checked")
            return UNREADY_WORDS

    def _decided(self, spec: str, asked_by: str) -> str:
        key = _key(spec)
        if key in self._accepted:
            return ""
        refused_key = f"{key} {asked_by}"
        refusal, end = self._refused.get(refused_key, ("", 0.0))
        if time.monotonic() < end:
            return refusal
        refusal = _ask_child(json.dumps({"spec": json.loads(spec), "asked_by": asked_by}))
        if refusal:
            _remember(self._refused, refused_key, (refusal, time.monotonic() + _REFUSED))
        else:
            _remember(self._accepted, key, None)
        return refusal


def _remember(answers: dict[str, Answer], key: str, answer: Answer) -> None:
    """Keep an answer in place of the oldest one."""
    if len(answers) >= _MOST_REMEMBERED:
        answers.pop(next(iter(answers)))
    answers[key] = answer


def _key(spec: str) -> str:
    """Return a digest of what a job announces and of the platform's files that decide about it."""
    from fedner.runs.deployment.homes import PlatformHome

    home = PlatformHome(own_home())
    digest = sha256(spec.encode())
    for path in (own_settings(), home.approval, home.pins):
        digest.update(sha256(_content(path)).digest())
    return digest.hexdigest()


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _ask_child(question: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", _MODULE],
        input=question.encode(),
        stdout=subprocess.PIPE,
        timeout=_SECONDS,
        check=True,
    )
    answer = json.loads(done.stdout)
    return str(answer["refusal"])
