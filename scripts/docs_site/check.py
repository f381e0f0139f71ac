"""Look through the built site: nothing is loaded from another host, and every link has its target.

MkDocs checks the links of pages; this checks those of the HTML that came of them, anchors included.
"""

import posixpath
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
HARMLESS = {"canonical", "next", "prev"}  # links in the head that nobody loads


class Page(HTMLParser):
    """What a page loads, where it links to, and the anchors that it has.

    Attributes:
        loads: The addresses that a browser fetches to show the page.
        links: Those that a reader may follow.
        anchors: What others may link to within it.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: set[str] = set()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one element says."""
        held = {name: value or "" for name, value in attrs}
        self.anchors |= {held[name] for name in ("id", "name") if name in held}
        if tag == "a" and "href" in held:
            self.links.add(held["href"])
        if tag in LOADS and LOADS[tag] in held and held.get("rel", "") not in HARMLESS:
            self.loads.add(held[LOADS[tag]])


def problems(site: Path) -> list[str]:
    """Return what is wrong with a site, a line each."""
    paths = sorted(site.rglob("*.html"))
    pages = {path.relative_to(site).as_posix(): Page(path.read_text("utf-8")) for path in paths}
    found = []
    for name, page in pages.items():
        found += [f"{name} loads {each}" for each in sorted(page.loads) if _is_foreign(each)]
        local = sorted(each for each in page.links | page.loads if not _has_scheme(each))
        found += [
            f"{name} links to {each}" for each in local if not _leads(site, pages, name, each)
        ]
    return found


def _leads(site: Path, pages: dict[str, Page], name: str, link: str) -> bool:
    """Whether a page's link has its target, and the target its anchor."""
    path, _, anchor = unquote(link).partition("#")
    if name == "404.html":  # its links begin at the root of the host
        path = path.removeprefix("/")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
    if (site / target).is_dir():
        target = posixpath.join(target, "index.html")
    if not (site / target).is_file():
        return False
    return not anchor or target not in pages or anchor in pages[target].anchors


def _is_foreign(link: str) -> bool:
    return _has_scheme(link) and not link.startswith("data:")


def _has_scheme(link: str) -> bool:
    return link.startswith(("//", "http:", "https:", "data:", "mailto:", "javascript:"))


def main() -> int:
    """Print what is wrong with the site whose folder is named."""
    site = Path(sys.argv[1])
    found = problems(site)
    pages = sum(1 for _ in site.rglob("*.html"))
    print("\n".join([*found, f"{site}: {pages} pages, {len(found)} problems"]))
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
