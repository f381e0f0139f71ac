"""The study of joining: every seed and share is run beside its baseline, and gains are paired."""

import json
from pathlib import Path

import pytest

from fedner.experiments.taking_part import Point, main, table

FEDERATION = """
title = "tiny"
[model]
recipe = "CNN-CRF"
filters = 8
[embeddings]
dimension = 8
buckets = 64
[algorithm]
name = "fedner"
server_optimizer = { learning_rate = 0.02 }
[partition]
shared = "fedner"
[local_optimizer]
learning_rate = 0.02
[training]
rounds = 4
batch_size = 12
baseline_epochs = 2
patience = 1
evaluate_every = 0
[[platforms]]
name = "a"
data = "synthetic:case-reports"
num_sentences = 40
split = { test = 0.3 }
[[platforms]]
name = "b"
data = "synthetic:social-posts"
num_sentences = 40
split = { test = 0.3 }
"""


def test_the_study_runs_both_ways_for_every_seed_and_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION)
    study = [str(path), "--out", str(tmp_path / "out"), "--jobs", "1"]
    assert main([*study, "--seeds", "2", "--first-seed", "3", "--shares", "0.5"]) == 0
    record = json.loads((tmp_path / "out" / "points.json").read_text())
    found = {
        (each["share"], each["seed"], each["platform"], each["method"]) for each in record["points"]
    }
    assert found == {
        (0.5, seed, platform, method)
        for seed in (3, 4)
        for platform in ("a", "b")
        for method in ("local-only", "federated")
    }
    assert record["options"]["seeds"] == "2"
    assert "Training share 50%:" in capsys.readouterr().out


def test_gains_are_paired_by_seed() -> None:
    points = [
        Point(1.0, seed, "a", method, strict, strict)
        for seed, alone, federated in ((1, 60.0, 61.0), (2, 70.0, 72.0), (3, 50.0, 53.0))
        for method, strict in (("local-only", alone), ("federated", federated))
    ]
    row = next(line for line in table(points).splitlines() if line.startswith("| a |"))
    # Mean 2, standard deviation 1, Student's t 4.303 for three seeds: 2 +- 2.48.
    assert row == "| a | 60.00 | 62.00 | +2.00 (-0.48 to +4.48) | +1.00, +2.00, +3.00 |"
