"""docs/policy.md: every key, every code, and examples that do what the page says."""

import contextlib
import io
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedner.federated.failure_codes import REFUSALS
from fedner.privacy.budget import Budget
from fedner.privacy.ledger_owner import open_ledger
from fedner.runs.policy import job_problems
from fedner.runs.study_defaults import with_defaults
from fedner.settings import PlatformSettings, PolicySettings, Study, parse_as

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()
ROWS = dict(re.findall(r"^\| `([a-z_-]+)` \| (.*?)(?: \||$)", PAGE, re.MULTILINE))


def block(kind: str, number: int = 0) -> str:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[number]


def test_every_key_is_explained() -> None:
    assert set(PolicySettings.model_fields) <= set(ROWS)


def test_every_code_has_its_words_on_the_page() -> None:
    assert {code: ROWS.get(code) for code in REFUSALS} == dict(REFUSALS)


def test_the_snippet_runs_and_says_what_the_page_shows() -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(block("python"), "docs/policy.md", "exec"), {})  # noqa: S102 - our own page
    assert f"```\n{said.getvalue()}```" in PAGE


# The cautious example.

FITTING: dict[str, Any] = {
    "privacy": {
        "mechanism": "unit-local",
        "unit": "patient",
        "epsilon": 2.9,
        "delta": 1e-5,
        "tuned_on": "public",
    },
    "training": {"rounds": 100, "batch_size": 64, "evaluate_every": 0},
    "platforms": [
        {"name": name, "public_size": 4000, "labels": ["ADE", "Drug"]}
        for name in ("clinic", "ward", "annex")
    ],
}


def study(**changes: Any) -> Study:
    return with_defaults(parse_as(Study, FITTING | changes, "study.toml"))


@pytest.fixture
def cautious(tmp_path: Path) -> PlatformSettings:
    open_ledger(tmp_path / "ledger", Budget(8.0, 1e-5, "patient"), 4000)
    tables = tomllib.loads(block("toml"))
    return parse_as(PlatformSettings, tables | {"ledger": str(tmp_path / "ledger")}, "the page")


def refused(own: PlatformSettings, **changes: Any) -> set[str]:
    found = job_problems(study(**changes), own, pinned=["ward", "annex"])
    return {refusal.code for refusal in found}


def test_the_cautious_example_accepts_a_cautious_study(cautious: PlatformSettings) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    assert refused(cautious) == set()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"privacy": {}}, "policy-mechanism"),
        ({"privacy": FITTING["privacy"] | {"simulation": True}}, "policy-simulation"),
        ({"privacy": FITTING["privacy"] | {"mechanism": "unit-central"}}, "policy-noise"),
        ({"privacy": FITTING["privacy"] | {"unit": "sentence"}}, "policy-unit"),
        ({"privacy": FITTING["privacy"] | {"epsilon": 3.1}}, "policy-epsilon"),
        ({"partition": {"shared": "everything"}}, "policy-tensors"),
        ({"platforms": FITTING["platforms"][:2]}, "policy-others"),
        ({"training": {"rounds": 1001}}, "policy-rounds"),
        ({"release": {"to": "public"}}, "policy-release"),
    ],
)
def test_the_cautious_example_refuses(
    cautious: PlatformSettings, changes: dict[str, Any], code: str
) -> None:
    assert code in refused(cautious, **changes)


def test_the_commands_of_the_record_have_these_options() -> None:
    import typer
    from typer.testing import CliRunner

    from fedner.cli.record import record

    app = typer.Typer()
    app.command("record")(record)
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    options = set(re.findall(r"fedner platform record.*?(--\w+)", block("sh")))
    options |= set(re.findall(r" (--(?:run|expect|json))", block("sh")))
    assert {"--home", "--run", "--expect", "--json"} == options
    assert all(option in shown for option in options)
