"""The parent process of a platform asks a child whether a job may start.

The child loads all that a study needs to be checked, and ends; the parent, which runs for weeks,
stays small. Standard error of the child is the parent's: reasons stand in the platform's own log.
"""

import json
import logging
import math
import subprocess
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path

from fedner.federated.failure_codes import FAILURES
from fedner.runs.deployment.places import own_home, own_settings

UNREADY_WORDS = FAILURES["platform-unready"]
_MODULE = "fedner.runs.deployment.admission"
_SECONDS = 120.0
_REFUSED = 60.0  # seconds for which a refusal is remembered
_MOST_REMEMBERED = 100
_log = logging.getLogger(__name__)


class Admission:
    """Asks about jobs, one at a time.

    What was accepted is remembered as long as neither the job's words nor the platform's own files
    change, what was refused for a minute: a server that did not wait for the answer (FLARE's waits
    for 15 seconds), or submits a run again, hears at once. The job itself asks the policy again, on
    the study that it really uses.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[str, float]] = {}  # the refusal, and when it is forgotten

    def refusal(self, spec: object, asked_by: str) -> str:
        """Return why a job must not start, in fixed words; empty where it may. It never raises."""
        try:
            question = json.dumps({"spec": spec, "asked_by": asked_by})
        except (TypeError, ValueError, RecursionError):
            question = json.dumps({"spec": None, "asked_by": asked_by})  # the child records it
        try:
            with self._lock:
                return self._decided(question)
        except Exception:  # noqa: BLE001 - nothing of it may reach the server
            _log.exception("a job could not be checked")
            return UNREADY_WORDS

    def _decided(self, question: str) -> str:
        key = _key(question)
        refusal, end = self._answers.get(key, ("", 0.0))
        if time.monotonic() < end:
            return refusal
        refusal = _ask_child(question)
        if len(self._answers) >= _MOST_REMEMBERED:
            self._answers.pop(next(iter(self._answers)))
        self._answers[key] = refusal, time.monotonic() + _REFUSED if refusal else math.inf
        return refusal


def _key(question: str) -> str:
    """Return a digest of a question and of the platform's files that decide about it."""
    from fedner.runs.deployment.homes import PlatformHome

    home = PlatformHome(own_home())
    digest = sha256(question.encode())
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
