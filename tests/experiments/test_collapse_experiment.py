"""The study of the collapse: every variant is a valid federation, and one of each kind runs."""

import json
from pathlib import Path

import pytest

from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_documents
from fedner.experiments.collapse import main, micro_batches, one_platform, several_platforms, table
from fedner.experiments.variants import Outcome
from fedner.runs.checks import read_settings

FEDERATION = """
title = "tiny 2021"
[model]
recipe = "BI-LSTM-TDDL"
hidden = 6
[embeddings]
dimension = 8
buckets = 64
[partition]
shared = "everything"
[algorithm]
name = "fedavg"
weighting = "equal"
local = { optimizer = { name = "sgd", learning_rate = 0.15 }, epochs = 2 }
[privacy]
mechanism = "unit-local"
max_grad_norm = 1.5
noise_multiplier = 1.0
simulation = true
[training]
rounds = 1
batch_size = 32
evaluate_every = 0
[[platforms]]
name = "all"
data = "corpus.jsonl"
labels = ["ADE", "Dosage", "Drug"]
split = { test = 0.3 }
"""


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    corpus = generate("case-reports", 80, seed=1)
    write_documents(
        tmp_path / "corpus.jsonl", corpus.documents, name=corpus.name, labels=corpus.labels
    )
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION)
    return path


def test_every_variant_is_a_valid_federation_of_its_own(federation: Path) -> None:
    variants = [
        *one_platform(),
        *micro_batches(federation, (), federation.parent / "out"),
        *several_platforms(federation, ()),
    ]
    assert len({each.name for each in variants}) == len(variants)
    understood = {each.name: read_settings(federation, each.assignments) for each in variants}
    assert len({settings.model_dump_json() for settings in understood.values()}) == len(variants)
    assert understood["micro-batches of 8"].training.batch_size == 4
    assert understood["micro-batches of 8"].privacy.max_grad_norm == 12.0
    assert len(understood["n = 20"].platforms) == 20
    assert understood["n = 5, slices to 60%, one pass"].training.rounds == 6


@pytest.mark.parametrize(
    "only", ["as in 2021", "micro-batches of 8", "slices to 20%, 10 passes, CRF"]
)
def test_a_variant_runs_and_is_told_with_both_measures(
    federation: Path, only: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = federation.parent / "out"
    study = [str(federation), "--out", str(out), "--noise-seeds", "1", "--jobs", "1"]
    assert main([*study, "--only", only]) == 0
    (stored,) = json.loads((out / "outcomes.json").read_text())
    assert only in stored["variant"]
    assert stored["epsilon_rdp"] > stored["epsilon"] > 0
    assert 0 < stored["always_o"] < 1
    printed = capsys.readouterr().out
    assert f"Always O: {stored['always_o']:.3f}" in printed
    assert f"{stored['epsilon']:.2f} / {stored['epsilon_rdp']:.2f}" in printed


def test_a_table_leaves_epsilon_out_where_there_is_none() -> None:
    rows = table([Outcome("no DP", 1, {"a": 0.5}, 0.5, 0.9, 0.8, None, None)]).splitlines()
    assert rows[-1] == "| no DP | 0.500 | 0.900 |  | 1 |"
