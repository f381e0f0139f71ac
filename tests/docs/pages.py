"""The pages that people read, and the pieces of code that stand in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "results.md"),
    ROOT / "docs" / "results.md",
]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


class Block(NamedTuple):
    """A fenced piece of a page."""

    page: str
    language: str
    text: str

    @property
    def name(self) -> str:
        """What a test calls it."""
        return f"{self.page}: {self.text.strip().splitlines()[0][:60]}"


def blocks() -> Iterator[Block]:
    """Yield every fenced piece of every page."""
    for path in PAGES:
        for language, text in _BLOCK.findall(path.read_text(encoding="utf-8")):
            yield Block(path.relative_to(ROOT).as_posix(), language, text)


def prose(path: Path) -> str:
    """Return a page without its fenced pieces."""
    return _BLOCK.sub("", path.read_text(encoding="utf-8"))
