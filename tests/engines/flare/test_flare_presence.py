"""Whose process has ended while a job starts, from what FLARE's server process holds."""

import sys
from importlib.util import find_spec, module_from_spec
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare", reason="needs the extra flare")

from nvflare.apis.client import Client
from nvflare.apis.fl_constant import RunProcessKey
from nvflare.fuel.common.exit_codes import ProcessExitCode
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.private.defs import CellMessageHeaderKeys, JobFailureMsgKey
from nvflare.private.fed.server.fed_server import FederatedServer

from fedner.engines.flare.presence import (
    Contact,
    Presence,
    close_job,
    contacts,
    hear_failures,
    present,
)
from fedner.engines.flare.quick_end import end_quickly
from fedner.runs.deployment.server_process import JobDesk

WHOLE = Contact(is_known=True, has_parent=True, has_job=True)
STARTING = Contact(is_known=True, has_parent=True, has_job=False)
CUT = Contact(is_known=True, has_parent=False, has_job=False)


def test_a_process_that_is_not_connected_yet_is_waited_for() -> None:
    presence = Presence(3.0)
    for now in range(100):
        assert presence.lost("job", {"a": STARTING}, float(now)) == []


def test_a_job_whose_connection_ended_is_lost_after_a_while() -> None:
    presence = Presence(3.0)
    both = {"a": WHOLE, "b": WHOLE}
    assert presence.lost("job", both, 0.0) == []
    assert presence.lost("job", both | {"b": STARTING}, 1.0) == []
    assert presence.lost("job", both | {"b": STARTING}, 3.9) == []
    assert presence.lost("job", both | {"b": STARTING}, 4.0) == ["b"]
    assert presence.lost("another", {"b": STARTING}, 4.0) == [], "it begins there"


def test_a_connection_that_is_made_again_counts_anew() -> None:
    presence = Presence(3.0)
    for now, contact in [(0.0, CUT), (2.9, CUT), (3.0, WHOLE), (3.1, CUT), (6.0, CUT)]:
        assert presence.lost("job", {"a": contact}, now) == []
    assert presence.lost("job", {"a": CUT}, 6.2) == ["a"]


def test_a_platform_that_was_started_again_is_lost_at_once() -> None:
    again = Contact(is_known=False, has_parent=True, has_job=False)
    assert Presence().lost("job", {"b": again, "a": again, "c": WHOLE}, 0.0) == ["a", "b"]


def test_jobs_that_are_over_are_forgotten() -> None:
    presence = Presence(3.0)
    presence.lost("job", {"a": WHOLE}, 0.0)
    presence.lost("job", {"a": CUT}, 1.0)
    presence.keep(["another"])
    assert presence.lost("job", {"a": CUT}, 100.0) == []
    assert presence.lost("job", {"a": STARTING}, 200.0) == []


class Engine:
    """What the engine of FLARE's server process holds, as far as it is read."""

    def __init__(self) -> None:
        client = Client("north", "token-1")
        client.set_fqcn("north")
        self.run_processes = {"job": {RunProcessKey.PARTICIPANTS: {"token-1": client}}}
        self.client_manager = SimpleNamespace(clients={"token-1": client})
        self.agents: dict[str, object] = {"north": 1, "north.job": 1}
        core = SimpleNamespace(agents=self.agents)
        self.server = SimpleNamespace(cell=SimpleNamespace(core_cell=core))
        self.failed: list[tuple[str, int]] = []
        self.job_runner = SimpleNamespace(fail_run=self._fail)

    def _fail(self, job: str, code: int, _context: object) -> None:
        self.failed.append((job, code))

    def new_context(self) -> "Engine":
        return self

    def __enter__(self) -> str:
        return "context"

    def __exit__(self, *_: object) -> None:
        pass


def test_how_platforms_stand_is_read_from_flares_tables() -> None:
    engine = Engine()
    assert contacts(engine, "job") == {"north": WHOLE}
    del engine.agents["north.job"]
    assert contacts(engine, "job") == {"north": STARTING}
    del engine.agents["north"]
    assert contacts(engine, "job") == {"north": CUT}
    engine.client_manager.clients = {"token-2": object()}
    assert not contacts(engine, "job")["north"].is_known
    assert contacts(engine, "another") == {}


def test_who_can_be_given_a_job_has_a_connection_and_was_heard_of() -> None:
    engine = Engine()
    [client] = engine.client_manager.clients.values()
    client.last_connect_time = 100.0
    assert present(engine, 109.0) == ["north"]
    assert present(engine, 111.0) == []
    del engine.agents["north"]
    assert present(engine, 101.0) == []


def test_a_job_is_closed_as_one_that_failed() -> None:
    engine = Engine()
    close_job(engine, "job")
    assert engine.failed == [("job", ProcessExitCode.EXCEPTION)]


@pytest.mark.parametrize(
    ("token", "code", "awaited", "lost"),
    [
        ("token-1", 101, ["north"], ["north"]),
        ("token-1", 0, ["north"], []),
        ("token-1", 101, [], []),  # FLARE has ended that process itself
        ("forged", 101, ["north"], []),
    ],
)
def test_who_says_that_its_process_ended_is_noted(
    monkeypatch: pytest.MonkeyPatch, token: str, code: int, awaited: list[str], lost: list[str]
) -> None:
    engine, presence, passed = Engine(), Presence(), []
    monkeypatch.setattr(
        FederatedServer, "process_job_failure", lambda _, request: passed.append(request)
    )
    engine.job_runner.is_client_outcome_pending = lambda _, name: name in awaited
    server = SimpleNamespace(client_manager=engine.client_manager, engine=engine)
    headers = {CellMessageHeaderKeys.TOKEN: token}
    payload = {JobFailureMsgKey.JOB_ID: "job", JobFailureMsgKey.CODE: code}
    hear_failures(presence)
    FederatedServer.process_job_failure(server, new_cell_message(headers, payload))
    assert len(passed) == 1, "FLARE hears it all the same"
    assert presence.lost("job", contacts(engine, "job"), 0.0) == lost


@pytest.mark.parametrize("role", ["", "coordinator"])
@pytest.mark.parametrize("verb", ["present", "lost", "close"])
def test_only_the_watchdog_may_ask(role: str, verb: str) -> None:
    engine = Engine()
    said = JobDesk(Presence()).answer(engine, role, [verb, "job"])
    assert said == {"error": "only the watchdog may ask that"}
    assert engine.failed == []


def test_the_watchdog_is_told_and_obeyed() -> None:
    engine, desk = Engine(), JobDesk(Presence())
    assert desk.answer(engine, "watchdog", ["lost", "job"]) == {"lost": []}
    engine.client_manager.clients = {}
    assert desk.answer(engine, "watchdog", ["lost", "job"]) == {"lost": ["north"]}
    assert desk.answer(engine, "watchdog", ["close", "job"]) == {"closed": "job"}
    assert [job for job, _ in engine.failed] == ["job"]
    assert desk.answer(engine, "watchdog", ["present"]) == {"present": []}
    for words in ([], ["lost"], ["lost", "job", "more"]):
        assert "error" in desk.answer(engine, "watchdog", words)


def test_a_jobs_process_does_not_sleep_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_spec("nvflare.fuel.f3.mpm")
    assert found is not None
    assert found.loader is not None
    fresh = module_from_spec(found)
    found.loader.exec_module(fresh)
    monkeypatch.setitem(sys.modules, "nvflare.fuel.f3.mpm", fresh)
    slept: list[float] = []
    monkeypatch.setattr(fresh, "time", SimpleNamespace(sleep=slept.append))

    def end() -> None:
        fresh.MainProcessMonitor._cleanup_cbs = [(lambda: None, (), {})]
        fresh.MainProcessMonitor._start_shutdown(3, 3)

    end()
    end_quickly()
    end()
    assert slept == [3, 0.1]
