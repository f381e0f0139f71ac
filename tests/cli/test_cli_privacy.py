"""`fedner privacy`: plans by two accountants, and what runs and ledgers spent."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.errors import FednerError

FEDERATION = """
title = "tiny private"
[model]
hidden = 6
filters = 8
character_filters = 6
character_dimension = 6
[embeddings]
dimension = 8
buckets = 64
[training]
rounds = 3
batch_size = 8
[privacy]
mechanism = "unit-local"
noise_multiplier = 1.0
budget = 50.0
simulation = true
uncharged = ["the rate was chosen by scores on these data"]
[[platforms]]
name = "case-reports"
data = "synthetic:case-reports"
num_sentences = 30
[[platforms]]
name = "social-posts"
data = "synthetic:social-posts"
num_sentences = 30
"""


def shown(*arguments: object) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def plan(*arguments: object) -> dict:
    common = ("--batch-size", 32, "--epochs", 10, "--delta", "1e-5", "--json")
    return json.loads(shown("privacy", "plan", *common, *arguments))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("private")
    (folder / "federation.toml").write_text(FEDERATION)
    shown("train", folder / "federation.toml", "--out", folder / "run", "--json")
    return folder / "run"


@pytest.mark.parametrize(("examples", "rdp", "pld"), [(14_987, 1.04, 0.74), (749, 4.96, 4.40)])
def test_epsilon_of_a_noise_by_both_accountants(examples: int, rdp: float, pld: float) -> None:
    made = plan("--noise-multiplier", 1, "--examples", examples)
    assert made["rdp"] == pytest.approx(rdp, abs=0.01)
    assert made["pld"] == pytest.approx(pld, abs=0.01)
    assert made["curve"][-1]["pld"] == made["pld"]


def test_noise_of_a_target_for_several_platforms_with_a_curve(tmp_path: Path) -> None:
    made = plan("--epsilon", 3, "--examples", 3000, "--platforms", 3, "--svg", tmp_path / "c.svg")
    assert made["examples_per_platform"] == 1000
    assert 2.9 < made["pld"] <= 3.0
    assert made["noise_multiplier"] < made["rdp_noise_multiplier"]
    assert ElementTree.parse(tmp_path / "c.svg").getroot().tag.endswith("svg")  # noqa: S314 - our own
    text = shown(
        "privacy", "plan", "--noise-multiplier", 1, "--examples", 749,
        "--batch-size", 32, "--epochs", 3, "--delta", "1e-5",
    )  # fmt: skip
    assert "epsilon (PLD)" in text
    assert "█" in text


def test_a_plan_without_a_strength_says_what_is_missing() -> None:
    with pytest.raises(FednerError, match="exactly one of noise_multiplier and epsilon"):
        plan("--examples", 100)


def test_what_a_run_spent(run: Path) -> None:
    found = json.loads(shown("privacy", "spent", run, "--json"))
    assert found["simulation"] is True
    assert found["uncharged"] == ["the rate was chosen by scores on these data"]
    one = found["platforms"]["social-posts"]
    assert one["steps"] == 3
    assert one["adjacency"] == "add_or_remove_one"
    assert 0 < one["pld"] < one["rdp"]
    assert one["in_all"] == one["pld"]
    text = shown("privacy", "spent", run)
    assert "simulation" in text
    assert "the rate was chosen" in text
    assert "Neighbours: with and without one unit." in text
    page = (run / "report.html").read_text()
    assert "Declared uses of protected data" in page


def test_what_a_ledger_says(run: Path) -> None:
    ledger = run / "platforms" / "case-reports" / "ledger"
    found = json.loads(shown("privacy", "spent", ledger, "--json"))
    assert found["releases"] == 3
    [name] = found["runs"]
    assert name.startswith("tiny private ("), "unlike the name of any other run of that title"
    assert found["all"] == found["runs"][name]
    assert found["budget"]["epsilon"] == 50.0
    text = shown("privacy", "spent", ledger)
    assert "budget: epsilon 50" in text
    assert "Neighbours: with and without one unit." in text


def test_an_owner_opens_a_ledger_and_changes_what_it_grants(tmp_path: Path) -> None:
    ledger = tmp_path / "ward"
    size = ("--public-size", 500)
    text = shown("privacy", "open", ledger, "--epsilon", 3, "--delta", "1e-5", "--unit", "patient",
                 *size)  # fmt: skip
    assert "epsilon 3 at delta 1e-05 for one patient" in text
    assert "Nobody else may read it" in text
    made = json.loads(shown("privacy", "budget", ledger, "--epsilon", 8, "--json"))
    assert (made["old"]["epsilon"], made["budget"]["epsilon"]) == (3.0, 8.0)
    assert made["who"]
    assert "key_digest" not in made
    found = json.loads(shown("privacy", "spent", ledger, "--json"))
    assert found["budget"]["epsilon"] == 8.0
    assert [each["epsilon"] for each in found["grants"]] == [3.0, 8.0]
    assert "What the owner granted" in shown("privacy", "spent", ledger)
    with pytest.raises(FednerError, match="nothing to change"):
        shown("privacy", "budget", ledger)
    whole = json.loads(shown("privacy", "open", tmp_path / "all", "--epsilon", 3, "--delta", 0.01,
                             "--unit", "platform", "--public-size", 6, "--json"))  # fmt: skip
    assert whole["budget"]["adjacency"] == "replace_one"


@pytest.mark.parametrize("command", ["plan", "open", "budget"])
def test_delta_against_the_public_size(tmp_path: Path, command: str) -> None:
    ledger = tmp_path / "ward"
    asked: tuple[object, ...] = (
        "--noise-multiplier",
        1,
        "--examples",
        100,
        "--batch-size",
        8,
        "--epochs",
        1,
    )
    if command == "open":
        asked = (ledger, "--epsilon", 3, "--unit", "patient", "--public-size", 100)
    if command == "budget":
        shown("privacy", "open", ledger, "--epsilon", 3, "--delta", "1e-5", "--unit", "patient",
              "--public-size", 100)  # fmt: skip
        asked = (ledger,)
    with pytest.raises(FednerError, match="more than one over the public size of 100 units"):
        shown("privacy", command, *asked, "--delta", 0.011)
    [warning] = json.loads(shown("privacy", command, *asked, "--delta", 0.002, "--json"))[
        "warnings"
    ]
    assert "more than a tenth" in warning
    if command == "plan":
        assert "warning: delta is 0.002" in shown("privacy", "plan", *asked, "--delta", 0.002)
        assert not json.loads(shown("privacy", "plan", *asked, "--delta", 0.001, "--json"))[
            "warnings"
        ]


def test_a_folder_without_a_book_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="neither a run nor a privacy ledger"):
        shown("privacy", "spent", tmp_path)


def test_help_needs_no_heavy_import() -> None:
    code = (
        "import sys; from fedner.cli.app import app; "
        "print([m for m in ('torch', 'numpy', 'scipy', 'dp_accounting') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
