"""What a platform's processes answer: decided by headers and words, without a connection."""

import io
import json
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="needs the extra flare")

from nvflare.fuel.f3.cellnet.defs import MessagePropKey
from nvflare.private.admin_defs import Message

from fedner.engines.flare.job import platform_config
from fedner.errors import FednerError
from fedner.federated.failure_codes import FAILURES
from fedner.runs.deployment import wire_guard
from fedner.runs.deployment.announcing import Facts
from fedner.runs.deployment.components import CoordinatorProgram, StudyResources
from fedner.runs.deployment.wire_guard import (
    AdminGuard,
    Refusals,
    asked_by,
    facts_of_app,
    is_allowed,
)
from fedner.runs.disclosure_record import RECORD, read_record

JOB, OTHER = "0b5b0f39-3a5e-4d6c-9a31-1d6f0f2b7c11", "7c5b0f39-3a5e-4d6c-9a31-1d6f0f2b7c22"
GIVEN = {"run": "run-1", "study": "{}", "roster": ""}
CONFIG = "config/config_fed_client.json"
SPEC = {"fedner": GIVEN}


def headers(
    channel: str, topic: str, destination: str = "north", origin: str = "server", **more: str
) -> dict[str, str]:
    told = {"cn__channel": channel, "cn__topic": topic, "cn__origin": origin}
    return told | {"cn__destination": destination} | more


def streamed(channel: str, topic: str, destination: str) -> dict[str, str]:
    return headers("sm__STREAM", "sm__DATA", destination, sm__ch=channel, sm__tp=topic)


NEEDED = [
    headers("admin", "admin"),
    headers("cellnet.channel", "bye"),
    headers("sm__STREAM", "sm__ACK", f"north.{JOB}"),
    streamed("collab", "call", f"north.{JOB}"),
    streamed("aux_communication", "__end_run__", f"north.{JOB}"),
    streamed("return_only", "server_command:get_task", f"north.{JOB}"),
]
FOREIGN = [
    headers("_net_manager", "config_vars"),
    headers("_net_manager", "process_info"),
    headers("_net_manager", "stop_cell", f"north.{JOB}"),
    headers("cellnet.channel", "bulk"),
    headers("client_command", "show_errors", f"north.{JOB}"),
    headers("client_command", "abort", f"north.{JOB}"),
    headers("admin", "admin", f"north.{JOB}"),
    headers("aux_communication", "fed.event"),
    headers("server_command", "get_task"),
    streamed("aux_communication", "__do_task__", f"north.{JOB}"),
    streamed("client_command", "show_errors", f"north.{JOB}"),
    streamed("collab", "call", "north"),
    streamed("admin", "admin", f"north.{JOB}"),
    headers("collab", "other", f"north.{JOB}"),
    headers("admin", "admin", "south"),  # it hands on nothing between others
    headers("admin", "admin", "northern"),
    streamed("collab", "call", f"northern.{JOB}"),
    headers("client_command", "abort", f"north.{JOB}", origin="north"),  # in its own name
    {},
]


@pytest.mark.parametrize("told", NEEDED)
def test_what_a_job_needs_is_answered(told: dict[str, str]) -> None:
    own = told["cn__destination"]
    assert is_allowed(told, "server", "localhost", own)
    assert is_allowed(told, "server", "localhost", "north"), "and handed on by the parent"


@pytest.mark.parametrize("told", FOREIGN)
def test_nothing_else_is_answered(told: dict[str, str]) -> None:
    for own in ("north", f"north.{JOB}"):
        assert not is_allowed(told, "server", "localhost", own)


def test_own_processes_speak_freely_and_nobody_in_their_name() -> None:
    told = headers("client_command", "abort", f"north.{JOB}", origin="north")
    assert is_allowed(told, "north", None, f"north.{JOB}")
    assert not is_allowed(told, "north", "localhost", f"north.{JOB}"), "the certificate tells"
    assert not is_allowed(told, "server", None, f"north.{JOB}")
    assert not is_allowed(told, "north.x", "south", f"north.{JOB}")


def zipped(files: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content if isinstance(content, str) else json.dumps(content))
    return target.getvalue()


def config(**changes: Any) -> dict[str, Any]:
    table = json.loads(json.dumps(platform_config(GIVEN)))
    return table | changes  # type: ignore[no-any-return]


def changed(change: Any) -> dict[str, Any]:
    table = config()
    change(table)
    return table


def test_the_app_that_fedner_writes_is_taken() -> None:
    signed = dict.fromkeys((".__nvfl_sig.json", "config/.__nvfl_submitter.crt"), "x")
    assert facts_of_app(zipped({CONFIG: config()})) == Facts(**GIVEN)
    assert facts_of_app(zipped({CONFIG: config(), "config/": "", **signed})) == Facts(**GIVEN)


def damaged(data: bytes, flags: int = 0, method: int = 0) -> bytes:
    """Return an archive whose headers claim a password or another way of packing."""
    changed = bytearray(data)
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.index(mark) + at
        changed[place] |= flags
        changed[place + 2] = method or changed[place + 2]
    return bytes(changed)


def twice(first: str, second: str) -> bytes:
    """Return an archive that holds a file of one name twice."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(CONFIG, first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            archive.writestr(CONFIG, second)
    return target.getvalue()


EVIL = {"id": "evil", "path": "subprocess.Popen", "args": {}}
APPS: dict[str, Any] = {
    "no archive": b"x",
    "no bytes": "text",
    "empty": zipped({}),
    "no configuration": zipped({"config/": ""}),
    "shipped Python": zipped({CONFIG: config(), "custom/fedner/__init__.py": ""}),
    "Python beside it": zipped({CONFIG: config(), "config/evil.py": ""}),
    "a second configuration": zipped({CONFIG: config(), "config/config_fed_client.conf": "{}"}),
    "a path that climbs": zipped({CONFIG: config(), "../evil.py": ""}),
    "an absolute path": zipped({CONFIG: config(), "/etc/evil": ""}),
    "no table": zipped({CONFIG: "[]"}),
    "no JSON": zipped({CONFIG: "{"}),
    "a foreign class": zipped({CONFIG: changed(lambda t: t["components"].append(EVIL))}),
    "another class": zipped(
        {CONFIG: changed(lambda t: t["components"][0].update(path="os.system"))}
    ),
    "another executor": zipped(
        {CONFIG: changed(lambda t: t["executors"][0]["executor"].update(path="os.system"))}
    ),
    "another argument": zipped(
        {CONFIG: changed(lambda t: t["components"][0]["args"].update(home="/"))}
    ),
    "a study that is a class": zipped(
        {CONFIG: changed(lambda t: t["components"][0]["args"].update(study=EVIL))}
    ),
    "another key": zipped({CONFIG: config(task_result_filters=[EVIL])}),
    "another number": zipped({CONFIG: config(np_download_chunk_size=1)}),
    "a flag for a number": zipped({CONFIG: config(np_download_chunk_size=False)}),
    "a key twice": zipped({CONFIG: json.dumps(config())[:-1] + ', "executors": []}'}),
    "a key twice, the last one ours": zipped(
        {CONFIG: '{"executors": [], ' + json.dumps(config())[1:]}
    ),
    "a file twice": twice("{}", json.dumps(config())),
    "a password": damaged(zipped({CONFIG: config()}), flags=1),
    "packed in another way": damaged(zipped({CONFIG: config()}), method=97),
    "too large": zipped({CONFIG: config(), "config/.__nvfl_submitter.crt": " " * (2**26 + 1)}),
}


@pytest.mark.parametrize("kind", APPS)
def test_no_other_app_is_taken(kind: str) -> None:
    with pytest.raises(FednerError):
        facts_of_app(APPS[kind])


def test_an_app_has_a_largest_size_packed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_guard, "_MOST_APP", 10_000)
    whole = zipped({CONFIG: config()})
    assert facts_of_app(bytes(10_000 - len(whole)) + whole) == Facts(**GIVEN)
    with pytest.raises(FednerError, match="too large"):
        facts_of_app(bytes(10_001 - len(whole)) + whole)


def request(topic: object, body: Any = "", origin: str = "server", **told: Any) -> Any:
    message = Message(topic=topic, body=body)
    for key, value in told.items():
        message.set_header(key, value)
    return SimpleNamespace(payload=message, get_header={"cn__origin": origin}.get)


def deploy(app: bytes, job: str = JOB, **told: Any) -> Any:
    given = {"job_id": job, "job_meta": {"job_id": job}, "app_name": "platform"} | told
    return request("train.deploy", app, **given)


def start(body: Any, job: str = JOB, **told: Any) -> Any:
    return request("train.start_job", body, **{"job_id": job, "job_meta": {"job_id": job}} | told)


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AdminGuard:
    monkeypatch.setenv("FEDNER_HOME", str(tmp_path))
    return AdminGuard(Refusals())


HONEST = zipped({CONFIG: config()})


def test_a_job_is_deployed_started_and_ended(guard: AdminGuard) -> None:
    asked = [
        request("scheduler.check_resource", SPEC, job_id=JOB),
        deploy(HONEST),
        start(SPEC),
        request("train.abort", job_id=JOB),
        request("scheduler.cancel_resource", SPEC),
        request("train.notify_job_status", origin=f"north.{JOB}", job_id=JOB),
    ]
    assert [guard.problem(each, "north") for each in asked] == [None] * len(asked)


TOPICS = (
    "sys.shell", "sys.info", "sys.report_env", "sys.report_version", "sys.configure_site_log",
    "resource_manager.report_resources", "train.delete_run", "train.shutdown", "train.restart",
    "train.check_status", "train.get_scopes", "train.configure_job_log", "train.abort_task",
    "train.notify_job_status", "info.show_errors", "info.show_stats", "comp_caller.call_component",
)  # fmt: skip


@pytest.mark.parametrize("topic", TOPICS)
def test_a_server_gets_nothing_else(guard: AdminGuard, topic: str) -> None:
    assert guard.problem(request(topic, job_id=JOB), "north") == topic


def test_all_topics_of_flare_are_decided() -> None:
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    known = {
        topic for each in ClientRequestProcessors.request_processors for topic in each.get_topics()
    }
    ours = {"scheduler.check_resource", "scheduler.cancel_resource"}
    ours |= {"train.deploy", "train.start_job", "train.abort"}
    assert ours <= known
    for topic in known - ours:
        assert AdminGuard(Refusals()).problem(request(topic, job_id=JOB), "north") == topic


def without_headers(asked: Any) -> Any:
    """Return a request as only a hand-made message has it."""
    asked.payload.headers = None
    return asked


REFUSED: dict[str, Any] = {
    "no headers": without_headers(deploy(HONEST)),
    "no message": SimpleNamespace(payload={}, get_header={}.get),
    "a topic that is none": request(7),
    "a job that asks its parent": request("sys.shell", "cat x", origin=f"north.{JOB}"),
    "a job without a name": deploy(HONEST, "../../escaped"),
    "a job that is no text": request("train.abort", job_id=["x"]),
    "words in a name": request("train.abort", job_id=f"{JOB} -m evil"),
    "another app": deploy(HONEST, app_name="server"),
    "a description of another job": deploy(HONEST, job_meta={"job_id": OTHER}),
    "no description": deploy(HONEST, job_meta=None),
    "a way to be started": deploy(HONEST, job_meta={"job_id": JOB, "job_launcher_spec": {"x": 1}}),
    "shipped Python": deploy(APPS["shipped Python"]),
    "not deployed": start(SPEC),
    "no facts": start({}),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_requests_that_fit_no_job_are_refused(guard: AdminGuard, kind: str) -> None:
    assert guard.problem(REFUSED[kind], "north") is not None


def test_a_start_needs_the_facts_of_what_was_deployed(guard: AdminGuard) -> None:
    """A check of one study, the deployment of another: what starts is what was approved."""
    assert guard.problem(deploy(HONEST), "north") is None
    for change in ({"study": "[]"}, {"run": "run-2"}, {"roster": "x"}):
        assert guard.problem(start({"fedner": GIVEN | change}), "north") is not None
    assert guard.problem(start(SPEC, OTHER), "north") is not None
    for meta in (None, {"job_id": OTHER}, {"job_id": JOB, "job_launcher_spec": {"x": 1}}):
        assert guard.problem(start(SPEC, job_meta=meta), "north") is not None
    assert guard.problem(start(SPEC), "north") is None
    assert guard.problem(deploy(APPS["another key"]), "north") is not None
    assert guard.problem(start(SPEC), "north") is not None, "the last deployment was refused"


def test_a_refusal_is_answered_in_fixed_words_and_on_record(
    guard: AdminGuard, tmp_path: Path
) -> None:
    def never(_: Any) -> None:
        raise AssertionError("FLARE was asked")

    asked = request("sys.shell", "cat /etc/passwd", _userName="coordinator@fedner.local")
    for _ in range(3):
        reply = guard.answered(asked, "north", never)
        assert reply.payload.body == FAILURES["request-foreign"] == wire_guard.WORDS
    forged = request("evil topic\n", "x", _userName="a name\nwith lines")
    guard.answered(forged, "north", never)
    lines = read_record(tmp_path / RECORD).lines
    assert [(line.asked_by, line.verb, line.code) for line in lines] == [
        ("server for coordinator@fedner.local", "sys.shell", "request-foreign"),
        ("server", "another topic", "request-foreign"),
    ], "each kind once a minute"


def test_who_asks_is_known_while_a_request_is_answered(guard: AdminGuard) -> None:
    told = {"job_id": JOB, "_submitterName": "coordinator@fedner.local"}
    asked = request("scheduler.check_resource", SPEC, **told)
    assert guard.answered(asked, "north", lambda _: asked_by()) == (
        "server for coordinator@fedner.local"
    )
    assert asked_by() == "server"


def test_a_flood_does_not_fill_the_record(
    guard: AdminGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_guard, "_MOST_KINDS", 5)
    for number in range(20):
        guard.answered(request(f"topic.{number}"), "north", lambda _: None)
    assert len(read_record(tmp_path / RECORD).lines) == 5


def test_what_is_refused_again_after_a_minute_is_recorded_again(
    guard: AdminGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(wire_guard.time, "monotonic", lambda: now[0])
    for later in (0.0, 59.0, 2.0, 1.0):
        now[0] += later
        guard.answered(request("sys.shell"), "north", lambda _: None)
    assert len(read_record(tmp_path / RECORD).lines) == 2


def test_deployed_jobs_do_not_pile_up(guard: AdminGuard) -> None:
    for number in range(105):
        assert guard.problem(deploy(HONEST, f"{JOB[:-3]}{number:03}"), "north") is None
    assert len(guard._deployed) == 100
    assert guard.problem(start(SPEC, f"{JOB[:-3]}104"), "north") is None, "the newest are known"


def came(told: dict[str, str], cell: str, common_name: str | None = None) -> Any:
    """Return a message as FLARE hands it to an interceptor."""
    end = SimpleNamespace(name=cell)
    props = {MessagePropKey.ENDPOINT: end, MessagePropKey.COMMON_NAME: common_name}
    return SimpleNamespace(headers=told, get_prop=props.get)


def test_an_intercepted_message_is_answered_with_a_refusal_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDNER_HOME", str(tmp_path))
    refusals = Refusals()
    honest = headers("admin", "admin")
    assert wire_guard._intercepted(came(honest, "server", "localhost"), "north", refusals) is None
    assert not (tmp_path / RECORD).exists()
    for told, cell in (
        (headers("_net_manager", "echo"), "server"),
        (streamed("client_command", "abort", f"north.{JOB}"), f"server.{JOB}"),
        (headers("_net_manager", "evil\ntopic"), "south"),
    ):
        reply = wire_guard._intercepted(came(told, cell, "x"), "north", refusals)
        assert reply.headers["cn__return_code"] == "invalid_request"
    lines = read_record(tmp_path / RECORD).lines
    assert [(line.asked_by, line.verb) for line in lines] == [
        ("server", "_net_manager echo"),
        ("server", "client_command abort"),
        ("another party", "_net_manager another topic"),
    ]


def test_a_token_is_for_one_start_of_the_very_job(monkeypatch: pytest.MonkeyPatch) -> None:
    resources = StudyResources()
    monkeypatch.setattr(resources._admission, "refusal", lambda *_: "")
    _, token = resources.check_resources(SPEC, None)
    for change in ({"study": "[]"}, {"run": "run-2"}, {"roster": "x"}):
        _, other = resources.check_resources(SPEC, None)
        with pytest.raises(RuntimeError, match="did not approve"):
            resources.allocate_resources({"fedner": GIVEN | change}, other, None)
    assert resources.allocate_resources(SPEC, token, None) == {}
    with pytest.raises(RuntimeError, match="did not approve"):
        resources.allocate_resources(SPEC, token, None)
    _, token = resources.check_resources(SPEC, None)
    resources.cancel_resources(SPEC, token, None)
    with pytest.raises(RuntimeError, match="did not approve"):
        resources.allocate_resources(SPEC, token, None)
    assert resources.report_resources(None) == {}


def test_a_refused_job_gets_words_and_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    resources = StudyResources()
    monkeypatch.setattr(resources._admission, "refusal", lambda *_: "no")
    assert resources.check_resources(SPEC, None) == (False, "no")
    assert not resources._approved


def test_a_run_that_climbs_out_of_its_folder_is_not_coordinated() -> None:
    with pytest.raises(FednerError):
        CoordinatorProgram("{}", "../../escaped").main()


def test_tokens_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    resources = StudyResources()
    monkeypatch.setattr(resources._admission, "refusal", lambda *_: "")
    for _ in range(1_010):
        resources.check_resources(SPEC, None)
    assert len(resources._approved) == 1_000


def test_the_gate_guards_cells_and_admin_requests() -> None:
    """In a process of its own: FLARE's classes stay changed."""
    code = """
import sys
from fedner.runs.deployment.components import PolicyGate
PolicyGate()
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
guarded = CoreCell.__init__
PolicyGate()
print(CoreCell.__init__ is guarded)
cell = CoreCell("north", "tcp://localhost:1", secure=False, credentials={})
print(cell.message_interceptor.__module__, cell.message_interceptor_args[0])
from nvflare.private.fed.client.admin import FedAdminAgent
print(FedAdminAgent._dispatch_request.__module__)
print("torch" in sys.modules)
import os; os._exit(0)
"""
    told = subprocess.run(
        [sys.executable, "-u", "-c", code], capture_output=True, text=True, check=True, timeout=300
    ).stdout.split()
    module = "fedner.runs.deployment.wire_guard"
    assert told == ["True", module, "north", module, "False"], "and the parent loads no torch"
