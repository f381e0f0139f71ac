"""What a long prediction says while it runs, and when it is stopped."""

import io
import json
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from fedner.cli import predict_progress
from fedner.cli.app import app
from fedner.cli.output import SafeConsole
from fedner.cli.predict_progress import PredictionProgress
from fedner.inference import job
from fedner.models.checkpoint import save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized


def shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> tuple[Console, io.StringIO]:
    held = io.StringIO()
    console = SafeConsole(file=held, force_terminal=terminal, width=90)
    monkeypatch.setattr(predict_progress, "errors", console)
    return console, held


def test_a_line_now_and_then_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    _, held = shown(monkeypatch, terminal=False)
    with PredictionProgress(4_000) as progress:
        progress.on_note(1)
        assert held.getvalue() == "", "not for every note"
        monkeypatch.setattr(predict_progress, "SECONDS_BETWEEN_LINES", -1.0)
        progress.on_note(2_000)
    (line,) = held.getvalue().splitlines()
    assert line.startswith("2,000 of 4,000 notes, ")
    assert line.endswith(" left")
    with PredictionProgress(None) as progress:
        progress.on_note(7)
    assert held.getvalue().splitlines()[1] == "7 notes"


def test_a_bar_for_those_who_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    _, held = shown(monkeypatch, terminal=True)
    with PredictionProgress(40) as progress:
        progress.on_note(12)
        progress._bar.refresh()
        assert "12/40" in held.getvalue()
    quiet = held.getvalue()
    with PredictionProgress(40, quiet=True) as progress:
        progress.on_note(13)
    assert held.getvalue() == quiet


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(("ADE", "Drug"), "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    folder = tmp_path_factory.mktemp("model") / "tagger"
    save_tagger(folder, tagger, recipe, space)
    return folder


def test_who_stops_a_job_is_told_how_it_goes_on(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    for number in range(5):
        (tmp_path / "notes" / f"{number}.txt").write_text("Took aspirin.")
    append, count = job.append_whole, 0

    def stopping(descriptor: int, data: bytes) -> None:
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        append(descriptor, data)

    out = tmp_path / "found.jsonl"
    command = ["predict", str(model), str(tmp_path / "notes"), "--out", str(out)]
    monkeypatch.setattr(job, "append_whole", stopping)
    stopped = CliRunner().invoke(app, command)
    assert stopped.exit_code == 130
    assert "the same command goes on where it was" in stopped.stderr.replace("\n", "")
    monkeypatch.undo()
    done = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(done.stdout)["resumed"] == 3
    assert json.loads(done.stdout)["documents"] == 5


def test_options_that_do_not_fit_are_refused(model: Path, tmp_path: Path) -> None:
    note = tmp_path / "a.txt"
    note.write_text("Rash.")
    for options, words in (
        (["--to", "csv"], "--to csv without --out"),
        (["--id-column", "key"], "--id-column without --text-column"),
        (["--out", str(tmp_path / "none" / "a.jsonl")], "no folder"),
        (["--format", "csv"], "no --text-column"),
    ):
        result = CliRunner().invoke(app, ["predict", str(model), str(note), *options])
        assert words in str(result.exception)
