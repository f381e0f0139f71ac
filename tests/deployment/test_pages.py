"""docs/it-department.md, docs/operating.md and deploy/ against what there is: no process needed."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedner.runs.deployment.kits import ALLOWED_CLASSES, LOG_BYTES, LOG_FILES
from fedner.version import __version__

ROOT = Path(__file__).parents[2]
OPERATING = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
IT = (ROOT / "docs" / "it-department.md").read_text(encoding="utf-8")
HOSPITALS = (ROOT / "docs" / "hospitals.md").read_text(encoding="utf-8")
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
TARGETS = {"": "make test", "deployment": "make test-deployment", "both": "make test-faults"}


def marks(node: ast.AST) -> set[str]:
    """Return which of the two marks stand in a piece of a test file."""
    text = ast.unparse(node)
    return {mark for mark in ("slow", "deployment") if f"mark.{mark}" in text}


def functions(path: Path) -> Iterator[set[str]]:
    """Yield the marks of every test function of a file."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    whole: set[str] = set()
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            whole = marks(node.value)
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield whole.union(*map(marks, node.decorator_list))


def test_the_page_says_how_many_tests_there_are() -> None:
    """And each is run by one target: none is slow without being of the deployment."""
    found: Counter[str] = Counter()
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for held in functions(path):
            assert held != {"slow"}, path.name
            found[TARGETS["both" if len(held) == 2 else "".join(held)]] += 1
    said = dict(re.findall(r"\| `(make test[\w-]*)` \| (\d+) \|", OPERATING))
    assert said == {target: str(number) for target, number in found.items()}


@pytest.mark.parametrize("page", ["operating.md", "it-department.md"])
def test_tests_that_the_pages_name_are_there(page: str) -> None:
    names = set(
        re.findall(r"`(?:tests/\w+/)*(\w+\.py)`", (ROOT / "docs" / page).read_text("utf-8"))
    )
    there = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert {name for name in names if name.startswith("test_")} <= there


def test_numbers_of_the_pages_are_those_of_the_code() -> None:
    assert (LOG_FILES, LOG_BYTES) == (5, 5_000_000)
    assert "five files of 5 MB" in OPERATING
    assert len(ALLOWED_CLASSES) == 6
    assert "six named classes" in IT
    for page in (OPERATING, HOSPITALS):
        assert set(re.findall(r"fedner-([\d.]+)-py3", page)) == {__version__}


def test_the_image_gets_all_that_the_package_is_built_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    copies = re.findall(r"^COPY (?!--from)(.*) (\S+)$", CONTAINER, re.MULTILINE)
    copied = " ".join(sources for sources, _ in copies).split()
    assert {"pyproject.toml", "src", project["readme"], *project["license-files"]} <= set(copied)
    assert all((ROOT / each).exists() for each in copied)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    assert {f"!{each}" for each in copied} == {each for each in ignored if each[0] == "!"}
    [extras] = re.findall(r'^ARG EXTRAS="([\w,]+)"$', CONTAINER, re.MULTILINE)
    assert {"flare", "privacy"} <= set(extras.split(",")) <= set(project["optional-dependencies"])
    [torch] = [each for each in project["dependencies"] if each.startswith("torch")]
    assert f'"{torch}"' in CONTAINER


@pytest.mark.parametrize("unit", ["fedner-server.service", "fedner-platform@.service"])
def test_units_keep_what_the_page_says(unit: str) -> None:
    text = (ROOT / "deploy" / "systemd" / unit).read_text(encoding="utf-8")
    for line in (
        "User=fedner", "Restart=on-failure", "RestartSec=5", "NoNewPrivileges=yes",
        "ProtectSystem=strict", "ReadWritePaths=/srv/fedner", "CapabilityBoundingSet=",
    ):  # fmt: skip
        assert f"\n{line}\n" in text, line
