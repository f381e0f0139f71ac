"""The job that FLARE is given: configuration alone, no Python, and nothing of a platform's own.

The study travels as one JSON string, since FLARE takes any table with a key `path` for a class that
is to be built.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedner.durable import write_text
from fedner.errors import FednerError

PROGRAM = "fedner.runs.deployment.components.CoordinatorProgram"
ENDPOINT = "fedner.runs.deployment.components.PlatformEndpoint"
CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"
FACTS = "fedner"  # where a platform's resource manager finds what its policy asks for
PLATFORM_APP = "platform"
PLATFORM_CONFIG = "config/config_fed_client.json"
_SERVER_APP = "server"
_RUN_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a job is made of.

    Attributes:
        run: Names the run, and folders at server and platforms.
        study: The study as canonical JSON.
        platforms: Who is asked to take part.
        quorum: How many must be there; None for all.
        roster: Who takes part with which certificate, signed by the authority, as JSON; empty where
            platforms go by the roster that they installed.
    """

    run: str
    study: str
    platforms: Sequence[str]
    quorum: int | None = None
    roster: str = ""


def require_run_name(value: object) -> str:
    """Return a run's name, which also names folders.

    Raises:
        FednerError: It is none.
    """
    if isinstance(value, str) and _RUN_NAME.fullmatch(value):
        return value
    raise FednerError(
        f"run name: found {value!r:.60}; expected lowercase letters, digits and '-', at most 100",
        "Take the name that `fedner federation status` shows.",
    )


def write_job(spec: JobSpec, folder: Path) -> Path:
    """Write the job's folder, which must not exist; return it.

    Raises:
        FednerError: The run has no sound name, or nobody is to take part.
    """
    require_run_name(spec.run)
    if not spec.platforms:
        raise FednerError(f"run {spec.run}: no platform is left to take part")
    for path, table in _tables(spec).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, json.dumps(table, indent=1), owner_only=True)
    return folder


def _tables(spec: JobSpec) -> Mapping[str, Any]:
    names = sorted(spec.platforms)
    facts = {FACTS: {"run": spec.run, "study": spec.study, "roster": spec.roster}}
    meta = {
        "name": spec.run,
        "deploy_map": {_SERVER_APP: ["server"], PLATFORM_APP: names},
        "resource_spec": dict.fromkeys(names, facts),
        "min_clients": len(names) if spec.quorum is None else min(spec.quorum, len(names)),
    }
    if spec.quorum is None:
        meta["mandatory_clients"] = names
    given = {"run": spec.run, "study": spec.study}
    asked = {**given, "roster": spec.roster}
    return {
        "meta.json": meta,
        f"{_SERVER_APP}/config/config_fed_server.json": _server_config(given),
        f"{PLATFORM_APP}/{PLATFORM_CONFIG}": platform_config(asked),
    }


def _server_config(given: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "format_version": 2,
        "workflows": [
            {"id": "controller", "path": CONTROLLER, "args": {"server_obj_id": "program"}}
        ],
        "components": [{"id": "program", "path": PROGRAM, "args": given}],
        "server": {"task_request_interval": _TASK_SECONDS},
        **_NO_CHUNKS,
    }


def platform_config(given: Mapping[str, str]) -> Mapping[str, Any]:
    """Return all that a platform is ever sent of a job: which classes, and run, study, roster."""
    executor = {"path": EXECUTOR, "args": {"client_obj_id": "endpoint", "collab_obj_ids": []}}
    return {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": executor}],
        "components": [{"id": "endpoint", "path": ENDPOINT, "args": given}],
        **_NO_CHUNKS,
    }


# How often a platform looks for FLARE's own two tasks, with which a job begins.
_TASK_SECONDS = 0.5
# Our messages are bytes already: FLARE is not to look for arrays in them.
_NO_CHUNKS = {"np_download_chunk_size": 0, "tensor_download_chunk_size": 0}
