"""FLARE's own files in a home: who may connect, what a job may build, who may ask for what.

They are written when a home is installed and again whenever it starts, from what this release of
fedner holds to be safe; an edit of them does not last. `platform.toml` is where a platform decides.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedner.durable import owner_folder, write_text
from fedner.runs.deployment.homes import (
    AdminKit,
    PlatformHome,
    ServerHome,
    make_flare_folders,
)

_COMPONENTS = "fedner.runs.deployment.components"
PLATFORM_ENDPOINT = f"{_COMPONENTS}.PlatformEndpoint"
COORDINATOR_PROGRAM = f"{_COMPONENTS}.CoordinatorProgram"
POLICY_GATE = f"{_COMPONENTS}.PolicyGate"
STUDY_RESOURCES = f"{_COMPONENTS}.StudyResources"

# All that a job, or a site's own resources.json, may build. An entry is also a prefix of a dotted
# path, which is why every one of them names a class.
ALLOWED_CLASSES = (
    PLATFORM_ENDPOINT,
    COORDINATOR_PROGRAM,
    POLICY_GATE,
    STUDY_RESOURCES,
    "nvflare.collab.runtime.executor.CollabExecutor",
    "nvflare.collab.runtime.controller.CollabController",
)

ORGANISATION = "fedner"
_NEVER = {"clone_job": "none", "shell_commands": "none", "byoc": "none"}
_NEVER |= {"server-predeployed-flwr": "none"}
_AT_SERVER = {
    "coordinator": {
        "submit_job": "any",
        "manage_job": "any",
        "download_job": "any",
        "view": "any",
        "operate": "any",
        **_NEVER,
    },
    "watchdog": {
        "submit_job": "any",
        "manage_job": "any",
        "download_job": "none",
        "view": "any",
        "operate": "none",
        **_NEVER,
    },
}
# A platform takes jobs and their end. It shows nobody its errors, and nobody else stops it.
_AT_PLATFORM = {
    role: {
        "submit_job": "any",
        "manage_job": "any",
        "download_job": "none",
        "view": "none",
        "operate": "none",
        **_NEVER,
    }
    for role in _AT_SERVER
}
_TALKATIVE = (  # a line for every handler that is registered, or for every call
    "nvflare.fuel.f3.cellnet",
    "nvflare.private.aux_runner",
    "nvflare.collab",
)
LOG_BYTES, LOG_FILES = 5_000_000, 5  # of each log, the one that is written to included


@dataclass(frozen=True, slots=True)
class Place:
    """Where a federation's server is.

    Attributes:
        federation: The name of the federation.
        host: The server's host name, which is also the name in its certificate.
        port: The one port that platforms and coordinators connect to.
    """

    federation: str
    host: str
    port: int

    @property
    def target(self) -> str:
        """Host and port as FLARE writes them."""
        return f"{self.host}:{self.port}"


def server_arguments() -> tuple[str, ...]:
    """Return what FLARE's server process is told after `--set`."""
    return ("secure_train=true", f"org={ORGANISATION}", "config_folder=config")


def platform_arguments(name: str) -> tuple[str, ...]:
    """Return what FLARE's client process of a platform is told after `--set`."""
    return ("secure_train=true", f"uid={name}", f"org={ORGANISATION}", "config_folder=config")


def write_server_kit(home: ServerHome, place: Place) -> None:
    """Write FLARE's files of a server; keys and certificates are there already."""
    make_flare_folders(home)
    owner_folder(home.jobs)
    owner_folder(home.snapshots)
    _write(home.startup / "fed_server.json", _fed_server(place))
    _write_local(home.workspace, _server_resources(home), _AT_SERVER)


def _fed_server(place: Place) -> dict[str, Any]:
    server = {
        "name": place.federation,
        "service": {"target": place.target, "scheme": "tcp"},
        "admin_server": place.host,
        "admin_port": place.port,
        "ssl_private_key": "server.key",
        "ssl_cert": "server.crt",
        "ssl_root_cert": "rootCA.pem",
        "connection_security": "mtls",
    }
    return {"format_version": 2, "servers": [server]}


def _server_resources(home: ServerHome) -> dict[str, Any]:
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    snapshots = {"root_dir": str(home.snapshots.resolve()), "uri_root": "/"}
    schedule = {
        "max_jobs": 4,
        "min_schedule_interval": 1.0,
        "max_schedule_interval": 5.0,
        "max_schedule_count": 1000,
    }
    jobs = {"uri_root": str(home.jobs.resolve()), "job_store_id": "job_store"}
    return {
        "format_version": 2,
        **_class_list(),
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 1000,
                "heart_beat_timeout": 30,
                "download_job_url": "http://",
                "admin_timeout": 10.0,
                "check_engine_frequency": 0.3,  # seconds after which a job's process sees its end
            }
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor."
            "StorageStatePersistor",
            "args": {"uri_root": "/", "storage": {"path": storage, "args": snapshots}},
        },
        "components": [
            _component(
                "job_scheduler",
                "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                schedule,
            ),
            _component(
                "job_manager", "nvflare.apis.impl.job_def_manager.SimpleJobDefManager", jobs
            ),
            _component("job_store", storage),
            _component(
                "process_launcher",
                "nvflare.app_common.job_launcher.server_process_launcher.ServerProcessJobLauncher",
            ),
        ],
    }


def write_platform_kit(home: PlatformHome, place: Place, name: str) -> None:
    """Write FLARE's files of a platform; keys and certificates are there already."""
    make_flare_folders(home)
    _write(home.startup / "fed_client.json", _fed_client(place, name))
    _write_local(home.workspace, _platform_resources(), _AT_PLATFORM)


def _fed_client(place: Place, name: str) -> dict[str, Any]:
    service = {"target": place.target, "scheme": "tcp"}
    return {
        "format_version": 2,
        "servers": [{"name": place.federation, "service": service, "identity": place.host}],
        "client": {
            "ssl_private_key": "client.key",
            "ssl_cert": "client.crt",
            "ssl_root_cert": "rootCA.pem",
            "fqsn": name,
            "is_leaf": True,
            "connection_security": "mtls",
            "retry_timeout": 30,
            # All that FLARE tells the server of this site; otherwise it would tell every key of
            # resources.json that it does not know.
            "site_config": {"allow_log_streaming": False},
        },
    }


def _platform_resources() -> dict[str, Any]:
    return {
        "format_version": 2,
        **_class_list(),
        "allow_log_streaming": False,
        "components": [
            _component("resource_manager", STUDY_RESOURCES),
            _component("policy_gate", POLICY_GATE),
            _component(
                "process_launcher",
                "nvflare.app_common.job_launcher.client_process_launcher.ClientProcessJobLauncher",
            ),
        ],
    }


def write_admin_kit(admin: AdminKit, place: Place) -> None:
    """Write FLARE's files of an admin identity; key and certificate are there already."""
    for name in ("startup", "local", "transfer"):
        owner_folder(admin.kit / name)
    settings = {
        "project_name": place.federation,
        "username": admin.name,
        "server_identity": place.host,
        "scheme": "tcp",
        "host": place.host,
        "port": place.port,
        "connection_security": "mtls",
        "uid_source": "user_input",
        "with_file_transfer": True,
        "upload_dir": "transfer",
        "download_dir": "transfer",
        "client_key": "client.key",
        "client_cert": "client.crt",
        "ca_cert": "rootCA.pem",
    }
    _write(admin.startup / "fed_admin.json", {"format_version": 1, "admin": settings})
    limits = {"idle_timeout": 900.0, "login_timeout": 10.0, "authenticate_msg_timeout": 5.0}
    local = {"format_version": 1, "admin": {**limits, "with_debug": False, "prompt": "> "}}
    _write(admin.kit / "local" / "resources.json", local)


def _class_list() -> dict[str, Any]:
    return {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(ALLOWED_CLASSES),
    }


def _component(identity: str, path: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"id": identity, "path": path, "args": arguments or {}}


def _write_local(workspace: Path, resources: dict[str, Any], permissions: dict[str, Any]) -> None:
    local = workspace / "local"
    _write(local / "resources.json", resources)
    _write(local / "authorization.json", {"format_version": "1.0", "permissions": permissions})
    _write(local / "log_config.json", _log_config())


def _log_config() -> dict[str, Any]:
    line = "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s"
    written = {"formatter": "line", "level": "INFO"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {"()": "nvflare.fuel.utils.log_utils.BaseFormatter", "fmt": line},
        },
        "handlers": {
            "terminal": {**written, "class": "logging.StreamHandler", "stream": "ext://sys.stdout"},
            "file": {
                **written,
                "class": "logging.handlers.RotatingFileHandler",
                "filename": "log.txt",
                "mode": "a",
                "maxBytes": LOG_BYTES,
                "backupCount": LOG_FILES - 1,
            },
        },
        "loggers": {
            "root": {"level": "INFO", "handlers": ["terminal", "file"]},
            **{name: {"level": "WARNING"} for name in _TALKATIVE},
        },
    }


def _write(path: Path, value: dict[str, Any]) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n", owner_only=True)
