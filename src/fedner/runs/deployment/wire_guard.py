"""What a server may ask of FLARE's two processes at a platform; all else is refused and on record.

FLARE's own processes trust the server that they are connected to: a request that names no admin
command is authorised by nobody, and so a server reads files (`sys.shell`), shows errors, deploys
whatever an admin signed, or fires at FLARE's inner services. Here the parent process answers only
what the start and the end of a job need, a job's process only calls of its endpoint and its end,
and nothing is deployed but the configuration that `engines.flare.job` writes.

Two places of FLARE are hooked into, before a connection exists: every `CoreCell` gets a message
interceptor (it sees a message before it is decoded or handed on), and `FedAdminAgent` answers
through `AdminGuard`. tests/engines/flare/test_flare_contract.py tells if a release moves them.
"""

import io
import json
import logging
import re
import threading
import time
import zipfile
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from fedner.engines.flare.job import PLATFORM_APP, PLATFORM_CONFIG, platform_config
from fedner.errors import FednerError
from fedner.federated.failure_codes import FAILURES
from fedner.runs.deployment.announcing import Facts, facts_in, facts_of
from fedner.runs.deployment.places import own_home
from fedner.runs.disclosure_record import RECORD, DisclosureRecord

SERVER = "server"  # FLARE's name for the caller that is the server's job
CODE = "request-foreign"
WORDS = FAILURES[CODE]
_SILENCE = 60.0  # seconds in which the same refusal is not recorded again
_MOST_KINDS = 200  # of refusals in that time; a flood must not fill the disk
_MOST_APP = 2**26  # bytes, packed or unpacked
_MOST_JOBS = 100
_JOB = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,100}")
_SIGNED = (".__nvfl_sig.json", ".__nvfl_submitter.crt")
_SIGNATURES = frozenset(folder + name for folder in ("", "config/") for name in _SIGNED)
_FOLDERS = frozenset({"config/"})

# Channel and topic of what comes from outside; None stands for every topic.
_STREAM, _STREAM_DATA = "sm__STREAM", "sm__DATA"
_ANYWHERE = frozenset(
    {
        (_STREAM, "sm__ACK"),
        (_STREAM, "sm__ERROR"),
        ("return_only", None),  # replies to what this platform asked
        ("cellnet.channel", "bye"),
    }
)
_TO_PARENT = _ANYWHERE | {("admin", None)}
_TO_JOB = _ANYWHERE | {
    ("collab", "call"),
    ("aux_communication", "__end_run__"),
    ("aux_communication", "__abort_task__"),
}
_FROM_OWN_JOBS = "train.notify_job_status"
_CHECK, _CANCEL = "scheduler.check_resource", "scheduler.cancel_resource"
_DEPLOY, _START, _ABORT = "train.deploy", "train.start_job", "train.abort"
_FROM_SERVER = frozenset({_CHECK, _CANCEL, _DEPLOY, _START, _ABORT})

_log = logging.getLogger(__name__)
_asking: ContextVar[str] = ContextVar("asking", default=SERVER)


def asked_by() -> str:
    """Return who asks, in the thread of a request: the server, and for whom, as it says."""
    return _asking.get()


class Refusals:
    """Puts refused requests on record, each kind once a minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], float] = {}

    def add(self, who: str, what: str) -> None:
        """Record a refusal; one that cannot be written stops no refusal."""
        _log.warning("refused %s a request: %s", who, what)
        try:
            if self._is_news(who, what):
                record = DisclosureRecord(own_home() / RECORD)
                record.append_refusal("", (CODE,), asked_by=who, verb=what)
        except Exception:  # noqa: BLE001 - it is refused all the same
            _log.exception("a refusal could not be recorded")

    def _is_news(self, who: str, what: str) -> bool:
        now = time.monotonic()
        with self._lock:
            self._seen = {k: at for k, at in self._seen.items() if now - at < _SILENCE}
            if (who, what) in self._seen or len(self._seen) >= _MOST_KINDS:
                return False
            self._seen[who, what] = now
            return True


def is_allowed(headers: Any, came_from: str, common_name: str | None, own: str) -> bool:
    """Whether a message may be answered or handed on by a process of a platform.

    Args:
        headers: Those of the message.
        came_from: The cell at the other end of the connection.
        common_name: The name in that end's certificate; None where it showed none, as this
            platform's own processes.
        own: The name of this process's cell: the platform, or the platform and a job.
    """
    root = own.split(".", maxsplit=1)[0]
    origin = headers.get("cn__origin")
    is_inside = _is_of(came_from, root) and common_name in (None, "", root)
    if _is_of(origin, root):
        return is_inside  # nobody else speaks in this platform's name
    destination = headers.get("cn__destination")
    if not _is_of(destination, root):
        return is_inside  # this platform hands on nothing between others
    allowed = _TO_PARENT if destination == root else _TO_JOB
    channel, topic = headers.get("cn__channel"), headers.get("cn__topic")
    if channel == _STREAM and topic == _STREAM_DATA:
        channel, topic = headers.get("sm__ch"), headers.get("sm__tp")
    return (channel, topic) in allowed or (channel, None) in allowed


def _is_of(name: object, root: str) -> bool:
    return isinstance(name, str) and (name == root or name.startswith(f"{root}."))


class AdminGuard:
    """Decides about requests to a platform's parent process."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._deployed: dict[str, Facts] = {}

    def problem(self, request: Any, own: str) -> str | None:
        """Return what is refused in a request, in words for the record; None where nothing is."""
        from nvflare.private.admin_defs import Message

        message = request.payload
        if not isinstance(message, Message) or not isinstance(message.topic, str):
            return "no request"
        topic = message.topic
        if _is_of(request.get_header("cn__origin"), own):
            return None if topic == _FROM_OWN_JOBS else "a job that asks its parent"
        if topic not in _FROM_SERVER:
            return _word(topic)
        try:
            self._require(topic, message)
        except (FednerError, TypeError, AttributeError) as error:
            _log.warning("%s was refused: %s", topic, error)
            return topic
        return None

    def _require(self, topic: str, message: Any) -> None:
        """Raise unless a request fits its job."""
        job = message.get_header("job_id")
        if topic != _CANCEL and not (isinstance(job, str) and _JOB.fullmatch(job)):
            raise FednerError("a job without a name of FLARE's")
        if topic in (_DEPLOY, _START):
            _require_meta(message.get_header("job_meta"), job)
        if topic == _DEPLOY:
            self._deployed.pop(job, None)
            if message.get_header("app_name") != PLATFORM_APP:
                raise FednerError("an app of another name")
            facts = facts_of_app(message.body)
            if len(self._deployed) >= _MOST_JOBS:
                self._deployed.pop(next(iter(self._deployed)))
            self._deployed[job] = facts
        if topic == _START and self._deployed.get(job) != facts_in(message.body):
            raise FednerError("the job that was deployed is for another study than announced")

    def answered(self, request: Any, own: str, answer: Callable[[Any], Any]) -> Any:
        """Return the answer to a request, or that it is refused."""
        from nvflare.private.admin_defs import error_reply
        from nvflare.private.defs import new_cell_message

        token = _asking.set(_who(request))
        try:
            problem = self.problem(request, own)
            if problem is None:
                return answer(request)
            self._refusals.add(asked_by(), problem)
            return new_cell_message({}, error_reply(WORDS))
        finally:
            _asking.reset(token)


def _who(request: Any) -> str:
    """Return who asks: the server, and for whom, which only the server says."""
    header = getattr(request.payload, "get_header", None)
    for key in ("_submitterName", "_userName"):
        name = header(key) if header is not None else None
        if isinstance(name, str) and _NAME.fullmatch(name):
            return f"{SERVER} for {name}"
    return SERVER


def _word(topic: object) -> str:
    return topic if isinstance(topic, str) and _NAME.fullmatch(topic) else "another topic"


def _require_meta(meta: Any, job: str) -> None:
    if not isinstance(meta, dict) or meta.get("job_id") != job:
        raise FednerError("a job whose description is of another one")
    if meta.get("job_launcher_spec"):
        raise FednerError("a job that says how it wants to be started")


def facts_of_app(data: object) -> Facts:
    """Return what an app announces that holds nothing but the configuration that fedner writes.

    Raises:
        FednerError: It holds something else.
    """
    if not isinstance(data, bytes) or len(data) > _MOST_APP:
        raise FednerError("an app that is no archive, or too large")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _require_members(archive)
            table = json.loads(archive.read(PLATFORM_CONFIG), object_pairs_hook=_once)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, RecursionError) as error:
        raise FednerError("an app that cannot be read") from error
    except (NotImplementedError, RuntimeError, EOFError) as error:  # other packing, or a password
        raise FednerError("an app that cannot be unpacked") from error
    return _facts_of_config(table)


def _require_members(archive: zipfile.ZipFile) -> None:
    members = archive.infolist()
    names = [each.filename for each in members]
    if len(set(names)) != len(names) or sum(each.file_size for each in members) > _MOST_APP:
        raise FednerError("an app with files twice, or too large")
    if set(names) - _SIGNATURES - _FOLDERS != {PLATFORM_CONFIG}:
        raise FednerError("an app with other files than its configuration")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key that stands twice")
    return table


def _facts_of_config(table: Any) -> Facts:
    try:
        given = table["components"][0]["args"]
        facts = facts_of(given["run"], given["study"], given["roster"])
    except (TypeError, KeyError, IndexError) as error:
        raise FednerError("an app that does not announce a study") from error
    expected = platform_config({"run": facts.run, "study": facts.study, "roster": facts.roster})
    if json.dumps(table, sort_keys=True) != json.dumps(expected, sort_keys=True):
        raise FednerError("an app with another configuration than fedner writes")
    return facts


def install() -> None:
    """Guard this process, which FLARE's starter has just begun; once is enough."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.private.fed.client.admin import FedAdminAgent

    if getattr(CoreCell.__init__, "is_guarded", False):
        return
    refusals = Refusals()
    guard = AdminGuard(refusals)
    _guard_cells(CoreCell, refusals)
    dispatch = FedAdminAgent._dispatch_request

    def dispatch_guarded(self: Any, request: Any) -> Any:
        own = self.cell.get_fqcn()
        return guard.answered(request, own, lambda asked: dispatch(self, asked))

    FedAdminAgent._dispatch_request = dispatch_guarded


def _guard_cells(cells: Any, refusals: Refusals) -> None:
    begin = cells.__init__

    def begin_guarded(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self.set_message_interceptor(_intercepted, self.my_info.fqcn, refusals)

    begin_guarded.is_guarded = True  # type: ignore[attr-defined]
    cells.__init__ = begin_guarded


def _intercepted(message: Any, own: str, refusals: Refusals) -> Any:
    """Return a refusal; None where a message may be answered or handed on."""
    from nvflare.fuel.f3.cellnet.defs import MessagePropKey, ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply

    headers = message.headers
    endpoint = message.get_prop(MessagePropKey.ENDPOINT)
    name = message.get_prop(MessagePropKey.COMMON_NAME)
    if is_allowed(headers, endpoint.name, name, own):
        return None
    channel, topic = headers.get("cn__channel"), headers.get("cn__topic")
    if channel == _STREAM:
        channel, topic = headers.get("sm__ch"), headers.get("sm__tp")
    who = SERVER if endpoint.name.split(".")[0] == SERVER else "another party"
    refusals.add(who, f"{_word(channel)} {_word(topic)}")
    return make_reply(ReturnCode.INVALID_REQUEST)
