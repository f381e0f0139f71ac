"""The plan of the house: no module waits for itself, nobody asks which algorithm it is."""

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "fedner"


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = ("fedner", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    """Every import, those within functions and under TYPE_CHECKING included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in inner)


def graph() -> dict[str, set[str]]:
    known = modules()
    return {
        name: {each for each in imported(ast.parse(path.read_text()), known) if each in known}
        for name, path in known.items()
    }


def cycle_of(edges: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert len(graph()) > 200
    assert cycle_of(graph()) == []


def test_the_check_sees_a_cycle_wherever_the_import_stands() -> None:
    known = {"fedner.a": SOURCE, "fedner.b": SOURCE}
    hidden = (
        "def f():\n    from fedner.b import x\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fedner import b\n",
        "import fedner.b\n",
    )
    for text in hidden:
        edges = {"fedner.a": set(imported(ast.parse(text), known)) & set(known)}
        assert cycle_of({**edges, "fedner.b": {"fedner.a"}}), text
        assert not cycle_of({**edges, "fedner.b": set()})


def test_nobody_asks_which_algorithm_it_is() -> None:
    """What depends on an algorithm is stated by its record; types and names are its room's own."""
    room = SOURCE / "federated" / "algorithms"
    types = r"(Fedner|FedAvg|FedProx|FedAdam|Scaffold)Settings|LocalTraining"
    compared = r"[!=]= *[\"'](fedner|fedavg|fedprox|fedadam|scaffold)[\"']"
    asked = re.compile(rf"{types}|{compared}")
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in SOURCE.rglob("*.py")
        if room not in path.parents
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if asked.search(line)
    ]
    assert found == []


def test_nothing_imports_the_public_face() -> None:
    """`import fedner` offers everything, so a room that imported it would reach every other."""
    edges = graph()
    face = {"fedner", *(name for name in edges if name.startswith("fedner.api"))}
    assert len(face) > 4
    assert {name for name in edges.keys() - face if edges[name] & face} == set()
    bare = re.compile(r"^\s*from fedner import ", re.M)  # a name of it may be a module, or not
    assert [name for name, path in modules().items() if bare.search(path.read_text())] == ["fedner"]
