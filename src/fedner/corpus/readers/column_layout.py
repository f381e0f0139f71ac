"""How token columns are laid out: the separator, how many columns, and which ones matter."""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from fedner.corpus.files import head, lines
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers.reader import ReadOptions
from fedner.corpus.schemes import split_tag
from fedner.errors import FednerError

MARKER = "-DOCSTART-"

_LAYOUT_LINES = 2_000
_BLANKS = re.compile(r"[ \t]+")


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a file are made.

    Attributes:
        separator: A tab, or a blank that stands for any run of blanks and tabs.
        num_columns: How many columns most lines have.
        token: The column of the token.
        tag: The column of the tag.
        agreement: The share of lines with that many columns.
        tagged: The share of those lines whose tag is "O" or a prefix and a label.
    """

    separator: str
    num_columns: int
    token: int
    tag: int
    agreement: float
    tagged: float


def layout_of_head(path: Path, options: ReadOptions) -> Layout | None:
    """Return the layout if the beginning of a file looks like token columns."""
    text = head(path)
    if not text:
        return None
    rows = text.split("\n")
    if len(rows) > 1:
        rows.pop()  # cut short, or empty
    try:
        layout = _layout(rows, options)
    except FednerError:
        return None
    if layout is None or min(layout.agreement, layout.tagged) <= 0.5:
        return None
    return layout


def layout_of_file(path: Path, options: ReadOptions) -> Layout | None:
    """Return the layout that most lines at the beginning of a file have."""
    return _layout([text for _, text in islice(lines(path, ProblemLog()), _LAYOUT_LINES)], options)


def _layout(rows: list[str], options: ReadOptions) -> Layout | None:
    """Return the layout that fits most rows; None if they have no columns."""
    rows = [row for row in rows if row.strip(" \t") and not is_marker(row)]
    wanted = {"auto": ("\t", " "), "tab": ("\t",), "blank": (" ",)}[options.separator]
    candidates = [
        layout
        for separator in wanted
        if (layout := _layout_with(separator, rows, options)) is not None
    ]
    # The earlier one, a tab, wins a tie: tokens may contain blanks there.
    return max(candidates, key=lambda layout: layout.agreement, default=None)


def _layout_with(separator: str, rows: list[str], options: ReadOptions) -> Layout | None:
    split = [columns_of(row, separator) for row in rows]
    counts = Counter(map(len, split))
    if not counts:
        return None
    num_columns, agreeing = counts.most_common(1)[0]
    if num_columns < 2:
        return None
    token = _column("token", options.token_column, num_columns)
    tag = _column("tag", options.tag_column, num_columns)
    tags = [columns[tag] for columns in split if len(columns) == num_columns]
    tagged = sum(bool(split_tag(text)[0]) for text in tags) / len(tags)
    return Layout(separator, num_columns, token, tag, agreeing / len(rows), tagged)


def _column(what: str, wanted: int, num_columns: int) -> int:
    if not -num_columns <= wanted < num_columns:
        raise FednerError(
            f"{what} column {wanted}: the lines have {num_columns} columns",
            f"Choose 0 to {num_columns - 1}, or -1 for the last one.",
        )
    return wanted % num_columns


def columns_of(row: str, separator: str) -> list[str]:
    """Return the columns of one line."""
    return row.split("\t") if separator == "\t" else _BLANKS.split(row.strip(" \t"))


def is_marker(row: str) -> bool:
    """Whether a line marks the beginning of a document."""
    return row.startswith(MARKER) and row[len(MARKER) : len(MARKER) + 1] in ("", " ", "\t")
