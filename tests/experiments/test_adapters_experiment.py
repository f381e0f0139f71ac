"""The study of adapters: both ways run from one file, and bytes are those of the record."""

import json
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.experiments.adapters import (
    ADAPTED,
    WHOLE,
    Point,
    adapted_settings,
    main,
    run,
    shown,
    table,
)
from fedner.experiments.jobs import FederationJob

FEDERATION = """
title = "tiny"
[model]
recipe = "transformer"
[embeddings]
context = "{context}"
[partition]
shared = "encoder"
[algorithm]
name = "fedner"
server_optimizer = {{ learning_rate = 0.01 }}
[training]
rounds = 3
batch_size = 8
evaluate_every = 0
[[platforms]]
name = "a"
data = "synthetic:case-reports"
num_sentences = 40
split = {{ test = 0.3 }}
[[platforms]]
name = "b"
data = "synthetic:forum-posts"
num_sentences = 40
split = {{ test = 0.3 }}
"""


@pytest.fixture
def federation(tiny_bert: Path, tmp_path: Path) -> Path:
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION.format(context=tiny_bert))
    return path


def test_both_ways_from_one_file(federation: Path, tmp_path: Path) -> None:
    whole = run(FederationJob(federation, 1, 0.5, tmp_path / "whole", way=WHOLE))
    settings = adapted_settings(federation, (), "{rank=8}", 0.001)
    adapted = run(FederationJob(federation, 1, 0.5, tmp_path / "adapted", settings, ADAPTED))
    assert [point.platform for point in whole] == ["a", "b"]
    for point in adapted:
        numbers = 2 * 2 * (8 * 16 + 16 * 8)
        assert (point.rounds, point.up, point.down) == (3, 3 * 4 * numbers, 3 * 4 * numbers)
    assert whole[0].up > 3 * adapted[0].up
    stored = json.loads((tmp_path / "adapted" / "settings.json").read_text())
    assert stored["algorithm"]["server_optimizer"]["learning_rate"] == 0.001
    assert [each["split"]["keep"] for each in stored["platforms"]] == [0.5, 0.5]


def test_the_rate_is_set_where_the_encoder_is_stepped(federation: Path) -> None:
    found = adapted_settings(federation, ["algorithm={name='fedavg'}"], "{rank=2}", 0.5)
    assert found == (
        "model.adapter={rank=2}",
        "algorithm.local.optimizer.learning_rate=0.5",
        "local_optimizer.encoder_learning_rate=0.5",
    )


def test_a_recipe_without_encoder_is_refused(federation: Path, tmp_path: Path) -> None:
    assignments = ("model.recipe='LSTM-CRF'", "embeddings.context='none'")
    with pytest.raises(FednerError, match="trains no encoder"):
        run(FederationJob(federation, 1, 1.0, tmp_path / "run", assignments))


def test_the_tables() -> None:
    points = [
        Point(way, seed, platform, f1 + seed, f1, 10, 10 * up, 20 * up, 1.0)
        for way, f1, up in ((WHOLE, 80.0, 1_000_000), (ADAPTED, 78.0, 3_000))
        for seed in (1, 2)
        for platform in ("a", "b")
    ]
    lines = table(points).splitlines()
    assert lines[0] == "| trained and sent | a | b | mean |"
    assert lines[2].startswith("| whole encoder | 81.50 (")
    assert lines[3].startswith("| adapters | 79.50 (")
    assert lines[-2] == "| whole encoder | 10 | 1 MB | 2 MB | 20 MB | 40 MB |"
    assert lines[-1] == "| adapters | 10 | 3 kB | 6 kB | 60 kB | 120 kB |"
    assert table(points[:2]).splitlines()[2] == "| whole encoder | 81.00 | 81.00 | 81.00 |"


def test_sizes_as_people_read_them() -> None:
    found = [shown(size) for size in (90_261_504, 294_912, 999, 4.2e10)]
    assert found == ["90.3 MB", "295 kB", "999 B", "42 GB"]


@pytest.mark.slow
def test_the_command(federation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert main([str(federation), *options, "--set", "training.rounds=1"]) == 0
    assert "| adapters |" in capsys.readouterr().out
    stored = json.loads((tmp_path / "out" / "points.json").read_text())
    assert {point["way"] for point in stored["points"]} == {WHOLE, ADAPTED}
    assert all(point["rounds"] == 1 for point in stored["points"])
