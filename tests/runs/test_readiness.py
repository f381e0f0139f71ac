"""What a federation would train on, take and spend: checked as training checks it, not trained."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.cli.check_view import show
from fedner.corpus.sentence import Sentence
from fedner.runs import work_estimate
from fedner.runs.folder import PRIVACY, RunFolder
from fedner.runs.readiness import Readiness, check_run, repeated_texts
from fedner.runs.simulation import train_run
from fedner.settings import Settings, SettingsError

Make = Callable[..., Settings]
Opened = Callable[..., tuple[str, ...]]
SIMULATED = ("privacy.mechanism=unit-local", "privacy.simulation=true", "privacy.delta=1e-5")


def heard(_: str) -> None:
    return None


def checked(settings: Settings, folder: Path) -> Readiness:
    found = check_run(settings, folder, heard)
    assert not folder.exists(), "a check writes no run"
    return found


def test_a_check_says_what_would_be_trained_on(tiny: Make, tmp_path: Path) -> None:
    found = checked(tiny("platforms.1.num_sentences=200"), tmp_path / "run")
    facts = found.platforms["forum-posts"]
    assert (facts.train, facts.test) == (140, 60)
    assert sum(row.flattened for row in facts.types) > 0, "losses by flattening"
    assert found.traffic.rounds == 6
    assert found.num_shared > 0
    assert min(found.num_private.values()) > 0
    assert found.privacy == {}


def test_time_is_that_of_all_rounds_and_platforms(tiny: Make, tmp_path: Path) -> None:
    work = checked(tiny(), tmp_path / "run").work
    assert work is not None
    assert work.seconds_of_rounds == pytest.approx(6 * sum(work.round_seconds.values()))
    # Scored after rounds 3 and 6, and each finished tagger once.
    assert work.seconds_of_scores == pytest.approx(3 * sum(work.score_seconds.values()))
    assert work.seconds_of_rest == 0
    assert work.peak_bytes > 50e6, "python and torch alone have more"
    longer = tiny("engine.workers=3", 'training.baselines=["local-only"]', "participation.sample=2")
    work = checked(longer, tmp_path / "run").work
    assert work is not None
    assert work.seconds_of_rounds == pytest.approx(6 * 2 / 3 * sum(work.round_seconds.values()) / 3)
    assert work.seconds_of_rest > work.seconds_of_rounds


def test_a_busy_machine_is_said(
    tiny: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1_000_000, 100))
    monkeypatch.setattr(work_estimate.time, "process_time", lambda: next(clock) / 1e9)
    found = checked(tiny(), tmp_path / "run")
    assert found.work is not None
    assert 0 < found.work.processor_share < 0.01
    show(found, "fedner train x.toml")
    said = " ".join(capsys.readouterr().out.split())
    assert "the machine is busy: this process had a processor 0 % of the time" in said
    show(replace(found, work=replace(found.work, processor_share=0.9)), "fedner train x.toml")
    assert "busy" not in capsys.readouterr().out


def test_the_privacy_plan_is_what_the_run_spends(tiny: Make, tmp_path: Path) -> None:
    settings = tiny(*SIMULATED, "privacy.noise_multiplier=1.0", "training.rounds=2")
    planned = checked(settings, tmp_path / "run").privacy
    train_run(settings, tmp_path / "run")
    spent = RunFolder(tmp_path / "run").read(PRIVACY)["platforms"]
    assert set(planned) == set(spent)
    for name, each in planned.items():
        assert each.pld == pytest.approx(spent[name]["pld"])
        assert list(each.noise_multiplier) == pytest.approx(spent[name]["noise_multiplier"])


def test_a_trial_round_charges_no_ledger(tiny: Make, tmp_path: Path, ledgers: Opened) -> None:
    settings = tiny("privacy.noise_multiplier=2.0", *ledgers(50), "training.evaluate_every=0")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    found = checked(settings, tmp_path / "run")
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    assert found.work is not None
    assert set(found.privacy) == set(found.platforms)


def test_a_ledger_without_room_is_no_readiness(tiny: Make, tmp_path: Path, ledgers: Opened) -> None:
    asked = ("privacy.noise_multiplier=0.5", *ledgers(0.1), "training.evaluate_every=0")
    with pytest.raises(SettingsError, match="this run needs epsilon") as caught:
        check_run(tiny(*asked), tmp_path / "run", heard)
    assert len(caught.value.problems) == 3


def test_problems_of_all_parts_are_reported_together(tiny: Make, tmp_path: Path) -> None:
    settings = tiny('platforms.0.labels=["ADE"]', 'platforms.2.labels=["Dose", "ADE", "Drug"]')
    gone = tmp_path / "gone"
    settings = settings.model_copy(
        update={"embeddings": settings.embeddings.model_copy(update={"words": str(gone)})}
    )
    with pytest.raises(SettingsError) as caught:
        check_run(settings, tmp_path / "run", heard)
    keys = [problem.key for problem in caught.value.problems]
    assert any("embeddings" in key for key in keys)
    assert any("platforms[0]" in key for key in keys)
    assert any("platforms[2]" in key for key in keys)
    assert len(keys) == len(set(map(str, caught.value.problems)))


def test_test_sentences_that_are_trained_on_are_counted() -> None:
    def said(*texts: str) -> list[Sentence]:
        return [Sentence.of(tuple(text.split())) for text in texts]

    parts = {
        "a": (said("no pain", "took aspirin"), said("No pain", "slept well", "")),
        "b": (said("slept well", "slept well"), said("nothing new")),
    }
    found = [(each.test, each.train, each.sentences) for each in repeated_texts(parts)]
    assert found == [("a", "a", 1), ("a", "b", 1)]


def test_the_command_prints_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    assert runner.invoke(app, ["init"]).exit_code == 0
    printed = runner.invoke(app, ["check", "federation.toml", "--quick"])
    assert printed.exit_code == 0
    assert re.search("ready to train(, with [0-9]+ warnings? above)?: fedner train", printed.output)
    assert (", with " in printed.output) == ("warning: " in printed.output)
    asked = ["check", "federation.toml", "--quick", "--json", "--set", "training.rounds=3"]
    told = json.loads(runner.invoke(app, asked).output)
    assert told["ready"] is True
    assert told["traffic"]["rounds"] == 3
    assert told["work"] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["federation.toml"]
    wrong = runner.invoke(app, [*asked, "--set", 'platforms.0.labels=["Dose"]'])
    assert isinstance(wrong.exception, SettingsError)
