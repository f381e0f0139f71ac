"""The four classes that FLARE builds by their names; every platform allows these and no others.

What a class is given comes from the job, so from the coordinator; where a home is and what a
platform allows comes from the process that the platform's owner started (`places`).
"""

import logging
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from nvflare.apis.fl_component import FLComponent
from nvflare.apis.resource_manager_spec import ResourceManagerSpec
from nvflare.collab import collab

from fedner.engines.flare import finished_streams
from fedner.engines.flare.garbage import Garbage
from fedner.engines.flare.job import require_run_name
from fedner.engines.flare.quick_end import end_quickly
from fedner.engines.flare.reconnecting import reconnect_soon
from fedner.engines.flare.unprinted import print_no_payloads
from fedner.runs.deployment import listener, wire_guard
from fedner.runs.deployment.announcing import Facts, announced, facts_in, facts_of, study_in
from fedner.runs.deployment.asking import Admission
from fedner.runs.deployment.places import own_home, own_settings, run_folder
from fedner.runs.deployment.wire_guard import SERVER, asked_by

if TYPE_CHECKING:  # the parent process of a platform never loads torch
    from fedner.engines.roster import Roster

OK, REFUSED = "ok", "refused"
_MOST_TOKENS = 1_000
_log = logging.getLogger(__name__)


class CoordinatorProgram:
    """What runs in the server's job: the round loop."""

    def __init__(self, study: str, run: str) -> None:
        self._study = study
        self._run = run
        end_quickly()
        finished_streams.install()

    @collab.main  # type: ignore[untyped-decorator]
    def main(self) -> None:
        """Take the run to its end."""
        from fedner.engines.flare.collab_link import CollabLink, let_platforms_rest
        from fedner.runs.deployment.server_job import coordinate_job

        logging.getLogger("nvflare.collab").setLevel(logging.WARNING)  # two lines for every call
        run = require_run_name(self._run)
        let_platforms_rest(collab.context.clients)
        links = {proxy.name: CollabLink(proxy) for proxy in collab.context.clients}
        coordinate_job(study_in(self._study), run, run_folder(own_home(), run), links)


class PlatformEndpoint:
    """What runs in a platform's job: it answers the server, and nobody else."""

    def __init__(self, study: str, run: str, roster: str = "") -> None:
        self._job = (run, study, roster)
        self._roster: Roster | None = None
        self._garbage = Garbage()
        # One thread computes; another one answers pings meanwhile.
        self._worker = ThreadPoolExecutor(1, "fedner-platform")
        end_quickly()
        finished_streams.install()
        print_no_payloads()

    @collab.publish  # type: ignore[untyped-decorator]
    def ping(self) -> str:
        """Say that the platform is alive."""
        return OK

    @collab.publish  # type: ignore[untyped-decorator]
    def ask(self, data: bytes) -> tuple[str, bytes]:
        """Do what an order says; return a code and the reply. It never raises."""
        try:
            if collab.caller != SERVER or not isinstance(data, bytes):
                return REFUSED, b""
            return OK, self._worker.submit(self._reply, collab.site_name, data).result()
        except Exception:  # noqa: BLE001 - an exception would cross with its text
            _log.exception("an order could not be answered")
            return REFUSED, b""

    @collab.final  # type: ignore[untyped-decorator]
    def close(self) -> None:
        """Let go of the platform."""
        self._worker.submit(self._let_go).result()
        self._worker.shutdown()

    def _reply(self, name: str, data: bytes) -> bytes:
        from fedner.engines.roster import Roster
        from fedner.runs.deployment.platform_job import answer_bytes, platform_answer

        if self._roster is None:
            job = announced(facts_of(*self._job))
            make = platform_answer(job, own_home(), own_settings(), SERVER)
            self._roster = Roster(make, [name])
        try:
            return answer_bytes(self._roster, name, data)
        finally:
            self._garbage.collect()

    def _let_go(self) -> None:
        if self._roster is not None:
            self._roster.close()


class PolicyGate(FLComponent):  # type: ignore[misc]
    """Guards FLARE's processes at a platform, the parent and each job, from their beginning."""

    def __init__(self) -> None:
        super().__init__()
        reconnect_soon()
        finished_streams.install()
        listener.install_caller()
        wire_guard.install()


class StudyResources(ResourceManagerSpec, FLComponent):  # type: ignore[misc]
    """Lets only those jobs start whose study the platform has just approved.

    A server could leave out FLARE's check and start a job at once. Only a check gives a token, and
    nothing starts without one, nor with another study than that of the check.
    """

    def __init__(self) -> None:
        super().__init__()
        self._admission = Admission()
        self._approved: dict[str, Facts] = {}

    def check_resources(self, resource_requirement: Any, fl_ctx: Any) -> tuple[bool, str]:
        """Approve a study; return a token for its start, or why not."""
        del fl_ctx
        reason = self._admission.refusal(resource_requirement, asked_by())
        if reason:
            return False, reason
        if len(self._approved) >= _MOST_TOKENS:
            self._approved.pop(next(iter(self._approved)))
        token = secrets.token_hex(16)
        self._approved[token] = facts_in(resource_requirement)
        return True, token

    def cancel_resources(self, resource_requirement: Any, token: str, fl_ctx: Any) -> None:
        """Forget an approval."""
        del resource_requirement, fl_ctx
        self._approved.pop(token, None)

    def allocate_resources(
        self, resource_requirement: Any, token: str, fl_ctx: Any
    ) -> dict[str, Any]:
        """Let an approved job start, once.

        Raises:
            RuntimeError: It was not approved.
        """
        del fl_ctx
        approved = self._approved.pop(token, None)
        if approved is None or approved != facts_in(resource_requirement):
            raise RuntimeError("this platform did not approve the job")
        return {}

    def free_resources(self, resources: Any, token: str, fl_ctx: Any) -> None:
        """Nothing is held."""

    def report_resources(self, fl_ctx: Any) -> dict[str, Any]:
        """Tell nothing."""
        del fl_ctx
        return {}
