"""The few pieces of Markdown that a model card is made of, safe with any text in them.

CommonMark 0.31 with the tables of GitHub Flavored Markdown, which the usual viewers draw.
"""

import re
from collections.abc import Iterable, Sequence

# Whatever could begin emphasis, code, a link, HTML, an entity, a table cell, a closing
# sequence of a heading or strike-through. What matters only at the beginning of a line ("-", "1.")
# is left alone: texts of others never stand there.
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~&])")
_INVISIBLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_ADDRESS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?=@)", re.IGNORECASE)


def escaped(text: str) -> str:
    r"""Return a text of others as Markdown that shows exactly it, on one line.

    >>> print(escaped("a|b *c*"))
    a\|b \*c\*
    """
    line = _INVISIBLE.sub(" ", text).strip()
    return _ADDRESS.sub(r"\\", _MARKUP.sub(r"\\\1", line))


def code(text: str) -> str:
    """Return a text as inline code, whatever backticks and bars it holds."""
    line = _INVISIBLE.sub(" ", text).strip()
    ticks = _fence(line, 1)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    # Within a table a bar ends the cell, also in code, unless it is escaped.
    return f"{ticks}{padding}{line}{padding}{ticks}".replace("|", "\\|")


def code_block(text: str, language: str = "") -> str:
    """Return a text as a fenced block that nothing within it can end."""
    fence = _fence(text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are Markdown already."""
    lines = [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def bullets(items: Iterable[str]) -> str:
    """Return a list; the items are Markdown already."""
    return "\n".join(f"- {item}" for item in items)


def section(heading: str, *blocks: str) -> str:
    """Return a section; blocks that are empty are left out."""
    return "\n\n".join([f"## {heading}", *(block for block in blocks if block)])


def document(title: str, *sections: str) -> str:
    """Return a whole card; sections that are empty are left out."""
    return "\n\n".join([f"# {title}", *(part for part in sections if part)]) + "\n"


def _fence(text: str, least: int) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(least, longest + 1)
