"""What we use of nvflare 2.9, and what we count on: another release must fail here first."""

import inspect
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

nvflare = pytest.importorskip("nvflare", reason="needs the extra flare")

from nvflare.apis.event_type import EventType  # noqa: E402
from nvflare.apis.fl_constant import FLContextKey  # noqa: E402
from nvflare.apis.fl_context import FLContext  # noqa: E402
from nvflare.apis.job_def import JobMetaKey, RunStatus  # noqa: E402
from nvflare.apis.signal import Signal  # noqa: E402
from nvflare.collab.api.app import ClientApp, ServerApp  # noqa: E402
from nvflare.collab.api.exceptions import CollabCallError, RunAborted  # noqa: E402
from nvflare.collab.api.proxy import Proxy  # noqa: E402
from nvflare.collab.runtime.cell_dispatcher import CellDispatcher  # noqa: E402
from nvflare.collab.runtime.controller import CollabController  # noqa: E402
from nvflare.collab.runtime.dispatch import CollabCallAuthorizer, _call_app_method  # noqa: E402
from nvflare.collab.runtime.executor import CollabExecutor  # noqa: E402
from nvflare.fuel.f3.cellnet.cell import Adapter  # noqa: E402
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey  # noqa: E402
from nvflare.fuel.f3.cellnet.utils import new_cell_message  # noqa: E402
from nvflare.fuel.f3.sfm import conn_manager  # noqa: E402
from nvflare.fuel.f3.streaming.blob_streamer import BlobTask  # noqa: E402
from nvflare.fuel.flare_api.flare_api import Session  # noqa: E402
from nvflare.fuel.hci.client import api  # noqa: E402
from nvflare.fuel.hci.conn import Connection  # noqa: E402
from nvflare.fuel.hci.server.builtin import new_command_register_with_builtin_module  # noqa: E402
from nvflare.fuel.hci.server.constants import ConnProps  # noqa: E402
from nvflare.private.fed.server.server_cmd_modules import ServerCommandModules  # noqa: E402
from nvflare.private.fed.server.server_runner import ServerRunnerConfig  # noqa: E402
from nvflare.private.fed.utils.identity_utils import TokenVerifier  # noqa: E402

from fedner.engines.flare.collab_link import CollabLink, let_platforms_rest  # noqa: E402
from fedner.engines.flare.engine import OK, StoppedError  # noqa: E402
from fedner.engines.flare.known_tokens import remember_tokens  # noqa: E402
from fedner.engines.flare.presence import Presence  # noqa: E402
from fedner.engines.flare.reconnecting import reconnect_soon  # noqa: E402
from fedner.engines.flare.session import COMMAND  # noqa: E402
from fedner.engines.flare.unprinted import print_no_payloads  # noqa: E402
from fedner.engines.flare.watchdog import ENDED_WITH_SERVER, STOPPED  # noqa: E402
from fedner.federated.message_bytes import order_from_bytes, reply_from_bytes, to_bytes  # noqa: E402
from fedner.federated.messages import Failure, Order  # noqa: E402
from fedner.runs.deployment.components import (  # noqa: E402
    REFUSED,
    CoordinatorProgram,
    PlatformEndpoint,
    StudyResources,
)
from fedner.runs.deployment.server_process import JobDesk, RunCommands  # noqa: E402
from fedner.runs.deployment.serving import Desk  # noqa: E402
from fedner.runs.disclosure_record import RECORD, read_record  # noqa: E402


def test_the_release() -> None:
    assert nvflare.__version__.startswith("2.9.")


def parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


def test_signatures() -> None:
    assert "server_obj_id" in parameters(CollabController.__init__)
    assert {"client_obj_id", "collab_obj_ids"} <= parameters(CollabExecutor.__init__)
    assert {"timeout", "optional"} <= parameters(Proxy.__call__)
    assert {"username", "startup_path", "secure_mode"} <= parameters(Session.__init__)
    for name in ("submit_job", "abort_job", "list_jobs", "get_job_meta", "get_system_info"):
        assert callable(getattr(Session, name))
    assert {"detailed", "name_prefix"} <= parameters(Session.list_jobs)
    assert callable(api._print_hci_message)


def test_words() -> None:
    assert EventType.BEFORE_CHECK_RESOURCE_MANAGER == "_before_check_resource_manager"
    assert FLContextKey.JOB_BLOCK_REASON
    assert RunStatus.FINISHED_EXECUTION_EXCEPTION.value == ENDED_WITH_SERVER
    assert RunStatus.FINISHED_ABORTED.value == STOPPED
    assert RunStatus.FINISHED_COMPLETED.value == "FINISHED:COMPLETED"
    assert [RunStatus.RUNNING.value, RunStatus.DISPATCHED.value] == ["RUNNING", "DISPATCHED"]
    assert JobMetaKey.RESOURCE_SPEC.value == "resource_spec"
    assert JobMetaKey.SCHEDULE_HISTORY.value == "schedule_history"


def test_collab_finds_our_methods_and_no_others() -> None:
    app = ClientApp(PlatformEndpoint("{}", "run-1"))
    interface = app.get_collab_interface()["client"]
    assert sorted(interface) == ["ask", "ping"]
    assert app.find_collab_method(app, "close") is None
    assert app.find_collab_method(app, "_reply") is None
    assert [name for name, _ in ServerApp(CoordinatorProgram("{}", "run-1")).mains] == ["main"]


def called(endpoint: PlatformEndpoint, caller: str, method: str, **arguments: object) -> Any:
    """Call a platform as FLARE's receiver does after it has checked who calls."""
    app = ClientApp(endpoint)
    app.name = "clinic"
    app._abort_signal = Signal()
    keys = {"protocol_version": 1, "target_name": "clinic.client", "method_name": method}
    headers = {f"collab__{key}": value for key, value in keys.items()}
    headers["collab__authenticated_caller"] = caller
    payload = {"caller": caller, "method_name": method, "args": [], "kwargs": arguments}
    import logging

    return _call_app_method(new_cell_message(headers, payload), app, logging.getLogger("test"))


def test_the_endpoint_answers_the_server_alone(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("FEDNER_HOME", str(tmp_path))
    monkeypatch.setenv("FEDNER_SETTINGS", str(tmp_path / "absent.toml"))
    endpoint = PlatformEndpoint("{}", "run-1")
    data = to_bytes(Order("run-1", 0, verb="begin"))
    assert called(endpoint, "forum", "ask", data=data).payload["result"] == (REFUSED, b"")
    assert called(endpoint, "server", "ask", data="text").payload["result"] == (REFUSED, b"")
    # What goes wrong here has a text with a path; none of it crosses.
    message = called(endpoint, "server", "ask", data=data)
    assert message.payload == {"result": (REFUSED, b"")}
    assert called(endpoint, "server", "ping").payload["result"] == OK
    endpoint.close()


def test_nobody_else_gets_what_the_server_gets(monkeypatch: Any) -> None:
    """The platform would answer: who asks, and with what, is all that decides."""
    monkeypatch.setattr(PlatformEndpoint, "_reply", lambda *_: b"an update")
    endpoint = PlatformEndpoint("{}", "run-1")
    told = [
        called(endpoint, caller, "ask", data=data).payload["result"]
        for caller, data in (("server", b"x"), ("forum", b"x"), ("clinic", b"x"), ("server", "x"))
    ]
    assert told == [(OK, b"an update"), *[(REFUSED, b"")] * 3]
    endpoint.close()


def test_the_receiver_checks_who_calls() -> None:
    import logging

    app = ClientApp(PlatformEndpoint("{}", "run-1"))
    app.name = "clinic"
    people = {"server.job": "server", "forum.job": "forum"}
    check = CollabCallAuthorizer(app, "clinic.job", people, logging.getLogger("test"))
    headers = {
        MessageHeaderKey.ORIGIN: "forum.job",
        MessageHeaderKey.DESTINATION: "clinic.job",
        "collab__protocol_version": 1,
        "collab__target_name": "clinic",
        "collab__method_name": "ask",
        "collab__authenticated_caller": "server",  # a lie
    }
    assert check.authorize(headers) is None
    assert headers["collab__authenticated_caller"] == "forum"
    assert check.authorize({**headers, MessageHeaderKey.ORIGIN: "stranger"}) is not None


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (RunAborted("stop"), StoppedError),
        (CollabCallError("clinic", "ask", TimeoutError("late")), TimeoutError),
        (CollabCallError("clinic", "ask", "text of theirs"), ConnectionError),
    ],
)
def test_a_link_passes_on_no_text(raised: Exception, expected: type[Exception]) -> None:
    class Broken:
        def __call__(self, timeout: float, *, optional: bool) -> "Broken":
            assert (timeout, optional) == (3.0, False)
            return self

        def ask(self, data: bytes) -> object:  # noqa: ARG002
            raise raised

    with pytest.raises(expected) as caught:
        CollabLink(Broken()).ask(b"", 3.0)
    assert "theirs" not in str(caught.value)


def test_a_link_takes_nothing_but_a_code_and_bytes() -> None:
    class Odd:
        def __call__(self, timeout: float, *, optional: bool) -> "Odd":  # noqa: ARG002
            return self

        def ask(self, data: bytes) -> object:
            return {"result": data}

    assert CollabLink(Odd()).ask(b"x", 1.0) == ("", b"")


@pytest.mark.parametrize("said", [None, "refused", {"a": 1}])
def test_a_ping_is_answered_with_ok_or_has_failed(said: object) -> None:
    """FLARE gives None for what an optional call met, a platform without a connection too."""

    class Told:
        answer: object = OK

        def __call__(self, timeout: float, *, optional: bool) -> "Told":
            assert (timeout, optional) == (2.0, True)
            return self

        def ping(self) -> object:
            return self.answer

    told = Told()
    CollabLink(told).ping(2.0)
    told.answer = said
    with pytest.raises(ConnectionError):
        CollabLink(told).ping(2.0)


def test_resources_are_flares(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("FEDNER_HOME", str(tmp_path))
    monkeypatch.setenv("FEDNER_SETTINGS", str(tmp_path / "absent.toml"))
    spec = {"fedner": {"run": "run-1", "study": "no JSON"}}
    resources = StudyResources()
    words = "the job is not one that fedner wrote"
    assert resources.check_resources(spec, FLContext()) == (False, words)
    with pytest.raises(RuntimeError, match="did not approve"):
        resources.allocate_resources(spec, "invented", FLContext())
    (line,) = read_record(tmp_path / RECORD).lines
    assert line.code == "job-foreign"


def test_places_that_the_guard_of_a_platform_hooks_into() -> None:
    """`runs.deployment.wire_guard` speaks FLARE's words without importing FLARE."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.cellnet.defs import (
        CellChannel,
        CellChannelTopic,
        MessageHeaderKey,
        MessagePropKey,
    )
    from nvflare.fuel.f3.streaming import stream_const
    from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE
    from nvflare.private.defs import RequestHeader, TrainingTopic
    from nvflare.private.fed.client.admin import FedAdminAgent
    from nvflare.private.scheduler_constants import ShareableHeader

    assert callable(CoreCell.set_message_interceptor)
    assert callable(FedAdminAgent._dispatch_request)
    assert MessagePropKey.ENDPOINT != MessagePropKey.COMMON_NAME
    assert MessageHeaderKey.ORIGIN == "cn__origin"
    assert MessageHeaderKey.DESTINATION == "cn__destination"
    assert (MessageHeaderKey.CHANNEL, MessageHeaderKey.TOPIC) == ("cn__channel", "cn__topic")
    assert stream_const.STREAM_CHANNEL == "sm__STREAM"
    assert stream_const.STREAM_DATA_TOPIC == "sm__DATA"
    assert stream_const.StreamHeaderKey.CHANNEL == "sm__ch"
    assert stream_const.StreamHeaderKey.TOPIC == "sm__tp"
    assert CellChannel.CLIENT_MAIN == "admin"
    assert CellChannelTopic.Bye == "bye"
    assert TrainingTopic.CHECK_RESOURCE == "scheduler.check_resource"
    assert TrainingTopic.CANCEL_RESOURCE == "scheduler.cancel_resource"
    assert (TrainingTopic.DEPLOY, TrainingTopic.START_JOB) == ("train.deploy", "train.start_job")
    assert TrainingTopic.NOTIFY_JOB_STATUS == "train.notify_job_status"
    assert TrainingTopic.ABORT == "train.abort"
    assert (RequestHeader.JOB_ID, RequestHeader.JOB_META) == ("job_id", "job_meta")
    assert RequestHeader.APP_NAME == "app_name"
    assert (RequestHeader.SUBMITTER_NAME, RequestHeader.USER_NAME) == (
        "_submitterName",
        "_userName",
    )
    assert ShareableHeader.RESOURCE_RESERVE_TOKEN == "_resource_reserve_token"
    assert NVFLARE_SIG_FILE == ".__nvfl_sig.json"
    assert NVFLARE_SUBMITTER_CRT_FILE == ".__nvfl_submitter.crt"


def test_orders_and_replies_are_bytes_on_both_sides() -> None:
    assert order_from_bytes(to_bytes(Order("run-1", 2))).round == 2
    assert reply_from_bytes(to_bytes(Failure("a", 2, "platform-gone"))).round == 2


def test_flares_server_takes_a_command_of_ours(tmp_path: Path) -> None:
    register = new_command_register_with_builtin_module(app_ctx=None)
    desk = Desk(tmp_path / "runs", tmp_path / "disabled_clients.json")
    register.register_module(RunCommands(desk, JobDesk(Presence())))
    register.finalize()
    conn = Connection(props={ConnProps.USER_NAME: "north", ConnProps.USER_ROLE: ""})
    register.process_command(conn, f"{COMMAND} files -")
    (said,) = [each["data"] for each in conn.buffer.output["data"] if each["type"] == "dict"]
    assert said == {"error": "no run is finished yet"}
    assert callable(ServerCommandModules.register_cmd_module)
    assert find_spec("nvflare.private.fed.app.server.server_train") is not None


def test_platforms_try_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """FLARE looks at the longest wait after every attempt, and waits for as long as it says."""
    assert "wait > MAX_WAIT" in inspect.getsource(conn_manager.ConnManager.start_connector_task)
    monkeypatch.setattr(conn_manager, "MAX_WAIT", conn_manager.MAX_WAIT)
    reconnect_soon()
    assert conn_manager.MAX_WAIT == 2


def test_what_the_listener_hooks_into() -> None:
    """fedner.runs.deployment.listener replaces these, by these arguments and attributes."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.drivers import socket_conn, tcp_driver
    from nvflare.fuel.f3.sfm.heartbeat_monitor import HeartbeatMonitor
    from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection

    server, connection = tcp_driver.TcpStreamServer, socket_conn.SocketConnection
    assert "self.ssl_context.wrap_socket(self.socket, server_side=True)" in inspect.getsource(
        server
    )
    assert {"request", "client_address"} <= parameters(server.finish_request)
    assert {"sock"} <= parameters(connection.__init__)
    assert "MAX_FRAME_SIZE" in inspect.getsource(connection.read_frame)
    assert {"params", "ssl_server"} == parameters(tcp_driver.get_ssl_context)
    assert "context.wrap_socket(sock)" in inspect.getsource(tcp_driver.TcpDriver.connect)
    assert {"endpoint", "connection", "message"} <= parameters(CoreCell._process_received_msg)
    assert "self.conns.values()" in inspect.getsource(HeartbeatMonitor._check_heartbeat)
    assert "self.interval" in inspect.getsource(HeartbeatMonitor._check_heartbeat)
    assert "self.last_activity" in inspect.getsource(SfmConnection.__init__)


def test_a_tokens_signature_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[tuple[str, str, str]] = []

    def verify(_: object, *key: str) -> bool:
        verified.append(key)
        return key[2] == "signed"

    monkeypatch.setattr(TokenVerifier, "verify", verify)
    remember_tokens()
    one, other = (TokenVerifier.__new__(TokenVerifier) for _ in range(2))
    assert all(one.verify("north", "token", "signed") for _ in range(3))
    assert len(verified) == 1
    assert not any(one.verify("north", "token", "forged") for _ in range(2))
    assert not one.verify("north", "token-2", "forged")
    assert len(verified) == 4, "what failed is verified again"
    assert other.verify("north", "token", "signed")
    assert len(verified) == 5, "another key knows nothing"


def test_platforms_rest_once_a_job_has_begun() -> None:
    config = ServerRunnerConfig(1, 0.5, [], {}, {}, [], {})
    engine = SimpleNamespace(server=SimpleNamespace(server_runner=SimpleNamespace(config=config)))
    backend = CellDispatcher(None, engine, "server", None, "north.job", None, None)
    let_platforms_rest([Proxy(ServerApp(CoordinatorProgram("{}", "run-1")), "a", "a", backend, {})])
    assert config.task_request_interval == 2.0
    let_platforms_rest([])


def test_a_message_that_arrives_is_not_spelled_out() -> None:
    """FLARE's receiver puts what arrived into a line of its debug log, written or not."""
    assert "incoming data={result}" in inspect.getsource(Adapter.call)
    stream = SimpleNamespace(get_size=lambda: 2, headers={}, get_stream_id=lambda: 1)
    parts = BlobTask(None, stream, preserve_chunks=True).buffer
    parts.append(bytearray(b"our words"))
    print_no_payloads()
    assert f"{parts}" == "<1 parts>"
