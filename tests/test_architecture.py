"""The plan of the house: imports one way, nobody asks which algorithm it is, functions short."""

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median, quantiles

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


MOST_MEDIAN, MOST_P90, MOST_LINES = 10, 25, 60


def lengths_in(text: str) -> dict[str, int]:
    """The lines of each function, signature included, decorators and docstring not."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            is_docstring = ast.get_docstring(node, clean=False) is not None
            told = (first.end_lineno or 0) - first.lineno + 1 if is_docstring else 0
            found[f"{node.name}:{node.lineno}"] = (node.end_lineno or 0) - node.lineno + 1 - told
    return found


def test_functions_are_short() -> None:
    lengths = {
        f"{path.relative_to(SOURCE)} {name}": length
        for path in SOURCE.rglob("*.py")
        for name, length in lengths_in(path.read_text()).items()
    }
    assert len(lengths) > 2500
    assert median(lengths.values()) <= MOST_MEDIAN
    assert quantiles(lengths.values(), n=10)[-1] <= MOST_P90
    longest = {name: length for name, length in lengths.items() if length > MOST_LINES}
    assert not longest, "split them: one job each"


def test_lines_of_functions_are_counted_without_docstrings() -> None:
    text = (
        "@cached\ndef f(\n    a: int,\n) -> int:\n"
        '    """Say.\n\n    More.\n    """\n    def g() -> int:\n        return 1\n\n    return a\n'
    )
    assert lengths_in(text) == {"f:2": 7, "g:9": 2}


def test_nothing_imports_the_public_face() -> None:
    """`import fedner` offers everything, so a room that imported it would reach every other."""
    edges = graph()
    face = {"fedner", *(name for name in edges if name.startswith("fedner.api"))}
    assert len(face) > 4
    assert {name for name in edges.keys() - face if edges[name] & face} == set()
    bare = re.compile(r"^\s*from fedner import ", re.M)  # a name of it may be a module, or not
    assert [name for name, path in modules().items() if bare.search(path.read_text())] == ["fedner"]
