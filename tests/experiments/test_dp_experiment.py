"""The study of what privacy costs: what is run, what is stored, what the table says."""

import json
from pathlib import Path

import pytest

from fedner.experiments.dp import PLAIN, main, table
from fedner.experiments.variants import Outcome, mean_and_deviation

FEDERATION = """
title = "tiny"
[model]
recipe = "BI-LSTM-CRF"
hidden = 6
[embeddings]
dimension = 8
buckets = 64
[partition]
shared = "everything"
[algorithm]
name = "fedner"
server_optimizer = { learning_rate = 0.02 }
[privacy]
mechanism = "unit-central"
epsilon = 3.0
simulation = true
[training]
epochs = 1
batch_size = 16
[[platforms]]
name = "a"
data = "synthetic:case-reports"
num_sentences = 30
split = { test = 0.3 }
[[platforms]]
name = "b"
data = "synthetic:case-reports"
num_sentences = 30
split = { test = 0.3, seed = 5 }
"""


def outcome(variant: str, micro: float, seed: int = 1, epsilon: float | None = None) -> Outcome:
    return Outcome(variant, seed, {"a": micro, "b": micro}, micro, 0.9, 0.8, epsilon, epsilon)


def test_the_study_runs_every_epsilon_variant_and_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION)
    softmax = ["--variant", "softmax", "model.decoder=softmax"]
    study = [str(path), "--out", str(tmp_path / "out"), "--noise-seeds", "2", "--jobs", "1"]
    options = [*study, "--epsilons", "8", "--shares", "0.5", *softmax]
    options += ["--plain", "training.batch_size=16", "--plain", "training.epochs=1"]
    assert main(options) == 0
    stored = json.loads((tmp_path / "out" / "outcomes.json").read_text())
    found = [(each["variant"], each["noise_seed"]) for each in stored]
    assert found == [
        (PLAIN, 1),
        *(
            (f"epsilon 8{side} 50% of the data", seed)
            for side in ("", " softmax")
            for seed in (1, 2)
        ),
    ]
    for each in stored[1:]:
        assert 0 < each["epsilon"] <= 8.0
        assert each["epsilon_rdp"] >= each["epsilon"]
        assert set(each["platforms"]) == {"a", "b"}
    assert stored[0]["epsilon"] is None
    assert "| epsilon 8 softmax 50% of the data | " in capsys.readouterr().out
    assert main([*options, "--no-plain"]) == 0, "what is there is taken up again"


def test_the_table_has_shares_of_the_plain_score() -> None:
    rows = table(
        [outcome(PLAIN, 0.8), outcome("epsilon 3", 0.7, 1, 3.0), outcome("epsilon 3", 0.74, 2, 3.0)]
    ).splitlines()
    assert rows[2] == "| no DP |  | 0.800 | 0.800 | 0.800 | 100.0% | 1 |"
    assert rows[3] == "| epsilon 3 | 3.00 | 0.720 | 0.720 | 0.720 ± 0.028 | 90.0% | 2 |"


def test_one_run_has_no_deviation() -> None:
    assert mean_and_deviation([0.5]) == "0.500"
