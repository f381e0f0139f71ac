"""MkDocs calls these while it builds the site (`hooks` of mkdocs.yml).

Made with every build: the reference of the command line, a page of each file that a page links to,
and the notebooks as pages. Nothing of it is kept in the repository.
"""

import posixpath
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from scripts.docs_site import cli_reference, links, notebook_pages

from fedner.version import __version__

ROOT = Path(__file__).resolve().parents[2]
FOREIGN_WORKER = "https://unpkg.com/iframe-worker/shim"
OWN_WORKER = "search-from-a-folder.js"
CLI = "reference/cli/index.md"


def on_config(config: Any) -> Any:
    """Put a line for every command into the navigation."""
    held = [path for path in cli_reference.pages(__version__) if path != CLI]
    pages = [{"All commands": CLI}]
    pages += [{posixpath.basename(path).removesuffix(".md"): path} for path in held]
    for section in config.nav:
        for inner in next(iter(section.values())):
            if isinstance(inner, dict) and CLI in inner.values():
                inner[next(iter(inner))] = pages
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for path, text in cli_reference.pages(__version__).items():
        files.append(File.generated(config, path, content=text))
    for notebook in [each for each in files if each.src_uri.endswith(".ipynb")]:
        _add_notebook(notebook, files, config)
    _add_sources(files, config)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links of pages that lie in `docs/` lead to where the site shows their targets."""
    if page.file.generated_by:
        return markdown
    return links.rewritten(markdown, f"{links.DOCS}/{page.file.src_uri}")


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Let search from a folder use a script of our own: the theme would load one from a host."""
    here = posixpath.dirname(page.file.dest_uri)
    return output.replace(FOREIGN_WORKER, posixpath.relpath(OWN_WORKER, here or "."))


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """Do the same for the page of links that lead nowhere (404.html)."""
    del template_name
    return output_content.replace(FOREIGN_WORKER, OWN_WORKER)


def _add_notebook(notebook: File, files: Files, config: Any) -> None:
    path = notebook.src_uri
    name = posixpath.basename(path).removesuffix(".ipynb")
    text, pictures = notebook_pages.notebook_page(notebook.content_string, name)
    text = links.rewritten(text, f"{links.DOCS}/{path}")
    files.append(File.generated(config, links.place_of(f"{links.DOCS}/{path}"), content=text))
    for file, content in pictures.items():
        place = posixpath.join(posixpath.dirname(path), file)
        files.append(File.generated(config, place, content=content))


def _add_sources(files: Files, config: Any) -> None:
    """Add a page for each file outside `docs/` that a page links to, and for those it links to."""
    todo = [
        (f"{links.DOCS}/{each.src_uri}", each.content_string)
        for each in files
        if each.src_uri.endswith((".md", ".ipynb")) and not each.generated_by
    ]
    seen: set[str] = set()
    while todo:
        page, text = todo.pop()
        for link in links.links_of(text):
            target = links.target_of(link, page)
            place = links.place_of(target)
            if not place.startswith(f"{links.SOURCES}/") or target in seen:
                continue
            seen.add(target)
            if (ROOT / target).is_file():
                inner = (ROOT / target).read_text(encoding="utf-8")
                made = links.source_page(target, inner)
                files.append(File.generated(config, place, content=made))
                todo += [(target, inner)] if target.endswith(".md") else []
