"""The repository itself: snippets run, exports exist, nothing foreign (links: tests/docs)."""

import importlib
import pkgutil
import re
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

import fedner
from fedner.federated.algorithms import FednerSettings
from fedner.federated.messages import Failure, Order, ScoreReport, SumMessage, Update
from fedner.runs.checks import read_settings
from fedner.settings import Settings, SettingsError

ROOT = Path(__file__).resolve().parents[1]


def test_every_cell_of_the_threat_table_has_a_test_or_is_an_assumption() -> None:
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    named = re.findall(r'^\[(\w+)\]: (\.\./tests/\S+) "(test_\w+)"$', page, re.M)
    for _, path, test in named:
        assert f"def {test}(" in (ROOT / "docs" / path).read_text(encoding="utf-8"), test
    table = page.split("### Who learns what")[1].split("\n\n")[2].splitlines()
    used = {each for row in table for each in re.findall(r"\]\[(\w+)\]", row)}
    assert used == {name for name, _, _ in named}, "each is used, and each is named"
    for row in table[2:]:
        cells = row.strip("|").split("|")[1:]
        assert all("](" in each or "][" in each or "*assumed*" in each for each in cells), row


def test_the_snippet_on_corpora_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "corpora.md").read_text()
    snippet = re.findall(r"```python\n(.*?)```", page, re.S)[-1]
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("Nausea after aspirin.\n")
    (notes / "a.ann").write_text("T1\tADE 0 6\tNausea\nT2\tDrug 13 20\taspirin\n")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(compile(snippet, "docs/corpora.md", "exec"), scope)  # noqa: S102 - our own page
    assert scope["corpus"].labels == ("ADE", "Drug")
    assert len(scope["prepared"].sentences) == 1


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda p: p.name)
def test_examples_are_whole_but_for_the_data_that_users_bring(path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(path, ())
    keys = {problem.key.rpartition(".")[2] for problem in caught.value.problems}
    assert keys <= {"words", "context", "data", "test_data"}


def test_every_key_of_a_federation_is_documented() -> None:
    page = (ROOT / "docs" / "federation.md").read_text().split("## The keys", 1)[1]
    page += (ROOT / "docs" / "policy.md").read_text().split("## Every key", 1)[1]
    first_cells = [row.split("|")[1] for row in page.splitlines() if row.startswith("| ")]
    told = {word for cell in first_cells for word in re.findall(r"[a-z_]+", cell)}
    models = [Settings]
    for model in models:  # grows as sections are found
        for field in model.model_fields.values():
            held = [field.annotation, *get_args(field.annotation)]
            inner = [
                each for each in held if isinstance(each, type) and issubclass(each, BaseModel)
            ]
            models += [each for each in inner if each not in models]
    names = {name for model in models for name in model.model_fields}
    names |= {each.name for each in fields(FednerSettings)}
    assert len(models) > 10
    assert names - told == set()


@pytest.mark.parametrize("message", [Order, Update, ScoreReport, SumMessage, Failure])
def test_the_page_on_architecture_says_of_every_field_why_it_may_cross(message: type) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split(f"**`{message.__name__}`**", 1)[1].split("\n\n")[1]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    told = [word for row in rows for word in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(told) == sorted(each.name for each in fields(message))


def test_every_exported_name_exists() -> None:
    for module in pkgutil.walk_packages(fedner.__path__, "fedner."):
        if module.name.endswith(("__main__", "_triton")):
            continue
        loaded = importlib.import_module(module.name)
        missing = [name for name in getattr(loaded, "__all__", ()) if not hasattr(loaded, name)]
        assert missing == [], module.name


def test_tracked_files_are_small_and_name_no_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / line for line in listed.stdout.splitlines()]
    large = [path.name for path in paths if path.is_file() and path.stat().st_size > 1_000_000]
    assert large == []
    texts = [path for path in paths if path.suffix in (".py", ".md", ".toml", ".yaml")]
    home = re.compile("/(?:ro" + "ot|wo" + "rk)/")
    named = [path.name for path in texts if path.is_file() and home.search(path.read_text())]
    assert named == []


README_LINES = 80


def test_the_readme_opens_with_what_works_what_does_not_and_a_line_that_installs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    opening, install = text.split("\n## ")[:2]
    assert opening.startswith("# fedner\n\n**What works today")
    assert "simulations" in opening.split("\n\n")[1]
    assert "one machine" in opening.split("\n\n")[1]
    assert opening.split("\n\n")[2].startswith("**What is not there yet:**")
    assert len(text.splitlines()) <= README_LINES, "one screen: move the rest to docs"
    assert text.count("![") == 1
    (line,) = re.findall(r"^python3 -m venv .*pip install --editable '\.\[(.*)\]'$", install, re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(line.split(",")) <= set(project["optional-dependencies"])
    assert "fedner" in project["scripts"], "the next line runs it"
