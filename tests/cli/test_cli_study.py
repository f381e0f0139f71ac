"""`fedner study` and `fedner train STUDY --platform FILE`, as people type them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.errors import FednerError

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
[training]
rounds = 1
batch_size = 12
[[platforms]]
name = "case-reports"
data = "synthetic:case-reports"
num_sentences = 30
public_size = 20
[[platforms]]
name = "social-posts"
data = "synthetic:social-posts"
num_sentences = 30
"""


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    (tmp_path / "federation.toml").write_text(FEDERATION)
    output = invoke("study", "write", tmp_path / "federation.toml", "--out", tmp_path / "halves")
    assert "public_size of social-posts is the true size" in output
    return tmp_path / "halves"


def test_what_is_written_has_no_problem(halves: Path) -> None:
    platforms = [halves / name / "platform.toml" for name in ("case-reports", "social-posts")]
    assert invoke("study", "check", halves / "study.toml").startswith("no problem; digest")
    assert invoke("study", "check", halves / "study.toml", *platforms).startswith("no problem")
    found = json.loads(invoke("study", "check", halves / "study.toml", "--json"))
    assert found["problems"] == []
    assert len(found["digest"]) == 64


def test_problems_are_reported_under_their_file(halves: Path) -> None:
    own = halves / "case-reports" / "platform.toml"
    own.write_text(own.read_text() + "\n[policy]\nmax_rounds = 0\n")
    with pytest.raises(FednerError, match=rf"{own}: policy\.max_rounds"):
        invoke("study", "check", halves / "study.toml", own)


def test_a_study_and_its_platforms_are_trained(halves: Path, tmp_path: Path) -> None:
    platforms = [halves / name / "platform.toml" for name in ("case-reports", "social-posts")]
    options = [each for path in platforms for each in ("--platform", path)]
    run = tmp_path / "run"
    found = json.loads(invoke("train", halves / "study.toml", *options, "--out", run, "--json"))
    assert set(found["scores"]["platforms"]) == {"case-reports", "social-posts"}
    with pytest.raises(FednerError, match="expected one each of case-reports, social-posts"):
        invoke("train", halves / "study.toml", *options[:2], "--out", tmp_path / "other")
    with pytest.raises(FednerError, match="is a folder"):
        invoke("train", run, "--resume", *options)
