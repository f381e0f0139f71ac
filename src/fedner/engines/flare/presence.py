"""Who is there, and whose process has ended, by the connections of FLARE's server process.

Before the round loop runs nobody pings. FLARE itself waits a minute for every platform, and a
platform that was started again does not come back into a job that it has left.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

HEARD_SECONDS = 10.0  # a platform says every two seconds that it is there
LOST_SECONDS = 3.0  # without a connection; one that is made again sooner is the same process


@dataclass(frozen=True, slots=True)
class Contact:
    """How a platform stands in a job at one moment.

    Attributes:
        is_known: Whether the server knows it by the token with which it entered the job; one that
            was started again has another.
        has_parent: Whether its own connection stands.
        has_job: Whether the connection of its job's process stands.
    """

    is_known: bool
    has_parent: bool
    has_job: bool


class Presence:
    """Remembers since when connections are missing."""

    def __init__(self, seconds: float = LOST_SECONDS) -> None:
        self._seconds = seconds
        self._joined: set[tuple[str, str]] = set()  # whose job's process has been connected
        self._cut: dict[tuple[str, str], float] = {}  # since when a connection is missing
        self._told: set[tuple[str, str]] = set()  # who said that its process has ended

    def lost(self, job: str, contacts: Mapping[str, Contact], now: float) -> list[str]:
        """Return the platforms whose process in a job has ended, sorted.

        Args:
            job: FLARE's id of the job.
            contacts: How its platforms stand now.
            now: Seconds of any clock that goes forward.
        """
        return [name for name in sorted(contacts) if self._is_lost(job, name, contacts[name], now)]

    def tell(self, job: str, name: str) -> None:
        """Note that a platform says that its process in a job has ended."""
        self._told.add((job, name))

    def keep(self, jobs: Iterable[str]) -> None:
        """Forget all jobs but these."""
        kept = set(jobs)
        self._joined = {key for key in self._joined if key[0] in kept}
        self._told = {key for key in self._told if key[0] in kept}
        self._cut = {key: since for key, since in self._cut.items() if key[0] in kept}

    def _is_lost(self, job: str, name: str, contact: Contact, now: float) -> bool:
        key = job, name
        if contact.has_job:
            self._joined.add(key)
        # A process that was not connected yet is still starting.
        is_cut = not contact.has_parent or (key in self._joined and not contact.has_job)
        if not is_cut:
            self._cut.pop(key, None)
        has_left = key in self._told or not contact.is_known
        return has_left or (is_cut and now - self._cut.setdefault(key, now) >= self._seconds)


def hear_failures(presence: Presence) -> None:
    """Let FLARE's server process note which platform says that its process has ended.

    FLARE ends the whole job then, and keeps no name.
    """
    from nvflare.private.fed.server.fed_server import FederatedServer

    process = FederatedServer.process_job_failure

    def heard(server: Any, request: Any) -> Any:
        for job, name in _failed_in(server, request):
            presence.tell(job, name)
        return process(server, request)

    FederatedServer.process_job_failure = heard


def _failed_in(server: Any, request: Any) -> list[tuple[str, str]]:
    """Return the job whose process ended and the platform, where the server waits for its word."""
    from nvflare.private.defs import CellMessageHeaderKeys, JobFailureMsgKey

    client = server.client_manager.clients.get(request.get_header(CellMessageHeaderKeys.TOKEN))
    told = request.payload
    if client is None or not isinstance(told, dict) or not told.get(JobFailureMsgKey.CODE):
        return []
    job = str(told.get(JobFailureMsgKey.JOB_ID))
    is_awaited = server.engine.job_runner.is_client_outcome_pending(job, client.name)
    return [(job, client.name)] if is_awaited else []


def contacts(engine: Any, job: str) -> dict[str, Contact]:
    """Return how the platforms of a running job stand; empty where no such job runs.

    Args:
        engine: The engine of FLARE's server process.
        job: FLARE's id of the job.
    """
    from nvflare.apis.fl_constant import RunProcessKey
    from nvflare.fuel.f3.cellnet.fqcn import FQCN

    entered = (engine.run_processes.get(job) or {}).get(RunProcessKey.PARTICIPANTS) or {}
    known = engine.client_manager.clients
    connected = engine.server.cell.core_cell.agents
    return {
        client.name: Contact(
            token in known,
            client.get_fqcn() in connected,
            FQCN.join([client.get_fqcn(), job]) in connected,
        )
        for token, client in list(entered.items())
    }


def present(engine: Any, now: float) -> list[str]:
    """Return the platforms that can be given a job now, sorted.

    FLARE itself asks one whose process was killed, and waits 15 seconds for its answer.

    Args:
        engine: The engine of FLARE's server process.
        now: Seconds since 1970.
    """
    connected = engine.server.cell.core_cell.agents
    return sorted(
        client.name
        for client in list(engine.client_manager.clients.values())
        if client.get_fqcn() in connected and now - client.last_connect_time <= HEARD_SECONDS
    )


def close_job(engine: Any, job: str) -> None:
    """End a job whose platforms are lost, as FLARE does where a process reports its failure."""
    from nvflare.fuel.common.exit_codes import ProcessExitCode

    with engine.new_context() as context:
        engine.job_runner.fail_run(job, ProcessExitCode.EXCEPTION, context)
