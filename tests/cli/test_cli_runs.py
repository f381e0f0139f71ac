"""Training and using runs as people do it: commands, files, signals."""

import json
import os
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.errors import FednerError
from fedner.federated.checkpoints import read_state
from few_settings import few_settings

FEDERATION = """
title = "tiny"
[model]
hidden = 6
filters = 8
character_filters = 6
character_dimension = 6
[embeddings]
dimension = 8
buckets = 64
[algorithm]
server_optimizer = { learning_rate = 0.02 }
[local_optimizer]
learning_rate = 0.02
[training]
rounds = 20
batch_size = 12
evaluate_every = 10
checkpoint_every = 1
[[platforms]]
name = "case-reports"
data = "synthetic:case-reports"
num_sentences = 30
[[platforms]]
name = "social-posts"
data = "synthetic:social-posts"
num_sentences = 30
"""
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "fedner", *map(str, arguments)]


def shown(*arguments: object) -> str:
    """What people see, in this very process: quicker than one of its own."""
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*arguments: object) -> dict:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("federation") / "federation.toml"
    path.write_text(FEDERATION)
    return path


@pytest.fixture(scope="module")
def trained(federation: Path) -> Path:
    folder = federation.parent / "trained"
    found = run_json("train", federation, "--out", folder)
    assert found["run"] == str(folder)
    return folder


def test_init_writes_an_example_that_runs_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    run_json("init", path)
    assert path.read_text().count("#") > 20
    with pytest.raises(Exception, match="already there"):
        run_json("init", path)
    found = run_json("train", path, "--out", tmp_path / "run", "--set", "training.epochs=1")
    assert set(found["scores"]["platforms"]) == {"case-reports", "forum-posts", "social-posts"}
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_wrong_file_tells_all_its_problems_and_exits_2(
    federation: Path, fedner: Callable[..., tuple[int, str, str]]
) -> None:
    wrong = federation.parent / "wrong.toml"
    wrong.write_text(
        FEDERATION.replace("hidden = 6", "hiden = 6")
        .replace("batch_size = 12", "batch_size = 1")
        .replace('data = "synthetic:social-posts"', 'data = "nowhere.tsv"')
    )
    code, _, error = fedner("train", wrong, "--out", federation.parent / "never")
    assert code == 2
    for part in (
        "3 problems",
        "model.hiden",
        "'hidden'",
        "training.batch_size",
        "platforms[1].data",
    ):
        assert part in error.replace("\n", " "), part
    assert "Traceback" not in error
    assert not (federation.parent / "never").exists()


def test_set_overrides_with_typed_values(federation: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_json("train", federation, "--out", out, "--set", "training.rounds=2", "--set", "seed=9")
    settings = json.loads((out / "settings.json").read_text())
    assert settings["training"]["rounds"] == 2
    assert settings["seed"] == 9
    assert len((out / "rounds.jsonl").read_text().splitlines()) == 2


def test_people_see_a_table_and_where_things_are(federation: Path, tmp_path: Path) -> None:
    told = shown("train", federation, "--out", tmp_path / "r", "--set", "training.rounds=2")
    for part in ("synthetic", "case-reports", "What each platform disclosed", "report.html"):
        assert part in told


def test_evaluate_gives_the_scores_of_the_run_again(trained: Path) -> None:
    before = json.loads((trained / "scores.json").read_text())
    assert run_json("evaluate", trained) == before


def test_compare_report_and_errors(trained: Path) -> None:
    found = run_json("compare", trained, trained)
    assert found["platforms"]["case-reports"]["verdict"] == "not clear"
    (trained / "MODEL_CARD.md").unlink()
    written = run_json("report", trained)
    assert written["report"] == str(trained / "report.html")
    assert written["card"] == str(trained / "MODEL_CARD.md")
    assert (trained / "MODEL_CARD.md").read_text().startswith("# Model card: ")
    found = run_json("errors", trained, "--platform", "case-reports", "--limit", "0")
    scores = json.loads((trained / "scores.json").read_text())["platforms"]["case-reports"]
    micro = scores["methods"]["federated"]["strict"]["micro"]
    mistakes = [each for group in found["groups"] for each in group["mistakes"]]
    assert sum(each["gold"] is not None for each in mistakes) == micro["fn"]
    assert {each["document"] for each in mistakes} == {
        name for group in found["groups"] for name in group["documents"]
    }
    assert "missed Drug (" in shown("errors", trained, "--platform", "case-reports")
    counted = run_json("errors", trained, "--platform", "case-reports", "--counts")["groups"]
    held = {(each["type"], each["kind"]): each["count"] for each in counted}
    assert all("mistakes" not in each for each in counted), "no text"
    kept = scores["mistakes"]["federated"]
    assert {key: kept[key[0]][key[1]] for key in held} == held
    assert sum(held.values()) == sum(sum(each.values()) for each in kept.values())
    none = shown("errors", trained, "--platform", "case-reports", "--type", "Nothing")
    assert "no mistakes: Nothing; there are some of the types " in none
    few = run_json("errors", trained, "--platform", "case-reports", "--kind", "missed")["groups"]
    assert {each["kind"] for each in few} == {"missed"}
    assert "not clear" in shown("compare", trained, trained)


def test_predict_and_redact_with_a_platform_of_a_run(trained: Path, tmp_path: Path) -> None:
    text = tmp_path / "note.txt"
    text.write_bytes(b"Took aspirin 20 mg.\r\nNo rash.\r\n")
    lines = shown("predict", trained, text, "--platform", "case-reports", "--json").splitlines()
    assert json.loads(lines[1])["text"] == "Took aspirin 20 mg.\r\nNo rash.\r\n"
    arguments = ("redact", trained, text, "--platform", "case-reports", "--out", tmp_path / "o.txt")
    found = run_json(*arguments)
    assert found["files"][0]["target"] == str(tmp_path / "o.txt")
    assert (tmp_path / "o.txt").read_bytes().count(b"\r\n") == 2
    with pytest.raises(FednerError, match="never overwrites"):
        shown(*arguments)


def test_a_platform_joins_later(trained: Path, tmp_path: Path) -> None:
    arguments = (
        "join", trained, "--data", "synthetic:forum-posts", "--labels", "ADE,Drug",
        "--label-map", "Disease=", "--label-map", "Finding=", "--label-map", "Symptom=ADE",
        "--types", "ADE=an unwanted effect", "--num-sentences", "30", "--epochs", "1",
    )  # fmt: skip
    found = run_json(*arguments, "--out", tmp_path / "late")
    assert found["sent"] == "nothing"
    assert found["warnings"] == ['Drug: described by name alone; --types "Drug=..." says more']
    assert found["types"] == {"ADE": "an unwanted effect", "Drug": "Drug"}
    assert set(found["results"][found["kept"]]["scores"]["strict"]["labels"]) == {"ADE", "Drug"}
    assert len(found["selection"]["candidates"]) == 18
    text = tmp_path / "note.txt"
    text.write_text("Took aspirin.")
    assert "Took aspirin" in shown("predict", tmp_path / "late", text, "--json")


def test_joining_is_shown_to_people(trained: Path, tmp_path: Path) -> None:
    with few_settings():
        said = shown(
            "join", trained, "--data", "synthetic:social-posts", "--num-sentences", "25",
            "--epochs", "1", "--test", "0", "--out", tmp_path / "late",
        )  # fmt: skip
    assert "selection scores, not a result" in said
    assert "sent: nothing" in said
    assert "nobody knows how good the tagger is" in said
    with pytest.raises(FednerError, match="already there"):
        shown("join", trained, "--data", "synthetic:social-posts", "--out", tmp_path / "late")


def test_joining_that_was_stopped_says_how_to_go_on(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedner.runs.joining import cross_validation

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cross_validation, "run_job", stop)
    result = CliRunner().invoke(
        app, ["join", str(trained), "--data", "synthetic:social-posts", "--num-sentences", "20",
              "--out", str(tmp_path / "late")]
    )  # fmt: skip
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr


def test_a_tagger_without_mistakes_is_said_to_have_none(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedner.runs import mistakes

    monkeypatch.setattr(mistakes, "find_mistakes", lambda *_: [])
    said = shown("errors", trained, "--platform", "case-reports")
    assert said.rstrip().endswith("no mistakes")


@pytest.mark.parametrize(
    ("stopped_in", "said"),
    [
        ("load_platforms", "stopped before the run began"),
        ("_train", "stopped after round 0; go on with: fedner train '{}' --resume"),
    ],
)
def test_training_that_was_stopped_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_in: str, said: str
) -> None:
    from fedner.runs import simulation

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(simulation, stopped_in, stop)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init"]).exit_code == 0
    folder = tmp_path / "my run"
    result = CliRunner().invoke(app, ["train", "federation.toml", "--out", str(folder)])
    assert result.exit_code == 130
    assert said.format(folder) in result.stderr
    assert ("--resume" in result.stderr) == (folder / "settings.json").is_file()


@pytest.mark.parametrize("wrong", ["ADE", "=x", "ADE="])
def test_a_type_without_a_description_is_refused(trained: Path, tmp_path: Path, wrong: str) -> None:
    with pytest.raises(FednerError, match="is not NAME=DESCRIPTION"):
        shown("join", trained, "--data", "synthetic:social-posts", "--types", wrong,
              "--out", tmp_path / "late")  # fmt: skip


def final_weights(folder: Path) -> dict[str, torch.Tensor]:
    held = {}
    for part in (folder / "server", *sorted((folder / "platforms").iterdir())):
        tensors, _ = read_state(part, 20)
        held |= {f"{part.name}/{name}": tensor for name, tensor in tensors.items()}
    return held


def wait_for_rounds(folder: Path, number: int, process: subprocess.Popen[bytes]) -> None:
    record = folder / "rounds.jsonl"
    while process.poll() is None:
        if record.is_file() and record.read_bytes().count(b"\n") >= number:
            return
        time.sleep(0.005)


KILLED = """
import os, signal, sys
from fedner.cli import main
def dies(event, arguments):
    if event == "os.rename" and "round-000005" in os.fsdecode(arguments[1]):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(dies)
main()
"""


def test_killed_and_resumed_gives_the_same_weights(
    federation: Path, trained: Path, tmp_path: Path
) -> None:
    """Several deaths of one run are those of `tests/engines/test_kill.py`."""
    out = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, "train", federation, "--out", out, "--json"],
        capture_output=True,
        check=False,
        env=ONE_THREAD,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    run_json("train", out, "--resume")
    whole, parts = final_weights(trained), final_weights(out)
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def hear_ctrl_c() -> None:
    """Undo what a shell does to its background jobs, which these tests may be: ignoring Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(federation: Path, tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    arguments = ("train", federation, "--out", out, "--set", "training.rounds=5000")
    process = subprocess.Popen(
        command(*arguments),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=ONE_THREAD,
        preexec_fn=hear_ctrl_c,  # noqa: PLW1509 - one call, and nothing else runs in the child
    )
    try:
        wait_for_rounds(out, 3, process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    assert f"fedner train {out} --resume" in said.decode()
    assert "Traceback" not in said.decode()


def test_a_folder_is_no_federation_file(trained: Path) -> None:
    with pytest.raises(FednerError, match="--resume"):
        shown("train", trained)


SHORT_DEMO = ("--num-sentences", "40", "--rounds", "2", "--epochs", "1", "--workers", "1")


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a short demo, and what it said."""
    out = tmp_path_factory.mktemp("shown") / "demo"
    with few_settings():
        return out, shown("demo", *SHORT_DEMO, "--out", out)


def test_the_demo_tells_who_has_what_and_that_nothing_was_sent(
    demonstrated: tuple[Path, str],
) -> None:
    out, told = demonstrated
    assert "Synthetic data" in told
    assert "case-reports: 40 sentences" in told
    assert "social-posts: 25 annotated sentences" in told
    assert "alone, with its 25 sentences" in told
    assert "joined: received, then its 25 sentences" in told
    assert "Sent by the newcomer: nothing." in told
    assert "No differential privacy" in told
    assert "Synthetic data" in (out / "together" / "report.html").read_text()
    record = json.loads((out / "social-posts" / "joining.json").read_text())
    assert record["sent"] == "nothing"
    assert (record["train_sentences"], record["synthetic"]) == (25, True)
    assert record["received"]["head"] == "described"


def test_the_platforms_of_the_demo_never_saw_the_newcomer(demonstrated: tuple[Path, str]) -> None:
    out, _ = demonstrated
    assert sorted(each.name for each in (out / "together" / "platforms").iterdir()) == [
        "case-reports",
        "forum-posts",
    ]
    for path in (out / "together").rglob("*"):
        assert path.is_dir() or b"social-posts" not in path.read_bytes(), path


def test_the_next_command_of_the_demo_runs(demonstrated: tuple[Path, str]) -> None:
    out, told = demonstrated
    (line,) = (line for line in told.splitlines() if line.startswith("next"))
    words = shlex.split(line.partition(": fedner ")[2])
    assert words[:2] == ["join", str(out / "together" / "model")]
    with few_settings():
        assert json.loads(shown(*words, "--epochs", "1", "--json"))["train_sentences"] == 100


def test_a_demo_that_was_stopped_goes_on_in_its_folder(
    demonstrated: tuple[Path, str], tmp_path: Path
) -> None:
    shutil.copytree(demonstrated[0] / "together", tmp_path / "demo" / "together")
    model = tmp_path / "demo" / "together" / "model" / "model.json"
    written = model.stat().st_mtime_ns
    with few_settings():
        told = shown("demo", *SHORT_DEMO, "--out", tmp_path / "demo", "--json")
    assert model.stat().st_mtime_ns == written, "the platforms do not train again"
    first = json.loads((demonstrated[0] / "social-posts" / "joining.json").read_text())
    assert json.loads(told)["results"] == first["results"]


def test_an_algorithm_of_ones_own_from_the_docs_runs(
    federation: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    snippet = Path(__file__).parents[2] / "docs" / "snippets" / "custom_algorithm.py"
    monkeypatch.setattr(sys, "argv", [str(snippet), str(federation), str(tmp_path / "run")])
    runpy.run_path(str(snippet), run_name="__main__")
    assert "'federated'" in capsys.readouterr().out
    tensors, _ = read_state(tmp_path / "run" / "server", 20)
    held = {name.removeprefix("memory/") for name in tensors if name.startswith("memory/")}
    assert held == {name.removeprefix("shared/") for name in tensors if name.startswith("shared/")}
    assert len(snippet.read_text().splitlines()) <= 42
