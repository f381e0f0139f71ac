"""Every piece of Python in README and docs is run by a test, and the table below says by which."""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pytest
from pages import ROOT, Block, blocks

import fedner

SNIPPETS = {path.name: path.read_text() for path in (ROOT / "docs" / "snippets").glob("*.py")}
# Pieces of Python that are no file of docs/snippets, by page, and the test that runs them.
RUN_BY = {
    "README.md": "tests/api/test_simulation.py",
    "docs/corpora.md": "tests/test_repository.py",
    "docs/policy.md": "tests/runs/test_policy_docs.py",
    "docs/start.md": "tests/docs/test_docs_snippets.py",
    "docs/transformers.md": "tests/docs/test_docs_snippets.py",
}
# Files of docs/snippets that a page's own commands call, and the test that runs those commands.
WALKED = {"synthetic_notes.py": ("docs/deidentification.md", "tests/cli/test_cli_walk.py")}
PYTHON = [each for each in blocks() if each.language == "python"]


def file_of(block: Block) -> str | None:
    """Return the file of docs/snippets that a piece is: whole, or without its docstring."""
    for name, code in SNIPPETS.items():
        if block.text in (code, code.split('"""\n\n', 1)[1]):
            return name
    return None


def test_every_piece_of_python_is_a_file_that_a_test_runs_or_has_a_test_of_its_own() -> None:
    others = [each.page for each in PYTHON if file_of(each) is None]
    assert sorted(others) == sorted(RUN_BY), "one piece a page beside those of docs/snippets"
    for page, test in RUN_BY.items():
        code = (ROOT / test).read_text(encoding="utf-8")
        assert page.rpartition("/")[2] in code, f"{test} does not name {page}"


def test_every_file_of_snippets_is_run_by_a_test() -> None:
    tests = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")
    )
    assert len(SNIPPETS) > 8
    for name, (page, test) in WALKED.items():
        assert f"python docs/snippets/{name} " in (ROOT / page).read_text(encoding="utf-8")
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")
    for name in SNIPPETS.keys() - WALKED.keys():
        stem = name.removesuffix(".py")
        assert re.search(rf"[\"']{stem}(\.py)?[\"']", tests), f"no test names {name}"


def piece(page: str) -> str:
    (found,) = (each.text for each in PYTHON if each.page == page)
    return found


def test_the_lines_of_the_start_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    quick = piece("docs/start.md").replace('"epochs": 15', '"rounds": 1, "baseline_epochs": 1')
    quick = quick.replace("200", "40")
    assert quick.count("40, ") == 1
    exec(compile(quick, "docs/start.md", "exec"), {})  # noqa: S102 - our own page
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0] for line in shown[:2]] == ["case-reports", "forum-posts"]
    assert shown[0].count("'local-only'") == shown[0].count("'federated'") == 1
    assert shown[2].startswith("(")


def test_the_lines_on_transformers_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="needs the extra transformers")
    from tiny_bert import save_tiny_bert

    save_tiny_bert(tmp_path / "data" / "minilm")
    monkeypatch.chdir(tmp_path)
    corpus = fedner.synthetic_corpus("case-reports", 5, seed=1)
    labels = ["ADE", "Drug"]
    scope: dict[str, Any] = {"sentences": fedner.prepare(corpus, labels=labels).sentences}
    exec(compile(piece("docs/transformers.md"), "docs/transformers.md", "exec"), scope)  # noqa: S102
    assert len(scope["corpus"]) == len(scope["sentences"]) > 4
    assert hasattr(scope["tagger"].embeddings.encoder.merged(), "state_dict"), "as the page says"
