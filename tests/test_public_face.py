"""What `import fedner` offers: the very names, lazily, each with an example that runs."""

import ast
import doctest
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import fedner
from fedner.corpus.readers import READERS
from fedner.models.layers import LAYERS

NAMES = [
    "Algorithm", "Contribution", "Corpus", "Document", "Engine", "EngineSettings", "Entity",
    "FednerError", "InProcess", "LayerForms", "Mechanism", "Mention", "PlatformSettings", "Reader",
    "Scores", "Sentence", "Server", "Simulation", "Site", "SiteAnswer", "Span", "Study",
    "Summation", "Tagger", "Workers", "__version__", "coordinate", "fedadam", "fedavg", "fedner",
    "fedprox", "open_site", "prepare", "privacy", "read", "redact", "register_layer",
    "register_reader", "scaffold", "score", "simulate", "split", "study_for", "synthetic_corpus",
]  # fmt: skip
DOCUMENTED = [name for name in NAMES if name != "__version__"]


def test_the_face_has_these_names_and_no_others() -> None:
    assert fedner.__all__ == NAMES
    assert set(NAMES) <= set(dir(fedner))
    for name in NAMES:
        assert getattr(fedner, name) is not None


def test_importing_it_is_quick_until_a_name_is_used() -> None:
    code = (
        "import sys, fedner\n"
        "assert not {'torch', 'numpy', 'pydantic'} & set(sys.modules), 'imported too much'\n"
        "fedner.read, fedner.Corpus, fedner.prepare, fedner.split, fedner.score, fedner.privacy\n"
        "assert 'torch' not in sys.modules, 'reading, splitting and scoring need no torch'\n"
        "assert fedner.Corpus is sys.modules['fedner.corpus.document'].Corpus\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(AttributeError, match="'fedner' has no attribute 'Taggr'"):
        fedner.Taggr  # noqa: B018 - the error is what is tested
    with pytest.raises(AttributeError, match="no attribute 'spend'"):
        fedner.privacy.spend  # noqa: B018


def test_type_checkers_see_the_names_where_they_are() -> None:
    tree = ast.parse(Path(fedner.__file__).read_text())
    (block,) = (each for each in tree.body if isinstance(each, ast.If))
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == sorted(DOCUMENTED)
    for name, (module, inner) in seen.items():
        if name != "privacy":
            assert getattr(import_module(module), inner) is getattr(fedner, name), name


@pytest.fixture
def same_tables() -> Iterator[None]:
    """What an example registers is gone after it."""
    readers, layers = dict(READERS), dict(LAYERS)
    yield
    for table, before in ((READERS, readers), (LAYERS, layers)):
        table.clear()
        table.update(before)


@pytest.mark.parametrize("name", [*DOCUMENTED, "plan", "fedner itself"])
@pytest.mark.usefixtures("same_tables")
def test_every_name_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in ("privacy", "plan"):
        pytest.importorskip("dp_accounting", reason="accounting needs fedner[privacy]")
    named = {"plan": fedner.privacy.plan, "fedner itself": fedner}
    thing = named.get(name) or getattr(fedner, name)
    assert inspect.getdoc(thing)
    finder = doctest.DocTestFinder(recurse=False)
    found = finder.find(thing, name, module=False if isinstance(thing, ModuleType) else None)
    examples = [each for each in found if each.examples]
    assert examples, f"{name} has no example"
    monkeypatch.chdir(tmp_path)
    for each in examples:
        outcome = doctest.DocTestRunner().run(each)
        assert outcome.failed == 0
        assert outcome.attempted > 0
