"""What `import fedner` offers: the very names, lazily, each with an example that runs."""

import ast
import doctest
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import fedner
from fedner.corpus.readers import READERS
from fedner.models.layers import LAYERS
from fedner.settings import federation_of
from fedner.settings.sections import EmbeddingSettings

NAMES = [
    "Algorithm", "Contribution", "Corpus", "Document", "Engine", "EngineSettings", "Entity",
    "FednerError", "InProcess", "LayerForms", "Mechanism", "Mention", "PlatformSettings", "Reader",
    "Scores", "Sentence", "Server", "Simulation", "Site", "SiteAnswer", "Span", "Study",
    "Summation", "Tagger", "Workers", "__version__", "coordinate", "fedadam", "fedavg", "fedner",
    "fedprox", "join", "open_site", "prepare", "privacy", "read", "redact", "register_layer",
    "register_reader", "scaffold", "score", "simulate", "split", "study_for", "synthetic_corpus",
]  # fmt: skip
SMALL = {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6}
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


CANARY = "Qzxcanary"


def canary_corpus() -> fedner.Corpus:
    """A corpus with canaries in texts, names, types, sources and patients."""
    documents = tuple(
        fedner.Document(
            f"{CANARY}-{number}",
            f"{CANARY} took aspirin {number}.",
            (fedner.Span.of(0, len(CANARY), CANARY), fedner.Span(((0, 3), (5, 7)), f"{CANARY}-2")),
            patient=f"{CANARY}-{number}",
            source=f"/{CANARY}/{number}.txt",
        )
        for number in range(10)
    )
    return fedner.Corpus(CANARY, (CANARY, f"{CANARY}-2"), documents)


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Objects of every public type that holds anything of a platform's own."""
    folder = tmp_path_factory.mktemp(CANARY)
    corpus = canary_corpus()
    corpora = {"clinic": corpus, "forum": corpus}
    study = fedner.study_for(corpora, training={"rounds": 1}, model=SMALL, declare_types=False)
    done = fedner.simulate(study, corpora, folder / CANARY)
    mention = fedner.Mention(0, len(CANARY), CANARY, CANARY, 0.5)
    own = fedner.PlatformSettings(
        name="clinic", data=f"/{CANARY}", ledger=f"/{CANARY}", label_map={CANARY: CANARY},
        split={"test_data": CANARY}, embeddings={"words": CANARY}, patients={"pattern": CANARY},
    )  # fmt: skip
    prepared = fedner.prepare(corpus)
    site = fedner.open_site(
        study, fedner.PlatformSettings(name="clinic", data=CANARY), folder / "site", corpus=corpus
    )
    answer = fedner.SiteAnswer(site)
    return {
        "Corpus": corpus,
        "Document": corpus.documents[0],
        "Span": corpus.documents[0].spans,
        "Prepared": prepared,
        "Sentence": prepared.sentences[0],
        "Entity": prepared.sentences[0].entities,
        "Mention": mention,
        "Redacted": fedner.redact(f"{CANARY} again {CANARY}", [mention]),
        "Replacement": fedner.redact(CANARY, [mention]).replacements,
        "Scores": fedner.score(corpus, corpus),
        "PlatformSettings": own,
        "their sections": [
            own.split,
            own.embeddings,
            own.patients,
            EmbeddingSettings(words=CANARY),
        ],
        "federation file": federation_of(study, [own, own.model_copy(update={"name": "forum"})]),
        "Study": study,
        "Simulation": done,
        "Tagger": done.taggers["clinic"],
        "Predicted": next(done.taggers["clinic"].predict_documents(corpus)),
        "Predictor": done.taggers["clinic"].predictor,
        "Site": site,
        "its data": site.data,
        "SiteAnswer": answer,
        "InProcess": fedner.InProcess(lambda _: answer, ["clinic"]),
    }


HOLDERS = [
    "Corpus", "Document", "Span", "Prepared", "Sentence", "Entity", "Mention", "Redacted",
    "Replacement", "Scores", "PlatformSettings", "their sections", "federation file", "Study",
    "Simulation", "Tagger", "Predicted", "Predictor", "Site", "its data", "SiteAnswer", "InProcess",
]  # fmt: skip
# Types that hold nothing of a platform's own: functions, settings that all know, weights. Errors
# name file, line and value on purpose: whoever prints them wants to know.
OTHERS = {
    "Algorithm", "Contribution", "Engine", "EngineSettings", "FednerError", "LayerForms",
    "Mechanism", "Reader", "Server", "Summation", "Workers",
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("shown", [repr, str, "{}".format])
def test_what_is_printed_of_it_has_no_text_type_name_or_path(
    name: str, shown: Callable[[object], str], canaries: Mapping[str, object]
) -> None:
    assert CANARY not in shown(canaries[name])


def test_every_public_type_is_looked_at() -> None:
    types = {name for name in NAMES if isinstance(getattr(fedner, name), type)}
    assert types == OTHERS | (types & set(HOLDERS))
    assert not OTHERS & set(HOLDERS)
