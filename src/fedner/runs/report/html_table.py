"""A table of the report: cells are HTML, headings are text; wide ones scroll by themselves."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are HTML, headings are text."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )
