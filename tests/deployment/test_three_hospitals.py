"""ADE Corpus V2, PsyTAR and TwiMed as three real platforms: docs/hospitals.md step by step.

Real processes, real corpora, word vectors and a context encoder. A fourth hospital fetches the
model. The same study in one process must come to the same tensors and scores. With `-s` it prints
the tables of docs/results.md.
"""

import importlib.util
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port
from hospitals import Machine, found_within, machines
from live import assert_same_states

pytestmark = [pytest.mark.deployment, pytest.mark.slow, pytest.mark.data]
NAMES = ("ade", "psytar", "twimed")
NEWCOMER = "east"
RUN = "first"
TRAIN_SECONDS = 1500.0  # 6 minutes on two quiet cores


@pytest.fixture(scope="module")
def halves(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study and each hospital's own settings, written from examples/hospitals.toml."""
    runs = _example_runs()
    encoder = runs.encoder()
    if encoder is None:
        pytest.skip(f"needs the encoder of the package {runs.ENCODER}")
    folder = tmp_path_factory.mktemp("halves")
    examples = runs.laid_out(data, encoder, folder / "examples")
    writer = Machine(folder)
    writer.fedner("study", "write", examples / "hospitals.toml", "--out", "study")
    for name in NAMES:
        _keep_features(folder / "study" / name / "platform.toml", folder / "features")
    return folder / "study"


def _example_runs() -> Any:
    """The module that lays out the examples; it stands with the golden runs."""
    place = Path(__file__).resolve().parents[1] / "golden"
    sys.path.insert(0, str(place))
    try:
        return importlib.import_module("example_runs")
    finally:
        sys.path.remove(str(place))


def _keep_features(settings: Path, cache: Path) -> None:
    """Keep context features where the run in one process finds them again."""
    text = settings.read_text()
    assert "[embeddings]" in text
    line = f"cache = {json.dumps(str(cache))}\n"
    head, rest = text.split("context = ", 1)
    settings.write_text(f"{head}{line}context = {rest}")


def test_three_hospitals_and_a_newcomer(halves: Path, tmp_path: Path) -> None:
    with machines(tmp_path, "coordinator", "server", *NAMES, NEWCOMER) as parties:
        coordinator = parties["coordinator"]
        authority = _create(coordinator, parties["server"], halves)
        for name in NAMES:
            _take_part(parties[name], coordinator, name, authority)
            shutil.copy(halves / name / "platform.toml", parties[name].folder)
        _pin_each_other(parties)
        for name in NAMES:
            _not_ready_without_a_server(parties[name])
        _start_all(parties)
        began = time.monotonic()
        done = coordinator.told("federation", "train", "--run", RUN, seconds=TRAIN_SECONDS)
        seconds = time.monotonic() - began
        assert (done["phase"], done["num_jobs"], done["faults"]) == ("done", 1, {})
        _newcomer_fetches(parties[NEWCOMER], coordinator, authority)
        _coordinator_reads(coordinator)
        records = {name: _hospital_reads(parties[name], name) for name in NAMES}
    shutil.copytree(halves, tmp_path / "study")
    _same_in_one_process(tmp_path)
    print(_tables(tmp_path, records, done, seconds))


def _create(coordinator: Machine, server: Machine, halves: Path) -> str:
    shutil.copy(halves / "study.toml", coordinator.folder)
    made = coordinator.told(
        "federation", "create", "study.toml", "--host", "localhost", "--port", free_port()
    )
    asked = server.told("server", "request", "localhost")
    _approve(server, coordinator, "localhost", asked["fingerprint"])
    server.fedner("server", "install", "localhost.approval.json", "--authority", made["authority"])
    return str(made["authority"])


def _approve(asking: Machine, coordinator: Machine, name: str, fingerprint: str) -> None:
    """The request goes to the coordinator, who types the fingerprint; the approval comes back."""
    asking.send(f"{name}.request.json", coordinator)
    words = ("federation", "approve", f"{name}.request.json", "--fingerprint", fingerprint)
    coordinator.fedner(*words)
    coordinator.send(f"{name}.approval.json", asking)


def _take_part(own: Machine, coordinator: Machine, name: str, authority: str) -> None:
    asked = own.told("platform", "request", name)
    _approve(own, coordinator, name, asked["fingerprint"])
    own.fedner("platform", "install", f"{name}.approval.json", "--authority", authority)
    shown = own.told("platform", "show", "--home", name)
    assert (shown["name"], shown["fingerprint"]) == (name, asked["fingerprint"])


def _pin_each_other(parties: dict[str, Machine]) -> None:
    """Hospitals read their fingerprints to each other; the coordinator sends a signed roster."""
    told = {n: parties[n].told("platform", "show", "--home", n)["fingerprint"] for n in NAMES}
    parties["coordinator"].fedner("federation", "roster", "--out", "roster.json")
    for name in NAMES:
        for other in NAMES:
            if other != name:
                parties[name].fedner("platform", "pin", other, told[other], "--home", name)
        parties["coordinator"].send("roster.json", parties[name])


def _not_ready_without_a_server(own: Machine) -> None:
    """Everything fits but the connection: the server was not started yet."""
    words = ("platform", "check", "--settings", "platform.toml", "--roster", "roster.json")
    found = json.loads(own.fedner(*words, "--json", code=2))
    problems = [each["subject"] for each in found["checks"] if each["result"] == "problem"]
    assert problems == ["connection"]


def _start_all(parties: dict[str, Machine]) -> None:
    parties["server"].start("server", "start")
    for name in NAMES:
        parties[name].start("platform", "start", "--settings", "platform.toml")
    found_within(120, lambda: _connected(parties["coordinator"]) == set(NAMES), "all connected")
    words = ("platform", "check", "--settings", "platform.toml", "--roster", "roster.json")
    assert parties[NAMES[0]].told(*words)["ready"]


def _connected(coordinator: Machine) -> set[str]:
    """Who is connected; nobody before the server listens."""
    try:
        found = coordinator.told("federation", "status")
    except AssertionError:
        return set()
    return {each["name"] for each in found["members"] if each["connected"]}


def _newcomer_fetches(own: Machine, coordinator: Machine, authority: str) -> None:
    """The newcomer asks, is approved, and fetches the model without a job; it finds something."""
    _take_part(own, coordinator, NEWCOMER, authority)
    found = own.told("federation", "fetch", "--home", NEWCOMER)
    assert (found["run"], found["no_model"]) == (RUN, "")
    text = "The patient developed severe nausea and a rash after taking sertraline."
    (own.folder / "note.txt").write_text(text + "\n")
    vectors, encoder = _public_files(coordinator.folder.parent / NAMES[0] / "platform.toml")
    said = own.fedner(
        "predict", found["model"], "note.txt", "--json", "--vectors", vectors, "--context", encoder
    )
    found_spans = json.loads(said.splitlines()[1])["spans"]  # after a line on the whole
    assert ("sertraline", "Drug") in {
        (text[e["start"] : e["end"]], e["label"]) for e in found_spans
    }


def _public_files(settings: Path) -> tuple[str, str]:
    import tomllib

    held = tomllib.loads(settings.read_text())["embeddings"]
    return held["words"], held["context"]


def _coordinator_reads(coordinator: Machine) -> None:
    shown = coordinator.told("federation", "status")["run"]
    assert (shown["run"], shown["phase"]) == (RUN, "done")
    folder = Path(coordinator.told("federation", "fetch")["folder"])
    assert (coordinator.folder / folder / "coordinator.html").is_file()


def _hospital_reads(own: Machine, name: str) -> dict[str, Any]:
    """Each hospital has its results at home; its record tells what left it."""
    for each in ("scores.json", "MODEL_CARD.md", "report.html", "taggers/federated"):
        assert (own.folder / name / "runs" / RUN / each).exists()
    found = own.told("platform", "record", "--home", name, "--run", RUN)
    assert found["verified"]
    assert [each["run"] for each in found["runs"]] == [RUN]
    assert found["runs"][0]["refused"] == {}
    return dict(found["runs"][0])


def _same_in_one_process(folder: Path) -> None:
    """`fedner train` with the same study and settings comes to the same tensors and scores."""
    words: list[object] = ["train", "study/study.toml", "--out", "simulated"]
    for name in NAMES:
        words += ["--platform", f"study/{name}/platform.toml"]
    Machine(folder).fedner(*words, seconds=TRAIN_SECONDS)
    for name in NAMES:
        deployed, simulated = folder / name / name / "runs" / RUN, folder / "simulated/platforms"
        assert _scores(deployed) == _scores(simulated / name)
        assert_same_states(deployed, simulated / name)
    assert_same_states(folder / "server/server/runs" / RUN / "server", folder / "simulated/server")


def _scores(run: Path) -> dict[str, Any]:
    found = json.loads((run / "scores.json").read_text())["methods"]
    assert set(found) == {"federated", "local-only"}
    return dict(found)


def _tables(
    folder: Path, records: dict[str, dict[str, Any]], done: dict[str, Any], seconds: float
) -> str:
    lines = [
        f"{done['rounds']} rounds in {seconds:.0f} s from `train` to the reports",
        "",
        "| platform | local-only | federated | updates | score reports | MB sent |",
        "|---|---|---|---|---|---|",
    ]
    for name, record in records.items():
        scores = _scores(folder / name / name / "runs" / RUN)
        alone, together = (
            100 * scores[method]["strict"]["micro"]["f1"] for method in ("local-only", "federated")
        )
        sent = f"{record['updates']} | {record['score_reports']} | {record['num_bytes'] / 1e6:.1f}"
        lines.append(f"| {name} | {alone:.2f} | {together:.2f} | {sent} |")
    return "\n".join(lines)
