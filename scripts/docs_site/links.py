"""Links of the repository's pages, as the site needs them.

Pages link to one another as GitHub does, also out of `docs/`: to tests, examples and CONTRIBUTING.
The site has a page of its own for each such file, so that no link leaves it.
"""

import posixpath
import re

DOCS = "docs"
SOURCES = "source"  # the folder of the site that shows files of the repository
SHOWN = (".py", ".toml", ".json", ".md", ".service", "Containerfile")
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".service": "ini"}
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"  # code would crowd out the pages
_INLINE = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_NAMED = re.compile(r"(^\[[^\]]+\]: +)([^\s#]+)((?:#\S*)?)", re.M)
_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)


def links_of(markdown: str) -> list[str]:
    """Return what a page links to within the repository, without anchors."""
    text = _FENCE.sub("", markdown)
    found = [match[2] for pattern in (_INLINE, _NAMED) for match in pattern.finditer(text)]
    return [each for each in found if is_local(each)]


def is_local(link: str) -> bool:
    """Whether a link stays in the repository."""
    return not re.match(r"[a-z]+:", link)


def target_of(link: str, page: str) -> str:
    """Return the file of the repository that a page's link means.

    Args:
        link: As it stands in the page.
        page: The page, as a path of the repository.
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def place_of(target: str) -> str:
    """Return where the site shows a file of the repository."""
    if target.startswith(f"{DOCS}/notebooks/") and target.endswith(".ipynb"):
        return target.removeprefix(f"{DOCS}/").removesuffix(".ipynb") + ".md"
    if target.startswith(f"{DOCS}/") and not target.startswith(f"{DOCS}/snippets/"):
        return target.removeprefix(f"{DOCS}/")
    return f"{SOURCES}/{target}" if target.endswith(".md") else f"{SOURCES}/{target}.md"


def rewritten(markdown: str, page: str) -> str:
    """Return a page whose links lead to where the site shows their targets.

    Args:
        markdown: The page.
        page: Its path in the repository.
    """
    here = posixpath.dirname(place_of(page))

    def moved(match: re.Match[str]) -> str:
        if not is_local(match[2]):
            return match[0]
        return match[1] + posixpath.relpath(place_of(target_of(match[2], page)), here) + match[3]

    parts, end = [], 0
    for fence in [*_FENCE.finditer(markdown), None]:
        between = markdown[end : fence.start() if fence else None]
        parts.append(_NAMED.sub(moved, _INLINE.sub(moved, between)))
        if fence:
            parts.append(fence[0])
            end = fence.end()
    return "".join(parts)


def source_page(target: str, text: str) -> str:
    """Return the site's page of a file of the repository."""
    if target.endswith(".md"):
        return rewritten(text, target)
    language = LANGUAGES.get(posixpath.splitext(target)[1], "text")
    return f"{UNSEARCHED}# {target}\n\n````{language}\n{text.rstrip()}\n````\n"
