"""A study that begins with a released model, as people type it."""

import json
import tomllib
from pathlib import Path

import pytest
from test_cli_study import FEDERATION, invoke

from fedner.errors import FednerError
from fedner.settings import SettingsError

HEAD = '[model]\nhead = "described"\nrank = 4\n'
SHARED = '[partition]\nshared = "everything"\n[types]\nADE = "adverse drug event"\n'
NAMES = ("case-reports", "social-posts")


def federation(path: Path, first: str = "", head: str = HEAD) -> Path:
    path.write_text(FEDERATION.replace("[model]\n", SHARED + head + first))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    invoke("train", federation(tmp_path / "one.toml"), "--out", tmp_path / "one")
    return tmp_path / "one" / "model"


def written(tmp_path: Path, first: str) -> tuple[Path, list[object]]:
    """Write both halves; return the study, and the options that name its platforms."""
    source, out = federation(tmp_path / "two.toml", first), tmp_path / "halves"
    invoke("study", "write", source, "--out", out)
    options = [each for name in NAMES for each in ("--platform", out / name / "platform.toml")]
    return out / "study.toml", list(options)


def test_a_study_names_the_model_and_whoever_trains_says_where_it_lies(
    tmp_path: Path, model: Path
) -> None:
    study, platforms = written(tmp_path, 'initial = "one/model"\n')
    named = tomllib.loads(study.read_text())["model"]["initial"]
    assert named == {
        "name": "tiny",
        "digest": json.loads((model / "model.json").read_text())["seal"],
    }
    assert str(tmp_path) not in study.read_text()
    assert "initial" not in (study.parent / "social-posts" / "platform.toml").read_text()
    assert invoke("study", "check", study).startswith("no problem")
    assert "\nno problem; digest" in invoke("study", "check", study, *platforms[1::2])
    invoke("train", study, *platforms, "--initial", model, "--out", tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "facts.json").read_text())
    assert facts["initial"]["digest"] == named["digest"]
    invoke("evaluate", tmp_path / "run")
    invoke("report", tmp_path / "run")
    with pytest.raises(FednerError, match=f"{named['digest']}.*nothing says where it is"):
        invoke("train", study, *platforms, "--out", tmp_path / "none")
    with pytest.raises(FednerError, match="is a folder"):
        invoke("train", tmp_path / "run", "--resume", "--initial", model)


def test_another_model_than_the_studys_is_refused_with_both_digests(
    tmp_path: Path, model: Path
) -> None:
    study, platforms = written(tmp_path, 'initial = "one/model"\n')
    other = tmp_path / "other"
    invoke("train", tmp_path / "one.toml", "--set", "seed=2", "--out", other)
    seals = [json.loads((each / "model.json").read_text())["seal"] for each in
             (other / "model", model)]  # fmt: skip
    with pytest.raises(SettingsError, match=rf"model\.initial: found .*{seals[0]}.*{seals[1]}"):
        invoke("train", study, *platforms, "--initial", other, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_study_is_not_written_for_a_model_of_another_kind(tmp_path: Path, model: Path) -> None:
    source = federation(
        tmp_path / "two.toml", f'initial = "{model}"\n', HEAD.replace("rank = 4", "rank = 5")
    )
    with pytest.raises(SettingsError, match=r"model\.rank: found 5; expected 4, as 'tiny' has it"):
        invoke("study", "write", source, "--out", tmp_path / "halves")
    assert not (tmp_path / "halves").exists()


def test_a_federation_file_says_itself_what_it_begins_with(tmp_path: Path, model: Path) -> None:
    source = federation(tmp_path / "two.toml")
    with pytest.raises(FednerError, match="--initial is for a study"):
        invoke("train", source, "--initial", model, "--out", tmp_path / "run")
    output = invoke("train", source, "--set", f"model.initial={model}", "--out", tmp_path / "run")
    assert "Began with tiny" in output.replace("\n", " ")


def test_a_path_in_a_study_is_refused(tmp_path: Path, model: Path) -> None:
    study, _ = written(tmp_path, f'initial = "{model}"\n')
    lines = [each if not each.startswith("initial") else f'initial = "{model}"'
             for each in study.read_text().splitlines()]  # fmt: skip
    study.write_text("\n".join(lines))
    with pytest.raises(SettingsError, match=r"model\.initial: .*a table with name and digest"):
        invoke("study", "check", study)
