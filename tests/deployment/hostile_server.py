"""A server with the real server's certificate that asks platforms for what no job needs."""

import base64
import io
import itertools
import json
import os
import subprocess
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from live import Live, until

from fedner.engines.flare.job import platform_config

HERE = Path(__file__).parent / "hostile"


@dataclass
class HostileServer:
    """The way to a hostile server's process, and to the jobs that it runs."""

    live: Live
    box: Path
    _numbers: Any = field(default_factory=itertools.count)

    def start(self) -> None:
        self.box.mkdir()
        program = self.live.program("server")
        paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
        environment = program.environment | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "HOSTILE_BOX": str(self.box),
        }
        (program.workspace / "transfer").mkdir(mode=0o700, exist_ok=True)
        with (self.live.folder / "server.log").open("ab") as log:
            self.live.processes["server"] = subprocess.Popen(
                program.command, env=environment, cwd=program.workspace,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def ask(self, kind: str, seconds: float = 40, **asked: Any) -> dict[str, Any]:
        """Let the parent send a message, or the job an order; return what came back."""
        path = self.box / f"{kind}-{next(self._numbers):04}.json"
        part = path.with_suffix(".new")
        part.write_text(json.dumps(asked))
        part.replace(path)
        answer = path.with_suffix(".answer")
        until(answer.exists, seconds, f"an answer to {asked.get('admin') or asked.get('topic')}")
        return dict(json.loads(answer.read_text()))

    def admin(self, target: str, topic: str, body: Any = "", **more: Any) -> Any:
        """Send what FLARE's server sends to a site's parent process; return the reply's body."""
        if isinstance(body, bytes):
            more["body_bytes"] = base64.b64encode(body).decode()
        else:
            more["body"] = body
        told = self.ask(
            "parent", channel="admin", topic="admin", target=target, admin=topic, **more
        )
        return told.get("payload", told)

    def check(self, target: str, spec: Any) -> tuple[bool, str]:
        """Ask for resources as FLARE does; return whether there are, and the token or why not."""
        told = None
        for _ in range(3):  # a child that decides is slow on a busy machine; its answer is kept
            told = told or self.admin(
                target, "scheduler.check_resource", spec, headers={"job_id": job_id()}, timeout=30
            )
        headers = (told or {})["headers"]
        return bool(headers["_is_resource_enough"]), str(headers["_resource_reserve_token"])

    def deploy(self, target: str, job: str, app: bytes, name: str = "platform", **meta: Any) -> str:
        return str(
            self.admin(
                target, "train.deploy", app, headers=_job_headers(job, name, meta), timeout=10
            )
        )

    def start_job(self, target: str, job: str, spec: Any, token: str, **meta: Any) -> str:
        headers = _job_headers(job, "platform", meta) | {"_resource_reserve_token": token}
        return str(self.admin(target, "train.start_job", spec, headers=headers, timeout=20))

    def app(self, study: str, run: str = "run-1", *, signed: bool = True, **files: str) -> bytes:
        """Return what a platform is sent, with files changed or added, signed or not.

        Platforms take what an admin signed; the watchdog, who lives at the server, is one.
        """
        from nvflare.lighter.utils import load_private_key_file, sign_folders

        held = {"config/config_fed_client.json": json.dumps(honest_config(study, run))} | files
        folder = self.box / f"app-{next(self._numbers)}"
        for name, text in held.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        watchdog = self.live.homes.server.watchdog
        key = load_private_key_file(str(watchdog.key))
        if signed:
            sign_folders(str(folder), key, str(watchdog.certificate))
        files_ = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        return zipped({str(path.relative_to(folder)): path.read_text() for path in files_})


def job_id() -> str:
    return str(uuid.uuid4())


def _job_headers(job: str, name: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    told = {"submitter_name": "coordinator@fedner.local", "submitter_org": "fedner"}
    told |= {"submitter_role": "coordinator", "job_id": job, **meta}
    return {"job_id": job, "app_name": name, "job_meta": told}


def facts(study: str, run: str = "run-1", roster: str = "") -> dict[str, Any]:
    return {"fedner": {"run": run, "study": study, "roster": roster}}


def honest_config(study: str, run: str = "run-1", roster: str = "") -> dict[str, Any]:
    """Return the configuration that a platform is sent, as a table to change."""
    given = {"run": run, "study": study, "roster": roster}
    return json.loads(json.dumps(platform_config(given)))  # type: ignore[no-any-return]


def zipped(files: Mapping[str, str]) -> bytes:
    """Return an archive of texts by name."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return target.getvalue()
