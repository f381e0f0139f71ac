"""The service of taggers over real sockets: as in Python, clear refusals, and it goes on."""

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

import fedner
from fedner.errors import FednerError
from fedner.inference.redact import How
from fedner.scoring.intervals import Interval

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from fedner.inference.calibration import Calibration, Wish
from fedner.inference.onnx_export import export_onnx
from fedner.inference.predict import Predictor
from fedner.inference.removal_scores import Remaining, RemovalScores
from fedner.inference.service.catalog import Offer, load_catalog
from fedner.inference.service.operations import OPERATIONS, openapi
from fedner.inference.service.settings import WebSettings
from fedner.inference.service.tagger_service import TaggerService
from fedner.inference.service.web import local_server
from fedner.inference.service.workers import Workers
from fedner.inference.threshold_file import NAME, ChosenThreshold, write_threshold
from fedner.models.checkpoint import load_tagger

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "src" / "fedner" / "inference" / "service" / "pages"
SMALL = {"hidden": 8, "filters": 16, "character_filters": 8, "character_dimension": 8}
WEB = httpx.Client(verify=False, limits=httpx.Limits(max_keepalive_connections=0), timeout=30)  # noqa: S501
CORPUS = fedner.synthetic_corpus("social-posts", 60, seed=1)
# What they were trained on, so that they find something, after a sign of two UTF-16 units.
NOTE = "😭 " + "\n".join(each.text for each in CORPUS.documents if len(each.spans) > 1)[:400]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two small taggers of few sentences: a described head with a threshold, and a free one."""
    root = tmp_path_factory.mktemp("served")
    found = {}
    for name, head in (("joined", "described"), ("local-only", "free")):
        tagger = fedner.Tagger.train(
            CORPUS, epochs=10, batch_size=8, learning_rate=1e-2, model={**SMALL, "head": head}
        )
        tagger.save(root / name)
        found[name] = root / name
    remaining = Remaining(100, 5, Interval(0.05, 0.02, 0.1, 0.95))
    scores = RemovalScores(remaining, {"ADE": remaining}, 900, Interval(0.1, 0.08, 0.2, 0.95), 40)
    digest = Predictor.load(root / "joined").digest
    chosen = ChosenThreshold(digest, ("ADE",), Calibration(0.2, Wish(0.9), 100, scores))
    write_threshold(root / "joined" / NAME, chosen)
    return found


@pytest.fixture(scope="module")
def address(folders: dict[str, Path]) -> Iterator[str]:
    catalog = load_catalog([Offer(name, name, path) for name, path in folders.items()])
    settings = WebSettings(port=0, most_bytes=50_000, body_seconds=0.5, stop_seconds=1)
    workers = Workers(2, 4, 30.0)
    service = TaggerService(catalog, workers, settings)
    with local_server(service.application(), settings) as found:
        yield found.rstrip("/")
    workers.close()


def post(address: str, path: str, **body: Any) -> httpx.Response:
    return WEB.post(address + path, json=body)


def test_predictions_are_those_of_python_with_offsets_in_code_points(
    address: str, folders: dict[str, Path]
) -> None:
    for name, folder in folders.items():
        expected = Predictor.load(folder).predict(NOTE)
        assert expected, "else the test says nothing"
        found = post(address, "/predict", text=NOTE, model=name).json()
        assert found["model"] == name
        assert [(each["start"], each["end"], each["type"]) for each in found["mentions"]] == [
            (each.start, each.end, each.label) for each in expected
        ]
        for each, own in zip(found["mentions"], expected, strict=True):
            assert each["text"] == NOTE[each["start"] : each["end"]]
            assert each["confidence"] == pytest.approx(own.confidence, abs=1e-3)


def test_the_first_model_is_meant_where_none_is_named(address: str) -> None:
    assert post(address, "/predict", text=NOTE).json()["model"] == "joined"
    missing = post(address, "/predict", text=NOTE, model="no-such-model")
    assert missing.status_code == 404
    assert "joined, local-only" in missing.json()["hint"]
    assert "no-such-model" not in missing.text


@pytest.mark.parametrize("how", get_args(How))
def test_redaction_is_that_of_python(address: str, folders: dict[str, Path], how: How) -> None:
    mentions = Predictor.load(folders["local-only"]).predict(NOTE)
    found = post(address, "/redact", text=NOTE, model="local-only", how=how).json()
    assert found["text"] == fedner.redact(NOTE, mentions, how).text
    assert found["removed"] == ["ADE", "Drug"]
    assert "no tagger finds everything" in found["remains"]
    assert len(found["replacements"]) == len(mentions)
    back = found["text"]
    for each in reversed(found["replacements"]):
        back = (
            back[: each["new_start"]] + NOTE[each["start"] : each["end"]] + back[each["new_end"] :]
        )
    assert back == NOTE


def test_types_to_remove_and_to_keep(address: str) -> None:
    def removed(**which: Any) -> Any:
        return post(address, "/redact", text=NOTE, model="local-only", **which)

    for which, gone in (({"remove": ["Drug"]}, "Drug"), ({"keep": ["Drug"]}, "ADE")):
        found = removed(**which).json()
        assert found["removed"] == [gone]
        assert {each["type"] for each in found["replacements"]} == {gone}
    for wrong in (
        {"remove": ["Drug"], "keep": ["ADE"]},
        {"remove": ["x"]},
        {"keep": ["ADE", "Drug"]},
    ):
        assert removed(**wrong).status_code == 422, wrong


def test_the_models_own_threshold_is_used_and_holds_for_its_types(address: str) -> None:
    own = post(address, "/redact", text=NOTE, model="joined").json()
    assert (own["threshold"], own["removed"]) == (0.2, ["ADE"])
    assert "On held-out documents: of 1,000 mentions about 50 remain" in own["remains"]
    other = post(address, "/redact", text=NOTE, model="joined", remove=["Drug"])
    assert other.status_code == 422
    assert "chosen to remove ADE" in other.json()["error"]
    none = post(address, "/redact", text=NOTE, model="joined", threshold="none").json()
    assert (none["threshold"], none["removed"]) == (None, ["ADE", "Drug"])
    everything = post(address, "/redact", text=NOTE, model="joined", threshold=1e-9).json()
    assert not any(character.isalnum() for character in re.sub(r"\[\w+\]", "", everything["text"]))
    for wrong in (0.0, 1.0, -1, "most"):
        answer = post(address, "/redact", text=NOTE, model="joined", threshold=wrong)
        assert answer.status_code == 422, wrong


def test_a_type_is_added_by_its_description_where_the_head_is_described(address: str) -> None:
    types = {"Dosage": "amount of a medicine"}
    models = WEB.get(f"{address}/models").json()["models"]
    assert [each["can_add_types"] for each in models] == [True, False]
    assert "free head" in models[1]["why_not"]
    assert post(address, "/predict", text=NOTE, model="joined", types=types).status_code == 200
    refused = post(address, "/predict", text=NOTE, model="local-only", types=types)
    assert (refused.status_code, "free head" in refused.json()["hint"]) == (422, True)
    taken = post(address, "/predict", text=NOTE, model="joined", types={"Drug": "a drug"})
    assert taken.status_code == 422
    assert "already" in taken.json()["error"]
    redacted = post(
        address,
        "/redact",
        text=NOTE,
        model="joined",
        types=types,
        threshold=1e-9,
        remove=["Dosage"],
    )
    assert "[Dosage]" in redacted.json()["text"]


def test_added_types_leave_the_model_as_it_is_and_few_are_kept(folders: dict[str, Path]) -> None:
    (served,) = load_catalog([Offer("joined", "joined", folders["joined"])]).models.values()
    before = served.tagger.predict(NOTE)
    for number in range(7):
        more = served.with_types({f"T{number}": "amount of a medicine"})
        assert set(more.labels) == {"ADE", "Drug", f"T{number}"}
        assert served.with_types({f"T{number}": "amount of a medicine"}) is more
    assert len(served._retyped) == 4
    assert served.tagger.predict(NOTE) == before


@pytest.mark.parametrize("path", ["/predict", "/redact"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"text": ""}, 422),
        ({"text": None}, 422),
        ({"text": ["a"]}, 422),
        ({"text": "a", "model": 3}, 422),
        ({"text": "a", "types": {"": "empty name"}}, 422),
        ({"text": "a", "types": {f"T{n}": "x" for n in range(11)}}, 422),
        ({"text": "a" * 60_000}, 413),
    ],
    ids=["nothing", "empty", "null", "list", "model", "no-name", "many-types", "large"],
)
def test_wrong_requests_are_named_and_the_service_goes_on(
    address: str, path: str, body: dict[str, Any], status: int
) -> None:
    answer = WEB.post(address + path, json=body)
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "hint"}
    assert post(address, "/predict", text=NOTE).status_code == 200


@pytest.mark.parametrize(
    "text",
    [" ", "\n\n", "\x00\x01", "\ufeffhello", "ﷺ" * 300, "a" * 3000, "\u202eevil"],
    ids=["blank", "lines", "control", "mark", "ligature", "long-word", "override"],
)
def test_strange_texts_are_read(address: str, text: str) -> None:
    assert post(address, "/predict", text=text).status_code == 200
    found = post(address, "/redact", text=text, threshold="none").json()
    assert found["text"] == text or found["replacements"]


def test_requests_side_by_side_have_the_answers_of_requests_one_by_one(address: str) -> None:
    documents = fedner.synthetic_corpus("social-posts", 40, seed=3).documents
    texts = [each.text for each in documents][:24]
    alone = [post(address, "/predict", text=text).json() for text in texts]
    assert sum(len(each["mentions"]) for each in alone) > 5
    with ThreadPoolExecutor(4) as threads:
        together = list(
            threads.map(lambda text: post(address, "/predict", text=text).json(), texts)
        )
    assert together == alone


def burst(address: str, number: int) -> dict[int, int]:
    """Send requests at once, all connected before the first is sent; return counts by status."""
    body = json.dumps({"text": NOTE}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    data = head.encode() + b"Content-Type: application/json\r\nConnection: close\r\n\r\n" + body
    host, port = address.removeprefix("http://").split(":")
    ready = threading.Barrier(number)
    counts: dict[int, int] = {}
    lock = threading.Lock()

    def one() -> None:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            ready.wait(60)
            connection.sendall(data)
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        status = int(answer.split(b" ", 2)[1])
        if status == 503:
            assert b"retry-after" in answer.lower()
            assert b'"hint"' in answer
        with lock:
            counts[status] = counts.get(status, 0) + 1

    threads = [threading.Thread(target=one) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def test_more_than_can_wait_are_told_to_come_again(address: str) -> None:
    counts = burst(address, 40)
    assert sum(counts.values()) == 40
    assert set(counts) <= {200, 503}
    assert counts[200] >= 6, "those at work and those that wait"
    assert post(address, "/predict", text=NOTE).status_code == 200


def test_five_hundred_at_once_are_all_answered(address: str) -> None:
    counts = burst(address, 500)
    assert sum(counts.values()) == 500
    assert set(counts) <= {200, 503}
    assert post(address, "/predict", text=NOTE).status_code == 200


def test_clients_that_send_slowly_or_read_nothing_do_not_stop_others(address: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    slow = [socket.create_connection((host, int(port)), timeout=10) for _ in range(50)]
    for number, each in enumerate(slow):
        each.sendall(
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"
            + b"Content-Length: 9\r\n" * (number % 2)
        )
    assert post(address, "/predict", text=NOTE).status_code == 200
    assert WEB.get(f"{address}/healthz").json() == {"status": "ok"}
    for each in slow:
        each.close()


def test_every_operation_is_routed_and_described(address: str) -> None:
    described = WEB.get(f"{address}/openapi.json").json()
    assert described == openapi()
    assert set(described["paths"]) == {each.path for each in OPERATIONS}
    for each in OPERATIONS:
        assert WEB.request(each.method, address + each.path).status_code == (
            200 if each.request is None else 415
        )
    text = json.dumps(described)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in described["components"]["schemas"]
    assert "code points" in text


def test_pages_load_nothing_foreign_and_need_no_inline_code(address: str) -> None:
    files = [each for each in PAGES.rglob("*") if each.suffix in (".html", ".css", ".js", ".svg")]
    assert len(files) > 8
    for each in files:
        text = each.read_text(encoding="utf-8")
        foreign = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text)) - {"http://www.w3.org"}
        assert not foreign, each.name
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(|@import", text)
        if each.suffix == ".html":
            assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text), (
                each.name
            )
            for place in re.findall(r'(?:src|href)="(/[^"#]*)"', text):
                assert WEB.get(address + place).status_code == 200, place


def test_samples_are_synthetic_texts(address: str) -> None:
    samples = WEB.get(f"{address}/samples").json()["samples"]
    assert [each["platform"] for each in samples] == ["case-reports", "forum-posts", "social-posts"]
    assert all(200 < len(each["text"]) < 2_000 for each in samples)


def test_two_models_of_one_name_are_refused(folders: dict[str, Path]) -> None:
    with pytest.raises(FednerError, match="two models are called a"):
        load_catalog([Offer("a", "a", each) for each in folders.values()])


def test_an_exported_tagger_is_served_without_torch(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    pytest.importorskip("onnx", reason="needs the extra onnx")
    export_onnx(load_tagger(folders["joined"]), tmp_path / "exported")
    program = """
import sys
sys.modules["torch"] = None
from pathlib import Path
from fedner.inference.service.catalog import Offer, load_catalog
from fedner.inference.service.messages import PredictRequest, RedactRequest
from fedner.inference.service.answers import ServiceError
from fedner.inference.service.tagging import find, offered, remove
catalog = load_catalog([Offer("exported", "exported", Path(sys.argv[1]))])
text = sys.argv[2]
print([(m.start, m.end, m.type) for m in find(catalog, PredictRequest(text=text)).mentions])
print(remove(catalog, RedactRequest(text=text)).text.encode())
(one,) = catalog.models.values()
print(offered(one).takes_threshold, offered(one).why_not)
try:
    remove(catalog, RedactRequest(text=text, threshold=0.1))
except ServiceError as error:
    print(error.status)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "exported"), NOTE],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    mentions = Predictor.load(folders["joined"]).predict(NOTE)
    assert lines[0] == str([(each.start, each.end, each.label) for each in mentions])
    assert lines[1] == str(fedner.redact(NOTE, mentions).text.encode())
    assert lines[2].startswith("False An exported tagger")
    assert lines[3] == "422"


def test_frozen_transformers_can_read_in_half_precision(tiny_bert: Path, tmp_path: Path) -> None:
    tagger = fedner.Tagger.train(CORPUS, context=tiny_bert, epochs=1, model=SMALL)
    tagger.save(tmp_path / "context")
    offers = [Offer("context", "context", tmp_path / "context")]
    words = [["nausea", "after", "aspirin"]]
    features = []
    for is_quick in (False, True):
        (served,) = load_catalog(offers, is_quick=is_quick).models.values()
        assert isinstance(served.tagger, Predictor)
        assert served.tagger.model.encoder is not None
        features.append(served.tagger.model.encoder.encode(words)[0])
        served.tagger.predict(NOTE)
    exact, quick = features
    assert (exact != quick).any()
    assert abs(exact - quick).max() < 0.1 * abs(exact).max()
