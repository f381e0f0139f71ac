"""`fedner federation fetch`: records of a run to the coordinator, the model to those it is for.

It travels in an admin session of FLARE: mutual TLS, and an identity that the server has checked.
The server serves named files alone (`serving`); nothing starts anywhere, and nothing is sent.
"""

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedner.durable import owner_folder, write_bytes
from fedner.engines.flare.job import require_run_name
from fedner.engines.flare.session import AdminSession
from fedner.errors import FednerError
from fedner.runs.deployment.homes import FederationHome, PlatformHome
from fedner.runs.deployment.serving import CHUNK_BYTES, MODEL, MODEL_FILE, NEWEST, RECORDS
from fedner.runs.deployment.sessions import coordinator_session, platform_session

_MOST_FILES = 1_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was fetched.

    Attributes:
        run: The run.
        folder: Where it was written.
        files: Their names in it.
        study: The digest of the study that the model was trained for; empty without a model.
        no_model: Why there is no model among them; empty where there is one.
    """

    run: str
    folder: Path
    files: tuple[str, ...]
    study: str = ""
    no_model: str = ""

    @property
    def model(self) -> Path | None:
        """The folder of the model."""
        return None if self.no_model else self.folder / MODEL


def fetch(home: Path, run: str | None = None, out: Path | None = None) -> Fetched:
    """Fetch what the owner of a home may have of a run.

    Args:
        home: The coordinator's folder, or the home of a platform or newcomer.
        run: The run; None for the newest one that is finished.
        out: Where it goes; None for `runs/RUN` in the coordinator's folder, and `models/RUN` in
            that of a platform.

    Raises:
        FednerError: It is no such folder, the server cannot be reached, refuses or has no such
            run, or a platform may not have the model.
    """
    if PlatformHome(home).record.is_file():
        with platform_session(PlatformHome(home)) as session:
            fetched = fetch_files(session, home / "models", run, out)
        if fetched.no_model:
            raise FednerError(f"run {fetched.run}: {fetched.no_model}")
        return fetched
    with coordinator_session(FederationHome(home)) as session:
        return fetch_files(session, home / "runs", run, out)


def fetch_files(
    session: AdminSession, runs: Path, run: str | None = None, out: Path | None = None
) -> Fetched:
    """Fetch all files that the session's identity may have of a run; each is checked, then written.

    Raises:
        FednerError: The server refuses, or sends something else than it announced.
    """
    listed = session.ask("files", NEWEST if run is None else require_run_name(run))
    name = require_run_name(listed.get("run"))
    wanted = _wanted(listed)
    folder = runs / name if out is None else out
    received = {place: _received(session, name, place, facts) for place, facts in wanted.items()}
    for place, data in received.items():
        owner_folder((folder / place).parent)
        write_bytes(folder / place, data, owner_only=True)
    study = _study_of(received)
    return Fetched(name, folder, tuple(received), study, _why_no_model(listed))


def _wanted(listed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the files to fetch; a server that names others is not followed."""
    files = listed.get("files")
    if not isinstance(files, dict) or len(files) > _MOST_FILES:
        raise FednerError("the federation's server sent no list of files")
    for place in files:
        if place not in RECORDS and not MODEL_FILE.fullmatch(place):
            raise FednerError(
                f"the federation's server offers {place!r:.100}, which it may not offer"
            )
    return files


def _received(session: AdminSession, run: str, place: str, facts: dict[str, Any]) -> bytes:
    size, data = int(facts["bytes"]), bytearray()
    while len(data) < size:
        part = base64.b64decode(session.ask("read", run, place, str(len(data)))["data"])
        data += part
        if len(part) != CHUNK_BYTES:  # the last one
            break
    if len(data) != size or hashlib.sha256(data).hexdigest() != facts["sha256"]:
        raise FednerError(
            f"{place} of run {run} did not arrive as the server announced it",
            "The run may still be writing it: fetch it again.",
        )
    return bytes(data)


def _why_no_model(listed: dict[str, Any]) -> str:
    if any(place.startswith(f"{MODEL}/") for place in listed["files"]):
        return ""
    if not listed.get("finished"):
        return "it is not finished, and has no model yet"
    if not listed.get("has_model"):
        return "its platforms share no whole model, only parts of one: each has its own tagger"
    return "its study does not release the model to you ([release] in the study)"


def _study_of(received: dict[str, bytes]) -> str:
    card = received.get(f"{MODEL}/model.json")
    if card is None:
        return ""
    try:
        return str(json.loads(card)["facts"]["study"])
    except (ValueError, KeyError, TypeError):
        return ""
