"""The guard and server below every page: whom they let in, how much, how long, what they note."""

import asyncio
import http.client
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pydantic import BaseModel

from fedner.errors import FednerError

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fedner.inference.service.answers import ServiceError, model_answer, read_body
from fedner.inference.service.settings import Token, WebSettings, read_token
from fedner.inference.service.web import application, listen, local_server, page_routes
from fedner.inference.service.workers import Workers

# Without the certificates of other machines, which take long to load; no connection is kept.
WEB = httpx.Client(verify=False, limits=httpx.Limits(max_keepalive_connections=0), timeout=30)  # noqa: S501
SECRET = "0123456789abcdef-secret"
BOUNDS = {"header_seconds": 0.4, "body_seconds": 0.4, "most_bytes": 2_000, "stop_seconds": 1}


class Note(BaseModel, extra="forbid"):
    text: str


async def echo(request: Request) -> Response:
    note = await read_body(request, Note)
    return model_answer(Note(text=str(len(note.text))))


async def broken(request: Request) -> Response:
    raise RuntimeError("words of a patient")


async def shell(request: Request) -> Response:
    return Response("a page")


ROUTES = [
    Route("/echo", echo, methods=["POST"]),
    Route("/broken", broken),
    Route("/", shell),
]


def served(settings: WebSettings) -> Iterator[str]:
    with local_server(application(ROUTES, settings, ["/"]), settings) as address:
        yield address.rstrip("/")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from served(WebSettings(port=0, **BOUNDS))


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    yield from served(WebSettings(port=0, token=Token(SECRET), names=("tagger.example",), **BOUNDS))


def raw(address: str, data: bytes, *, then_wait: bool = True) -> bytes:
    """Send bytes and return all that comes back until the connection ends."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(data)
        pieces = []
        try:
            while then_wait and (piece := connection.recv(65_536)):
                pieces.append(piece)
        except ConnectionResetError:
            pass
        return b"".join(pieces)


def wait_for_lines(caplog: pytest.LogCaptureFixture, *expected: str) -> None:
    """Wait until these are logged: each line is written when its answer has been sent.

    So a request of the test before may be logged late, among them.
    """
    for _ in range(12_000):
        lines = [each.getMessage() for each in caplog.records if each.name == "fedner.service"]
        missing = Counter(expected) - Counter(line.rsplit(" ", 2)[0] for line in lines)
        if not missing:
            return
        time.sleep(0.01)
    raise AssertionError(f"not logged: {list(missing)}; logged: {caplog.text}")


def is_well(address: str) -> bool:
    return WEB.post(f"{address}/echo", json={"text": "hello"}).json() == {"text": "5"}


@pytest.mark.parametrize(
    ("data", "kind", "status", "said"),
    [
        (b"", "application/json", 422, "empty"),
        (b'{"text": "a", "more": 1}', "application/json", 422, "unknown key"),
        (b'{"text": 5}', "application/json", 422, "text: "),
        (b"[]", "application/json", 422, "the body: "),
        (b"{", "application/json", 400, "no JSON"),
        (b"\x00\x01\xff\xfe", "application/json", 400, "not UTF-8"),
        (b'{"text": "\\ud800"}', "application/json", 400, "no JSON"),
        (b"[" * 1_500, "application/json", 400, "no JSON"),
        (b'{"text": "secret words"}', "text/plain", 415, "another content type"),
        (b"x" * 2_001, "application/json", 413, "larger than 2,000 bytes"),
    ],
)
def test_a_bad_body_gets_its_status_an_error_and_a_hint(
    address: str, data: bytes, kind: str, status: int, said: str
) -> None:
    answer = WEB.post(f"{address}/echo", content=data, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "hint"}
    assert said in answer.json()["error"]
    assert "secret words" not in answer.text
    assert is_well(address)


def test_a_body_without_end_is_cut_off_and_answered(address: str) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(12_000):
            yield b"x" * 1_000

    headers = {"Content-Type": "application/json"}
    answer = WEB.post(f"{address}/echo", content=pieces(), headers=headers)
    assert answer.status_code == 413
    assert is_well(address)


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/echo", 405)])
def test_wrong_paths_and_methods_are_named(address: str, path: str, status: int) -> None:
    answer = WEB.get(address + path)
    assert (answer.status_code, set(answer.json())) == (status, {"error", "hint"})


def test_an_error_of_ours_is_500_and_neither_answer_nor_log_repeats_its_words(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        answer = WEB.get(f"{address}/broken")
        wait_for_lines(caplog, "GET /broken 500")
    assert answer.status_code == 500
    assert set(answer.json()) == {"error", "hint"}
    assert "patient" not in answer.text + caplog.text
    assert "RuntimeError at " in caplog.text
    assert is_well(address)


def test_the_log_has_method_path_status_and_time_and_no_text(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="fedner.service"):
        WEB.post(f"{address}/echo?q=SECRET", json={"text": "SECRET"})
        WEB.get(f"{address}/SECRET")
        WEB.request("SECRET", f"{address}/")
        wait_for_lines(caplog, "POST /echo 200", "GET (other path) 404", "(other method) / 405")
    assert "SECRET" not in caplog.text


def test_every_answer_has_the_headers_of_security(address: str) -> None:
    for path in ("/", "/nowhere", "/broken"):
        headers = WEB.get(address + path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_names_that_are_not_ours_are_refused(address: str, locked: str) -> None:
    def status(at: str, host: str, **headers: str) -> int:
        headers |= {"Host": host, "Authorization": f"Bearer {SECRET}"}
        return WEB.post(f"{at}/echo", json={"text": "a"}, headers=headers).status_code

    for host in ("localhost", "127.0.0.1:80", "[::1]:8321", "192.0.2.7", "LocalHost.:80"):
        assert status(address, host) == 200, host
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""):
        assert status(address, host) == 421, host
    assert status(address, "tagger.example") == 421
    assert status(locked, "Tagger.example:443") == 200


def test_requests_of_other_sites_are_refused(address: str, locked: str) -> None:
    def status(at: str, origin: str, host: str = "") -> int:
        headers = {"Origin": origin, "Authorization": f"Bearer {SECRET}"}
        headers |= {"Host": host} if host else {}
        return WEB.post(f"{at}/echo", json={"text": "a"}, headers=headers).status_code

    assert status(address, address) == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "http://192.0.2.7"):
        assert status(address, origin) == 403, origin
    assert status(locked, "https://tagger.example", "127.0.0.1") == 200
    assert status(locked, "https://evil.example", "tagger.example") == 403


def test_data_need_the_token_and_the_page_does_not(locked: str) -> None:
    def status(authorization: str | None) -> int:
        headers = (
            {} if authorization is None else {b"Authorization": authorization.encode("latin-1")}
        )
        return WEB.post(f"{locked}/echo", json={"text": "a"}, headers=headers).status_code

    assert status(f"Bearer {SECRET}") == 200
    for wrong in (
        None,
        "",
        SECRET,
        "Bearer",
        f"Bearer {SECRET[:-1]}",
        f"Basic {SECRET}",
        "Bearer \xe9",
    ):
        assert status(wrong) == 401, wrong
    assert WEB.get(locked + "/").status_code == 200
    assert WEB.get(f"{locked}/?token={SECRET}").status_code == 200
    assert WEB.post(f"{locked}/echo?token={SECRET}", json={"text": "a"}).status_code == 401


def test_the_token_is_asked_for_before_the_body_is_read(locked: str) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    begun = time.perf_counter()
    assert raw(locked, head).startswith(b"HTTP/1.1 401")
    assert time.perf_counter() - begun < 5


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\x00" * 70_000]
)
def test_what_is_no_http_is_told_so(address: str, data: bytes) -> None:
    answer = raw(address, data)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"hint"' in answer
    assert is_well(address)


def test_headers_and_bodies_that_come_too_slowly_get_408(address: str) -> None:
    for data in (
        b"",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\n",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    ):
        answer = raw(address, data)
        assert answer.startswith(b"HTTP/1.1 408"), data
        assert b"in time" in answer or b"within" in answer
    assert is_well(address)


def test_a_slow_second_request_of_a_connection_is_ended_too(address: str) -> None:
    whole = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = raw(address, whole + b"GET / HTTP/1.1\r\nHo")
    assert answer.startswith(b"HTTP/1.1 200")
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(whole)
        answer = b""
        while not answer.endswith(b"a page"):
            answer += connection.recv(65_536)
        connection.sendall(b"GET / HT")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 408")


def test_too_many_connections_are_told_to_come_again() -> None:
    settings = WebSettings(port=0, most_connections=2, **{**BOUNDS, "header_seconds": 30})
    for address in served(settings):
        host, port = address.removeprefix("http://").split(":")
        held = [socket.create_connection((host, int(port))) for _ in range(2)]
        answer = WEB.get(address)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        for each in held:
            each.close()
        for _ in range(12_000):
            if WEB.get(address).status_code == 200:
                break
            time.sleep(0.02)
        assert WEB.get(address).status_code == 200


def test_an_answer_does_not_wait_for_the_receipt_of_its_head() -> None:
    with (
        listen(WebSettings(port=0)) as listening,
        socket.create_connection(listening.getsockname()),
    ):
        served, _ = listening.accept()
        with served:
            assert served.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_workers_take_a_bounded_number_and_free_their_places() -> None:
    async def run() -> list[object]:
        workers, hold = Workers(1, 1, 30.0), threading.Event()
        first = [asyncio.create_task(workers.run(lambda: hold.wait(30))) for _ in range(2)]
        await asyncio.sleep(0)
        full = await asyncio.gather(workers.run(lambda: True), return_exceptions=True)
        hold.set()
        done = await asyncio.gather(*first)
        free = await workers.run(lambda: "free")
        workers.close()
        return [*full, *done, free]

    full, *others = asyncio.run(run())
    assert isinstance(full, ServiceError)
    assert (full.status, full.headers) == (503, {"Retry-After": "1"})
    assert others == [True, True, "free"]


def test_work_that_takes_too_long_is_answered_and_keeps_its_place_until_it_ends() -> None:
    async def run() -> None:
        workers, hold = Workers(1, 0, 0.05), threading.Event()
        with pytest.raises(ServiceError) as slow:
            await workers.run(lambda: hold.wait(30))
        assert slow.value.status == 503
        with pytest.raises(ServiceError, match="no more are taken"):
            await workers.run(lambda: True)
        hold.set()
        workers._pool.shutdown(wait=True)
        assert workers._num_taken == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    "settings", [{"host": "192.0.2.7"}, {"host": "::"}, {"names": ("a.example",)}]
)
def test_other_machines_need_a_token(settings: dict[str, object]) -> None:
    with pytest.raises(FednerError, match="no token") as caught:
        WebSettings(**settings)  # type: ignore[arg-type]
    assert "--token-file" in caught.value.hint
    assert WebSettings(**settings, token=Token(SECRET)).token  # type: ignore[arg-type]
    assert SECRET not in repr(Token(SECRET))


def test_a_token_comes_from_a_file_of_ones_own_or_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    assert read_token(path, {"FEDNER_SERVICE_TOKEN": "x"}) == Token(SECRET)
    assert read_token(None, {"FEDNER_SERVICE_TOKEN": SECRET}) == Token(SECRET)
    assert read_token(None, {}) is None
    for words, said in (("short", "5 characters"), ("", "0 characters"), (f"{SECRET} b", "blanks")):
        path.write_text(words)
        with pytest.raises(FednerError, match=said):
            read_token(path, {})
    path.chmod(0o644)
    with pytest.raises(FednerError, match="0644"):
        read_token(path, {})
    with pytest.raises(FednerError, match="the token cannot be read"):
        read_token(tmp_path / "other", {})


def test_a_taken_port_is_said(address: str) -> None:
    port = int(address.rpartition(":")[2])
    with pytest.raises(FednerError, match=str(port)):
        listen(replace(WebSettings(), port=port))


def test_files_of_a_page_are_served_with_their_kind_and_kept_by_browsers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "some_pages"
    folder.mkdir()
    for name in ("__init__.py", "index.html", "look.css"):
        (folder / name).write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    routes = page_routes("some_pages")
    assert [route.path for route in routes] == ["/", "/static/look.css"]
    settings = WebSettings(port=0, **BOUNDS)
    with local_server(application(routes, settings), settings) as address:
        answer = WEB.get(f"{address}static/look.css")
        assert answer.headers["content-type"] == "text/css; charset=utf-8"
        tag = {"If-None-Match": answer.headers["etag"]}
        assert WEB.get(f"{address}static/look.css", headers=tag).status_code == 304
        assert WEB.get(f"{address}static/__init__.py").status_code == 404


SERVER = """
    import time
    from starlette.responses import Response
    from starlette.routing import Route
    from fedner.inference.service.settings import WebSettings
    from fedner.inference.service.web import address_of, application, listen, run
    import asyncio

    async def slow(request):
        print("begun", flush=True)
        await asyncio.sleep(0.5)
        return Response("done")

    settings = WebSettings(port=0)
    with listen(settings) as listening:
        print(address_of(listening, settings.host), flush=True)
        run(application([Route("/slow", slow)], settings), settings, listening)
    print("stopped", flush=True)
"""


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_begun_requests_finish_and_ends_well(kind: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVER)],
        stdout=subprocess.PIPE, text=True, env=dict(os.environ),
    ) as server:  # fmt: skip
        assert server.stdout is not None
        port = int(server.stdout.readline().rstrip("/\n").rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/slow")
        assert server.stdout.readline() == "begun\n"
        server.send_signal(kind)
        assert connection.getresponse().read() == b"done"
        connection.close()
        assert server.stdout.readline() == "stopped\n"
        assert server.wait(20) == 0
