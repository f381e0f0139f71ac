"""The site of the documentation: its pages are made from code, its links lead somewhere."""

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pytest
from pages import PAGES, ROOT, prose
from scripts.docs_site import cli_reference, links, notebook_pages
from scripts.docs_site.check import problems
from typer.main import get_command

import fedner
from fedner.cli.app import app

REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))


# ------------------------------------------------------------------ links, as GitHub follows them


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.*?)\s*$", prose(page), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        times = found.count(slug)
        found.append(slug if not times else f"{slug}-{times}")
    return set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_anchors_lead_somewhere_on_github(page: Path) -> None:
    text = prose(page)
    named = re.findall(r"^\[[^\]]+\]: +(\S+)", text, re.M)
    wrong = []
    for link in [*re.findall(r"\]\(([^)\s]+)\)", text), *named]:
        if re.match("[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


def test_a_link_within_code_is_none_and_headings_are_told_apart(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One: `two` (3)\n```\n# no heading [x](y)\n```\n## Same\n## Same\n")
    assert anchors(page) == {"one-two-3", "same", "same-1"}


# ------------------------------------------------------------------ links, as the site needs them


@pytest.mark.parametrize(
    ("page", "link", "moved"),
    [
        ("docs/predict.md", "privacy.md#the-ledger", "privacy.md#the-ledger"),
        ("docs/predict.md", "../CONTRIBUTING.md", "source/CONTRIBUTING.md"),
        ("docs/privacy.md", "../tests/runs/test_x.py", "source/tests/runs/test_x.py.md"),
        ("docs/python.md", "snippets/join.py", "source/docs/snippets/join.py.md"),
        ("docs/results/README.md", "../results.md#a", "../results.md#a"),
        ("docs/index.md", "notebooks/a.ipynb", "notebooks/a.md"),
        ("docs/a.md", "https://example.org/b", "https://example.org/b"),
        ("docs/a.md", "images/b.svg", "images/b.svg"),
        ("CHANGELOG.md", "docs/privacy.md#c", "../privacy.md#c"),
    ],
)
def test_links_lead_to_where_the_site_shows_their_targets(page: str, link: str, moved: str) -> None:
    assert links.rewritten(f"a [b]({link}) c", page) == f"a [b]({moved}) c"
    assert links.rewritten(f'[b]: {link} "d"', page) == f'[b]: {moved} "d"'
    code = f"```\n[b]({link})\n```\n"
    assert links.rewritten(code, page) == code


def test_a_file_of_the_repository_is_shown_as_it_stands() -> None:
    shown = links.source_page("tests/a.py", 'x = "```"\n')
    assert shown == links.UNSEARCHED + '# tests/a.py\n\n````python\nx = "```"\n````\n'
    assert links.links_of("[a](b.md#c)\n```\n[d](e)\n```\n[f](#g) [h](https://i)") == ["b.md"]


# ------------------------------------------------------------------ references


def test_every_public_name_stands_in_the_reference_once() -> None:
    found = [
        name for page in REFERENCE for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)
    ]
    assert len(found) == len(set(found))
    public = {f"fedner.{name}" for name in fedner.__all__} - {"fedner.__version__"}
    public = (public - {"fedner.privacy"}) | {"fedner.privacy.plan"}
    assert public <= set(found)
    for page in REFERENCE:
        behind = page.read_text().partition("## Behind the face")[2]
        for name in re.findall(r"^::: (\S+)$", behind, re.M):
            assert name not in public


def parameters(command: Any) -> list[Any]:
    return [each for each in command.params if not each.hidden]


def test_the_reference_has_every_command_and_every_option() -> None:
    pages = cli_reference.pages("1.2.3")
    listed = list(cli_reference.commands())
    assert len(listed) > 50
    for name, command in listed[1:]:
        page = pages[cli_reference.page_of(name.split()[1])]
        assert re.search(rf"^#+ {name}$", page, re.M), name
        section = re.split(rf"^#+ {name}$", page, flags=re.M)[1].split("\n## ")[0]
        for each in [] if hasattr(command, "commands") else parameters(command):
            shown = each.opts[0] if each.opts[0].startswith("-") else ""
            assert f"`{shown}" in section, f"{name} {each.opts}"
            help_words = (each.help or "").split("\n")[0].replace("|", "\\|").split("[")[0][:40]
            assert help_words.replace("<", "&lt;") in section
    first = pages["reference/cli/index.md"]
    assert "fedner 1.2.3" in first
    for name in get_command(app).commands:
        assert f"[`fedner {name}`]({name}.md)" in first


def test_options_say_what_they_take_and_what_they_are_by_default() -> None:
    predict = cli_reference.pages("1")["reference/cli/predict.md"]
    assert "| `RUN` | A run folder," in predict
    assert "| `--device` `cpu\\|cuda` | Where to run. | `cpu` |" in predict
    assert "| `--lenient` | " in predict
    assert "fedner predict [OPTIONS] RUN INPUT..." in predict


# ------------------------------------------------------------------ notebooks


def test_a_notebook_becomes_a_page() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "f"}},
                {"output_type": "execute_result", "data": {"text/plain": ["2"]}},
            ],
        },
        {"cell_type": "code", "source": " ", "outputs": []},
    ]
    page, pictures = notebook_pages.notebook_page(json.dumps({"cells": cells}), "a")
    assert page == (
        "# Title\ntext\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n"
        "![What the cell draws](a-1.png)\n\n```text\n2\n```\n"
    )
    assert pictures == {"a-1.png": bytes(3)}


# ------------------------------------------------------------------ the built site


def built(folder: Path, **pages: str) -> list[str]:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return problems(folder)


def test_a_site_that_loads_from_elsewhere_or_links_to_nothing_is_refused(tmp_path: Path) -> None:
    good = '<h1 id="top">a</h1><a href="b.html#x">b</a><a href="https://x.org">c</a>'
    other = '<p id="x"></p><img src="data:image/png;base64,AA"><a href="#x">x</a><a href=".">.</a>'
    assert built(tmp_path, index=good, b=other) == []
    assert built(tmp_path, index=good + '<script src="https://cdn.org/x.js"></script>') == [
        "index.html loads https://cdn.org/x.js"
    ]
    assert built(tmp_path, index=good + '<img src="//cdn.org/x">') == [
        "index.html loads //cdn.org/x"
    ]
    assert built(tmp_path, index='<a href="b.html#y">b</a><a href="c.html">c</a>') == [
        "index.html links to b.html#y",
        "index.html links to c.html",
    ]


def test_every_page_stands_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/-]+\.md", text.partition("\nnav:")[2]))
    held = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    held |= {links.place_of(f"docs/{each.relative_to(ROOT / 'docs').as_posix()}")
             for each in (ROOT / "docs").rglob("*.ipynb")}  # fmt: skip
    assert held - named == set(), "a line in the nav of mkdocs.yml"


def test_examples_in_docstrings_stand_in_fences() -> None:
    pytest.importorskip("griffe", reason="needs the extra docs: make docs")
    from scripts.docs_site.doctests import fenced

    text = "Do it.\n\n>>> a = 1\n>>> a\n1\n\nMore.\n\n    Example:\n    >>> b\n    2\n"
    assert fenced(text) == (
        "Do it.\n\n```pycon\n>>> a = 1\n>>> a\n1\n```\n\nMore.\n\n"
        "    Example:\n    ```pycon\n    >>> b\n    2\n    ```\n"
    )
