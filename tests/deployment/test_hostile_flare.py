"""A malicious server and a malicious coordinator, with their real keys, on kits as installed.

One federation of real processes for all: its server is FLARE's own, which besides sends whatever a
test says, past its own checks (`hostile_server`). Nothing is answered that is not part of a job
that fedner wrote and the policy accepts; the platform's record names who asked.
"""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hostile_server import HostileServer, facts, honest_config, job_id
from live import NAMES, RUN, Live, live, quick_keys, tiny_settings, until

from fedner.engines.flare.job import JobSpec, write_job
from fedner.engines.flare.processes import members
from fedner.engines.flare.session import admin_session
from fedner.errors import FednerError
from fedner.federated.failure_codes import FAILURES
from fedner.federated.message_bytes import reply_from_bytes, to_bytes
from fedner.federated.messages import Failure, Order, Update
from fedner.federated.sizes import planned_batches
from fedner.runs.blueprint import blueprint
from fedner.runs.deployment.approvals import write_letter
from fedner.runs.deployment.federation import approve, replace_study
from fedner.runs.deployment.taking_part import install_platform, request_platform
from fedner.runs.disclosure_record import RECORD, RecordLine, read_record
from fedner.runs.public_files import declared_files
from fedner.runs.schedule import algorithm_for
from fedner.runs.study_defaults import with_defaults
from fedner.settings import Study

pytestmark = pytest.mark.deployment
PLATFORM, SECRET = NAMES[0], "Zebrafinkomycin"
FOREIGN = FAILURES["request-foreign"]
# Most studies here are refused for what they are, not for being others than the installed one.
ANY_STUDY = 'studies = ["any"]\n'
POLICY = f"\n[policy]\nmax_rounds = 8\nmax_updates = 3\n{ANY_STUDY}"
CONFIG = "config/config_fed_client.json"
MEMORY = 120 * 2**20  # bytes that a parent process may hold; FLARE alone takes 85 MB


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("hostile")
    with quick_keys(), live(folder, tiny_settings()) as made:
        for path in made.settings.values():
            path.write_text(path.read_text() + POLICY)
        yield made


@pytest.fixture(scope="module")
def server(federation: Live) -> HostileServer:
    hostile = HostileServer(federation, federation.folder / "box")
    hostile.start()
    federation.start(*NAMES)
    federation.wait_connected()
    return hostile


@pytest.fixture(scope="module")
def secret(federation: Live) -> Path:
    path = federation.homes.platforms[PLATFORM].path / "secret.txt"
    path.write_text(SECRET)
    return path


def lines(federation: Live, name: str = PLATFORM) -> tuple[RecordLine, ...]:
    return read_record(federation.homes.platforms[name].path / RECORD).lines


def deployed(federation: Live, job: str) -> bool:
    return (federation.homes.platforms[PLATFORM].workspace / job).exists()


def job_processes(federation: Live) -> int:
    """How many processes of jobs run at the platform; the child that checks one is none."""
    home = federation.homes.platforms[PLATFORM].path
    parent = federation.processes[PLATFORM].pid
    return sum(_is_job(pid) for pid in members(home) if pid != parent)


def _is_job(pid: int) -> bool:
    try:
        return any("worker_process" in word for word in psutil.Process(pid).cmdline())
    except psutil.Error:
        return False


# The server, to the parent process of a platform.

SHELL: dict[str, dict[str, Any]] = {
    "without a command": {},
    "for the coordinator": {"admin_command": "cat", "_userName": "coordinator@fedner.local"},
    "as an allowed command": {"admin_command": "submit_job", "_userRole": "coordinator"},
    "with authorisation asked for": {"admin_command": "submit_job", "require_authz": "true"},
}


@pytest.mark.parametrize("kind", SHELL)
def test_a_server_reads_no_file(
    server: HostileServer, federation: Live, secret: Path, kind: str
) -> None:
    for command in ("cat", "head", "tail", "grep Zebra", "ls"):
        told = server.admin(PLATFORM, "sys.shell", f"{command} {secret}", headers=SHELL[kind])
        assert told == FOREIGN
    assert any(line.verb == "sys.shell" for line in lines(federation))


TOPICS = (
    "sys.info", "sys.report_env", "sys.report_version", "resource_manager.report_resources",
    "sys.configure_site_log", "train.delete_run", "train.check_status", "train.get_scopes",
    "train.configure_job_log", "info.show_errors", "info.show_stats", "train.restart",
    "train.shutdown", "train.notify_job_status",
)  # fmt: skip


@pytest.mark.parametrize("topic", TOPICS)
def test_a_server_gets_no_fact_and_stops_nobody(
    server: HostileServer, federation: Live, topic: str
) -> None:
    assert server.admin(PLATFORM, topic, "{}", headers={"job_id": job_id()}) == FOREIGN
    assert federation.processes[PLATFORM].poll() is None
    (line,) = [line for line in lines(federation) if line.verb == topic]
    assert (line.entry, line.code, line.asked_by) == ("refused", "request-foreign", "server")


INNER = (
    ("_net_manager", "config_vars"), ("_net_manager", "process_info"), ("_net_manager", "peers"),
    ("_net_manager", "stop_cell"), ("_net_manager", "echo"), ("cellnet.channel", "bulk"),
    ("aux_communication", "fed.event"), ("server_command", "get_task"), ("client_command", "abort"),
)  # fmt: skip


@pytest.mark.parametrize(("channel", "topic"), INNER)
def test_flares_inner_services_are_closed_to_a_server(
    server: HostileServer, federation: Live, channel: str, topic: str
) -> None:
    told = server.ask(
        "parent", channel=channel, topic=topic, target=PLATFORM, core=True, payload={}, timeout=2
    )
    assert told == {"said": {"cn__return_code": "invalid_request"}, "payload": None}
    (line,) = [line for line in lines(federation) if line.verb == f"{channel} {topic}"]
    assert (line.entry, line.code, line.asked_by) == ("refused", "request-foreign", "server")
    assert federation.processes[PLATFORM].poll() is None


def test_nobody_speaks_in_a_platforms_own_name(server: HostileServer, federation: Live) -> None:
    told = server.ask(
        "parent", channel="admin", topic="admin", target=PLATFORM, core=True, timeout=2,
        admin="train.notify_job_status", forged={"cn__origin": f"{PLATFORM}.{job_id()}"},
        headers={"job_id": job_id(), "job_status": 3},
    )  # fmt: skip
    # Its refusal goes to whom it claims to be, who is nobody.
    assert told == {"said": {"cn__return_code": "timeout"}, "payload": None}
    (line,) = [line for line in lines(federation) if line.verb == "admin admin"]
    assert (line.entry, line.code, line.asked_by) == ("refused", "request-foreign", "server")


def _with(change: Callable[[dict[str, Any]], None]) -> Callable[[str, Path], dict[str, str]]:
    def files(study: str, folder: Path) -> dict[str, str]:
        del folder
        table = honest_config(study)
        change(table)
        return {CONFIG: json.dumps(table)}

    return files


def _python(name: str) -> Callable[[str, Path], dict[str, str]]:
    return lambda _, folder: {name: f"open({str(folder / 'ran')!r}, 'w').close()\n"}


def _add(path: str, **args: Any) -> Callable[[dict[str, Any]], None]:
    return lambda table: table["components"].append({"id": "x", "path": path, "args": args})


APPS: dict[str, Callable[[str, Path], dict[str, str]]] = {
    "shipped Python": _python("custom/fedner/__init__.py"),
    "Python in its configuration": _python("config/evil.py"),
    "Python beside it": _python("fedner.py"),
    "a foreign class": _with(_add("subprocess.Popen", args=["touch", "x"])),
    "a class of FLARE": _with(_add("nvflare.app_common.logging.job_log_streamer.JobLogStreamer")),
    "a second endpoint": _with(
        _add(
            "fedner.runs.deployment.components.PlatformEndpoint", study="{}", run="run-9", roster=""
        )
    ),
    "another executor": _with(
        lambda table: table["executors"][0]["executor"].update(
            path="nvflare.app_common.executors.client_api.ClientAPIExecutor"
        )
    ),
    "another key": _with(lambda table: table.update(task_result_filters=[])),
    "another argument": _with(lambda table: table["components"][0]["args"].update(home="/")),
}


@pytest.mark.parametrize("kind", APPS)
def test_a_server_deploys_nothing_but_our_configuration(
    server: HostileServer, federation: Live, kind: str
) -> None:
    study = federation.study.canonical
    is_fine, token = server.check(PLATFORM, facts(study))
    assert is_fine
    job, app = job_id(), server.app(study, **APPS[kind](study, federation.folder))
    assert server.deploy(PLATFORM, job, app) == FOREIGN
    assert server.start_job(PLATFORM, job, facts(study), token) == FOREIGN
    assert not deployed(federation, job)
    assert job_processes(federation) == 0
    assert not (federation.folder / "ran").exists()
    assert "train.deploy" in {line.verb for line in lines(federation)}


def test_a_server_starts_nothing_that_was_not_approved(
    server: HostileServer, federation: Live
) -> None:
    study, job = federation.study.canonical, job_id()
    assert server.deploy(PLATFORM, job, server.app(study)) == f"deployed platform to {PLATFORM}"
    told = server.start_job(PLATFORM, job, facts(study), "invented")
    assert "did not approve the job" in told
    _, token = server.check(PLATFORM, facts(study))
    other = with_defaults(federation.study.model_copy(update={"title": "another"})).canonical
    assert server.start_job(PLATFORM, job, facts(other), token) == FOREIGN
    assert server.deploy(PLATFORM, job, server.app(other)).startswith("deployed")
    assert server.start_job(PLATFORM, job, facts(study), token) == FOREIGN, "another one deployed"
    assert job_processes(federation) == 0
    assert server.deploy(PLATFORM, "../../escaped", server.app(study)) == FOREIGN
    unsigned = server.deploy(PLATFORM, job_id(), server.app(study, signed=False))
    assert unsigned == "unsigned job rejected - signed deploy is required"


DP = {"mechanism": "unit-local", "noise_multiplier": 2.0, "tuned_on": "public", "unit": "document"}
STUDIES: dict[str, tuple[dict[str, Any], str]] = {
    "seeded noise": ({"privacy": DP | {"simulation": True}}, "policy-simulation"),
    "a budget": ({"privacy": DP | {"simulation": True, "budget": 9.0}}, "policy-study-budget"),
    "noise of the server": ({"privacy": DP | {"mechanism": "unit-central"}}, "policy-noise"),
    "too many rounds": ({"training": {"rounds": 9, "batch_size": 16}}, "policy-rounds"),
}


def changed_study(federation: Live, **changes: Any) -> Study:
    table = json.loads(federation.study.canonical)
    for key, value in changes.items():
        table[key] = (table.get(key) or {}) | value
    return Study.model_validate(table)


@pytest.mark.parametrize("kind", STUDIES)
def test_a_study_against_the_policy_is_refused_in_fixed_words(
    server: HostileServer, federation: Live, kind: str
) -> None:
    changes, code = STUDIES[kind]
    study = changed_study(federation, **changes)
    is_fine, words = server.check(PLATFORM, facts(study.canonical))
    assert not is_fine
    assert FAILURES[code] in words.split("; ")
    assert set(words.split("; ")) <= set(FAILURES.values())
    (line,) = [line for line in lines(federation) if line.study == study.digest]
    assert code in line.code


def test_a_known_digest_is_no_other_study(server: HostileServer, federation: Live) -> None:
    """The platform accepts one digest; a server shows it beside another study."""
    path = federation.settings[PLATFORM]
    before = path.read_text()
    path.write_text(before.replace(ANY_STUDY, f'studies = ["{federation.study.digest}"]\n'))
    other = changed_study(federation, training={"rounds": 3})
    table = json.loads(other.canonical)
    try:
        assert server.check(PLATFORM, facts(other.canonical)) == (False, FAILURES["policy-study"])
        forged = json.dumps(table | {"digest": federation.study.digest})
        assert server.check(PLATFORM, facts(forged)) == (False, FAILURES["job-foreign"])
        assert server.check(PLATFORM, facts(federation.study.canonical))[0]
    finally:
        path.write_text(before)


def test_a_platforms_parent_process_stays_small(server: HostileServer, federation: Live) -> None:
    """It checked studies by now; what that takes was loaded by children that ended."""
    del server
    for name in NAMES:
        held = psutil.Process(federation.processes[name].pid).memory_info().rss
        assert held < MEMORY, f"{name} holds {held / 2**20:.0f} MB"


# The coordinator, with its own identity at the server.

COMMANDS = (
    "cat {platform} ../secret.txt", "cat {platform} log.txt", "head {platform} log.txt",
    "tail {platform} log.txt", "grep {platform} Zebra log.txt", "ls {platform}", "pwd {platform}",
    "cat {platform} {secret}", "report_env {platform}", "sys_info client {platform}",
    "report_resources client {platform}", "report_version client {platform}",
    "check_status client {platform}", "show_errors {job} client {platform}",
    "show_stats {job} client {platform}", "show_scopes client {platform}",
    "configure_site_log client {platform} DEBUG", "restart client {platform}",
    "shutdown client {platform}",
)  # fmt: skip


def test_a_coordinator_gets_nothing_of_a_platform_by_commands(
    server: HostileServer, federation: Live, secret: Path
) -> None:
    del server
    heard = {}
    with admin_session(federation.kit) as session:
        for command in COMMANDS:
            asked = command.format(platform=PLATFORM, secret=secret, job=job_id())
            heard[command] = str(session._session.api.do_command(asked))
    home = str(federation.homes.platforms[PLATFORM].path)
    for command, said in heard.items():
        assert SECRET not in said, command
        assert home not in said.replace(str(secret), ""), command
    assert federation.processes[PLATFORM].poll() is None
    asked = [line for line in lines(federation) if "for coordinator@fedner.local" in line.asked_by]
    assert asked, "the record names who asked"
    verbs = {line.verb for line in asked}
    assert {"sys.shell", "sys.info", "train.check_status", "train.restart"} <= verbs


def submitted(federation: Live, folder: Path, words: str) -> str:
    """Submit a job as it is; return how it ended, with the remarks of the scheduler.

    A scheduler that did not wait for a platform's answer asks again: words are waited for.
    """
    with admin_session(federation.kit) as session:
        try:
            job = session.submit(folder)
        except Exception as error:  # noqa: BLE001 - the server refused it
            return f"not taken: {error}"
        try:
            with suppress(TimeoutError):  # what it said instead is told
                until(lambda: _is_decided(_remarks(session, job), words), 90, words)
            return _remarks(session, job)
        finally:
            session.abort(job)


def _remarks(session: Any, job: str) -> str:
    meta = session.meta(job)
    told = [*(meta.get("schedule_history") or ()), *(meta.get("job_deploy_detail") or ())]
    return " ".join(map(str, (meta.get("status", ""), *told)))


def _is_decided(said: str, words: str) -> bool:
    return words in said or said.startswith("FINISHED")


def job_folder(federation: Live, run: str, study: Study | None = None) -> Path:
    spec = JobSpec(run, (study or federation.study).canonical, NAMES)
    return write_job(spec, federation.folder / f"job-{run}")


def test_a_coordinators_job_with_python_is_refused(server: HostileServer, federation: Live) -> None:
    del server
    folder = job_folder(federation, "python")
    custom = folder / "platform" / "custom"
    custom.mkdir()
    ran, before = federation.folder / "python-ran", len(lines(federation))
    (custom / "fedner").mkdir()
    for name in ("fedner/__init__.py", "sitecustomize.py"):
        (custom / name).write_text(f"open({str(ran)!r}, 'w').close()\n")
    told = submitted(federation, folder, FOREIGN)
    for name in NAMES:
        assert f"{name}: {FOREIGN}" in told, told
    assert "FINISHED:FAILED_TO_RUN" in told
    assert not ran.exists(), "nothing of it ran"
    assert job_processes(federation) == 0
    found = [(line.verb, line.code, line.asked_by) for line in lines(federation)[before:]]
    assert found == [("train.deploy", "request-foreign", "server for coordinator@fedner.local")]


def test_a_coordinators_job_with_foreign_classes_is_refused(
    server: HostileServer, federation: Live
) -> None:
    del server
    folder = job_folder(federation, "foreign")
    path = folder / "platform" / CONFIG
    table = json.loads(path.read_text())
    _add("nvflare.app_common.logging.job_log_streamer.JobLogStreamer")(table)
    path.write_text(json.dumps(table))
    told = submitted(federation, folder, FOREIGN)
    assert FOREIGN in told, told
    assert job_processes(federation) == 0
    assert any(
        line.verb == "train.deploy" and "coordinator@fedner.local" in line.asked_by
        for line in lines(federation)
    )


@pytest.fixture
def by_approval(federation: Live) -> Iterator[None]:
    """Platforms whose policy names no study: they accept the installed one."""
    before = {path: path.read_text() for path in federation.settings.values()}
    for path, text in before.items():
        path.write_text(text.replace(ANY_STUDY, ""))
    yield
    for path, text in before.items():
        path.write_text(text)


def test_a_study_that_was_changed_after_its_approval_is_refused(
    server: HostileServer, federation: Live, by_approval: None
) -> None:
    del server, by_approval
    changed = changed_study(federation, training={"rounds": 3})
    words = FAILURES["policy-approval"]
    told = submitted(federation, job_folder(federation, "changed", changed), words)
    assert words in told, told
    assert job_processes(federation) == 0
    found = [line for line in lines(federation) if line.run == "changed"]
    assert {(line.study, line.code, line.asked_by) for line in found} == {
        (changed.digest, "policy-approval", "server for coordinator@fedner.local")
    }


def test_a_newer_approval_accepts_its_study(
    server: HostileServer, federation: Live, by_approval: None, tmp_path: Path
) -> None:
    del by_approval
    changed = changed_study(federation, training={"rounds": 2})
    home, coordinator = federation.homes.platforms[PLATFORM], federation.homes.federation
    asked = facts(changed.canonical, "newer")
    assert server.check(PLATFORM, asked) == (False, FAILURES["policy-approval"])
    before = {path: path.read_bytes() for path in (home.approval, home.certificate)}
    replace_study(coordinator, changed)
    try:
        write_letter(tmp_path / "new.json", approve(coordinator, request_platform(home, PLATFORM)))
        with pytest.raises(FednerError, match=r"training\.rounds: 4 -> 2"):
            install_platform(home, tmp_path / "new.json")
        install_platform(home, tmp_path / "new.json", accepts_study=True)
        assert server.check(PLATFORM, asked)[0]
        old = facts(federation.study.canonical, "newer")
        assert server.check(PLATFORM, old) == (False, FAILURES["policy-approval"])
    finally:
        replace_study(coordinator, federation.study)
        for path, data in before.items():
            path.write_bytes(data)


# The server's job, to the job of a platform that takes part.


@pytest.fixture(scope="module")
def job(server: HostileServer, federation: Live) -> str:
    """A job that every platform approved; its round loop is the hostile server's."""
    found = federation.submit(RUN)
    until((server.box / "job-is-up").exists, 60, "the hostile job")
    return found


def honest_order(federation: Live, **changes: Any) -> Order:
    study = federation.study
    sizes = dict(study.public_sizes)
    batches = planned_batches(sizes, study.training.batch_size, algorithm_for(study).batching)
    shared = blueprint(study, declared_files(study)).initial_shared()
    order = Order(RUN, 1, shared, batches=batches, study=study.digest)
    return replace(order, **changes)


def handed(server: HostileServer, data: bytes, name: str = PLATFORM) -> tuple[str, bytes]:
    told = server.ask("job", target=name, order=base64.b64encode(data).decode())
    assert "raised" not in told, told
    return told["code"], base64.b64decode(told["reply"])


def code_of(server: HostileServer, order: Order) -> str:
    code, data = handed(server, to_bytes(order))
    assert code == "ok"
    reply = reply_from_bytes(data)
    return reply.code if isinstance(reply, Failure) else ""


def test_orders_of_a_hostile_job_pass_the_policy(
    server: HostileServer, federation: Live, job: str
) -> None:
    del job
    order = honest_order(federation)
    shared = dict(order.shared)
    kept = type(order.shared)({name: shared[name] for name in list(shared)[1:]})
    more = type(order.shared)(shared | {"crf.transitions.private": next(iter(shared.values()))})
    first = handed(server, to_bytes(honest_order(federation, verb="begin", shared=type(kept)({}))))
    assert isinstance(reply_from_bytes(first[1]), Update)
    refused = {
        "order-tensors": [replace(order, shared=kept), replace(order, shared=more)],
        "order-study": [replace(order, study="0" * 64)],
        "order-run": [replace(order, run="run-2")],
        "policy-rounds": [replace(order, round=9)],
    }
    for code, orders in refused.items():
        assert [code_of(server, each) for each in orders] == [code] * len(orders)
    _, data = handed(server, b"garbage")
    assert reply_from_bytes(data) == Failure(PLATFORM, 0, "order-refused")
    sent = [line for line in lines(federation) if line.entry == "sent"]
    assert {*refused} <= {line.code for line in sent}
    assert {line.asked_by for line in sent} == {"server"}


def test_replayed_orders_come_to_an_end(server: HostileServer, federation: Live, job: str) -> None:
    """Without DP the same round is trained again; the policy bounds how many updates leave."""
    del job
    order = honest_order(federation)
    doubled = {name: 2 * tensor for name, tensor in order.shared.items()}
    asked = [order, order, replace(order, shared=type(order.shared)(doubled)), order, order]
    assert [code_of(server, each) for each in asked] == ["", "", "", *["policy-updates"] * 2]
    codes = [line.code for line in lines(federation) if line.verb == "round"]
    assert codes[-5:] == ["", "", "", "policy-updates", "policy-updates"], "all on record"


JOB_TOPICS = (
    ("client_command", "show_errors"), ("client_command", "show_stats"),
    ("client_command", "configure_job_log"), ("client_command", "abort"),
    ("_net_manager", "config_vars"), ("_net_manager", "stop_cell"),
    ("aux_communication", "__do_task__"), ("collab", "call"),
)  # fmt: skip


def test_a_running_job_is_closed_to_the_servers_other_requests(
    server: HostileServer, federation: Live, job: str
) -> None:
    until(lambda: job_processes(federation) == 1, 30, "one process of the job")
    for channel, topic in JOB_TOPICS:
        told = server.ask(
            "parent", channel=channel, topic=topic, target=f"{PLATFORM}.{job}", core=True,
            payload={}, timeout=2,
        )  # fmt: skip
        assert told.get("payload") is None, (channel, topic)
    time.sleep(1)
    assert job_processes(federation) == 1, "it still runs"
    refused = {line.verb for line in lines(federation)}
    assert {f"{channel} {topic}" for channel, topic in JOB_TOPICS[:-1]} <= refused


def test_the_coordinator_downloads_nothing_of_a_platform(
    server: HostileServer, federation: Live, job: str, secret: Path
) -> None:
    """The last test: it ends the job, so that there is something to download."""
    (server.box / "job-ends").touch()
    federation.wait_jobs(lambda jobs: jobs[-1].is_over, RUN)
    with admin_session(federation.kit) as session:
        for command in (f"show_errors {job} client {PLATFORM}", f"show_stats {job} client"):
            assert SECRET not in str(session._session.api.do_command(command))
        place = Path(session._session.download_job_result(job, str(federation.folder / "got")))
    names = {path.name for path in place.rglob("*") if path.is_file()}
    assert secret.name not in names
    assert not {"scores.json", "MODEL_CARD.md", "report.html", RECORD} & names
