"""Who extends fedner needs nothing that is its own business: the tests beside this one show it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.glob("*.py"))
KINDS = {"algorithm", "engine", "layer", "mechanism", "reader", "summation"}


def inner_names(source: str) -> Iterator[str]:
    """Yield what a file takes that begins with an underscore, and where it patches things."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            path = [] if isinstance(node, ast.Import) else (node.module or "").split(".")
            names = [part for each in node.names for part in each.name.split(".")]
            yield from (name for name in (*path, *names) if name.startswith("_"))
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                is_dunder = node.attr.startswith("__")
                yield from () if is_dunder else (node.attr,)
        elif isinstance(node, ast.arg | ast.Name):
            name = node.arg if isinstance(node, ast.arg) else node.id
            yield from (name,) if name in ("monkeypatch", "mock") else ()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_inner_is_used_or_patched(path: Path) -> None:
    assert not list(inner_names(path.read_text()))


def test_every_thing_that_can_be_added_has_a_test() -> None:
    assert {path.stem.removeprefix("test_add_") for path in FILES} >= KINDS


def test_the_search_finds_what_it_looks_for() -> None:
    wrong = "from a._b import c\nimport _d\nx._e\nself._f\nx.__g__\ndef h(monkeypatch): ..."
    assert sorted(inner_names(wrong)) == ["_b", "_d", "_e", "monkeypatch"]
