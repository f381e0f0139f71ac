"""Turns FLARE's server into one that means ill, and provokes errors in a platform's job.

Python runs this file in every process whose PYTHONPATH begins with its folder. With HOSTILE_BOX,
the server's parent sends whatever it finds in that folder, past all checks of its own, and its job
does not train but hands platforms whatever orders it finds there; answers are written beside them.
With PROVOKE, the job of a platform fails as the file PROVOKE/PLATFORM says, and writes what it did
to PROVOKE-happened/PLATFORM.
"""

import base64
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

BOX, PROVOKE = "HOSTILE_BOX", "PROVOKE"


def main() -> None:
    words = " ".join(sys.orig_argv)
    if "server_train" in words or "server_process" in words:
        _capture_cell()
    elif "runner_process" in words:
        _replace_round_loop()


def _provoke() -> None:
    """Let this job fail with canaries in every word of the error."""
    folder, name = Path(os.environ[PROVOKE]), Path(os.environ["FEDNER_HOME"]).name
    try:
        kind, words = (folder / name).read_text().split("\n", 1)
    except FileNotFoundError:
        return

    def note() -> None:
        path = folder.with_name(f"{folder.name}-happened") / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(kind)

    def fail(*_: Any, **__: Any) -> None:
        note()
        raise ValueError(words, Path(words))

    def leave(*_: Any, **__: Any) -> None:
        note()
        sys.stderr.write(words)
        os._exit(3)

    from fedner.federated.platform import Platform
    from fedner.runs.deployment.components import PlatformEndpoint

    if kind == "in training":
        Platform.run_round = fail
    elif kind == "in beginning":
        PlatformEndpoint.__init__ = fail
    elif kind == "in ending":
        PlatformEndpoint._let_go = fail
    elif kind == "process ends":
        Platform.run_round = leave
    elif kind == "no memory":
        Platform.run_round = lambda *_, **__: _without_memory(words, note)
    elif kind == "disk full":
        Platform.run_round = _with_full_disk(Platform.run_round, note)


def _without_memory(words: str, note: Callable[[], None]) -> None:
    """Ask for more than a limit allows, as a tensor that is too large does; the process goes on."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (2**30, before[1]))
    note()
    try:
        raise AssertionError(words.encode() * 10**8)  # not enough for it
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _with_full_disk(work: Callable[..., Any], note: Callable[[], None]) -> Callable[..., Any]:
    """Let no byte be written once a round was computed, by whatever this process writes."""
    import resource

    def worked(*args: Any, **kwargs: Any) -> Any:
        done = work(*args, **kwargs)
        note()
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return done

    return worked


FORGED = "hostile_forged"


def _forge_headers() -> None:
    """Let a message say what FLARE would not: its headers are changed after FLARE set them."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell

    send = CoreCell._send_to_endpoint

    def forged(self: Any, to_endpoint: Any, message: Any) -> str:
        for key, value in (message.headers.pop(FORGED, None) or {}).items():
            message.set_header(key, value)
        return str(send(self, to_endpoint, message))

    CoreCell._send_to_endpoint = forged


def _capture_cell() -> None:
    from nvflare.fuel.f3.cellnet import cell as module

    _forge_headers()

    original = module.Cell.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        serve = threading.Thread(target=_serve, args=("parent", lambda ask: _send(self, ask)))
        serve.daemon = True
        serve.start()

    module.Cell.__init__ = made


def _replace_round_loop() -> None:
    from fedner.runs.deployment import server_job

    def hostile(study: Any, run: str, folder: Path, links: Mapping[str, Any]) -> None:
        del study, run, folder

        def hand(ask: Mapping[str, Any]) -> Any:
            link = links[ask["target"]]
            code, reply = link.ask(base64.b64decode(ask["order"]), 30.0)
            return {"code": code, "reply": base64.b64encode(reply).decode()}

        (Path(os.environ[BOX]) / "job-is-up").touch()
        _serve("job", hand)

    server_job.coordinate_job = hostile


def _serve(kind: str, do: Callable[[Mapping[str, Any]], Any]) -> None:
    for path in _asked(kind):
        try:
            answer = do(json.loads(path.read_text()))
        except BaseException as error:  # noqa: BLE001 - the test reads it
            answer = {"raised": f"{type(error).__name__}: {error}"}
        part = path.with_suffix(".part")
        part.write_text(json.dumps(answer, default=repr))
        part.replace(path.with_suffix(".answer"))


def _asked(kind: str) -> Iterator[Path]:
    box, done = Path(os.environ[BOX]), set()
    while not (box / f"{kind}-ends").exists():
        for path in sorted(box.glob(f"{kind}-*.json")):
            if path not in done and not path.with_suffix(".answer").exists():
                done.add(path)
                yield path
        time.sleep(0.05)


def _send(cell: Any, ask: Mapping[str, Any]) -> Any:
    from nvflare.fuel.f3.cellnet.utils import new_cell_message

    headers = {FORGED: ask["forged"]} if "forged" in ask else {}
    message = new_cell_message(headers, _payload(ask))
    send = cell.core_cell.send_request if ask.get("core") else cell.send_request
    reply = send(
        channel=ask["channel"], topic=ask["topic"], target=ask["target"], request=message,
        timeout=ask.get("timeout", 5.0),
    )  # fmt: skip
    said = {
        key: value
        for key, value in reply.headers.items()
        if key.endswith(("rc", "return_code", "error"))
    }
    return {"said": said, "payload": _shown(reply.payload)}


def _payload(ask: Mapping[str, Any]) -> Any:
    from nvflare.private.admin_defs import Message

    if "admin" not in ask:
        return ask.get("payload")
    body = ask.get("body", "")
    if "body_bytes" in ask:
        body = base64.b64decode(ask["body_bytes"])
    message = Message(topic=ask["admin"], body=body)
    for key, value in ask.get("headers", {}).items():
        message.set_header(key, value)
    return message


def _shown(payload: Any) -> Any:
    from nvflare.apis.shareable import Shareable

    body = getattr(payload, "body", payload)
    if isinstance(body, Shareable):
        return {
            "headers": {k: v for k, v in body.get("__headers__", {}).items() if k != "__peer_ctx__"}
        }
    if isinstance(body, bytes | bytearray | memoryview):
        return {"bytes": base64.b64encode(bytes(body)).decode()}
    return body


if os.environ.get(BOX):
    main()
elif os.environ.get(PROVOKE) and "worker_process" in " ".join(sys.orig_argv):
    _provoke()
