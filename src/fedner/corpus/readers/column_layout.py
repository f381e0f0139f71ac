"""How token columns are laid out: the separator, how many columns, and which ones matter."""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from fedner.corpus.files import blocks, head, lines
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers.options import option
from fedner.corpus.schemes import canonical, split_tag
from fedner.errors import FednerError

MARKER = "-DOCSTART-"

_LAYOUT_LINES = 2_000
_BLANKS = re.compile(r"[ \t]+")
_ID, _PATIENT = "id=", "patient="
_IN_BRACKETS = re.compile(rf"{MARKER}[ \t]+\((.*\S.*)\)[ \t]*")
# Characters that stand for themselves in a marker; white space and all others are percent-encoded.
_LEGIBLE = "/#:;,!?*'()[]{}@&=+$|<>"


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """The options of token columns.

    Attributes:
        token_column: The column of the token, from 0; negative from the right.
        tag_column: The column of the tag, likewise.
        separator: What separates columns: a tab, runs of blanks, or whichever the file shows.
        scheme: The tag scheme; None to detect it.
        patient_column: The column that says whose a line is; a number, likewise.
    """

    token_column: int = option(0, "the column of the token, from 0; negative from the right")
    tag_column: int = option(-1, "the column of the tag, from 0; negative from the right")
    separator: Literal["auto", "tab", "blank"] = option("auto", "what separates the columns")
    scheme: str | None = option(
        None, "the tag scheme, such as BIO; detected by default", canonical, is_detected=True
    )
    patient_column: str | None = option(
        None, "the number of the column that holds the patient, from 0; negative from the right"
    )


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


def layout_of_head(path: Path, options: ColumnOptions) -> Layout | None:
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


def layout_of_file(path: Path, options: ColumnOptions, encoding: str | None) -> Layout | None:
    """Return the layout that most lines at the beginning of a file have."""
    log = ProblemLog(limit=0, encoding=encoding)
    return _layout([text for _, text in islice(lines(path, log), _LAYOUT_LINES)], options)


def _layout(rows: list[str], options: ColumnOptions) -> Layout | None:
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


def _layout_with(separator: str, rows: list[str], options: ColumnOptions) -> Layout | None:
    split = [columns_of(row, separator) for row in rows]
    counts = Counter(map(len, split))
    if not counts:
        return None
    num_columns, agreeing = counts.most_common(1)[0]
    if num_columns < 2:
        return None
    token = column_number("token", options.token_column, num_columns)
    tag = column_number("tag", options.tag_column, num_columns)
    tags = [columns[tag] for columns in split if len(columns) == num_columns]
    tagged = sum(bool(split_tag(text)[0]) for text in tags) / len(tags)
    return Layout(separator, num_columns, token, tag, agreeing / len(rows), tagged)


def column_number(what: str, wanted: int, num_columns: int) -> int:
    """Return the place of a column from the left, of a number that may count from the right."""
    if not -num_columns <= wanted < num_columns:
        raise FednerError(
            f"{what} column {wanted}: the lines have {num_columns} columns",
            f"Choose 0 to {num_columns - 1}, or -1 for the last one.",
        )
    return wanted % num_columns


def columns_of(row: str, separator: str) -> list[str]:
    """Return the columns of one line."""
    return row.split("\t") if separator == "\t" else _BLANKS.split(row.strip(" \t"))


def marker_line(document: str, patient: str | None) -> str:
    """Return the line that marks the beginning of a document and says whose it is."""
    owner = "" if patient is None else f"\t{_PATIENT}{_quoted(patient)}"
    return f"{MARKER}\t{_ID}{_quoted(document)}{owner}\tO"


def _quoted(name: str) -> str:
    return quote(name, _LEGIBLE, errors="surrogatepass")


def marked(row: str) -> tuple[str | None, str | None]:
    """Return id and patient that a document marker carries; None for what it does not say.

    Beside fedner's own markers those of AIDA CoNLL carry an id: `-DOCSTART- (947testa CRICKET)`.
    """
    found: dict[str, str] = {}
    for column in _BLANKS.split(row)[1:]:
        for key in (_ID, _PATIENT):
            if column.startswith(key):
                found[key] = unquote(column.removeprefix(key), errors="surrogatepass")
    if match := _IN_BRACKETS.fullmatch(row):
        found.setdefault(_ID, match[1])
    return found.get(_ID) or None, found.get(_PATIENT) or None


def has_markers(path: Path, encoding: str | None = None) -> bool:
    """Whether some line of a file marks the beginning of a document; reads up to that line."""
    log = ProblemLog(limit=0, encoding=encoding)
    return any(
        MARKER in text and any(map(is_marker, text.split("\n"))) for _, text in blocks(path, log)
    )


def is_marker(row: str) -> bool:
    """Whether a line marks the beginning of a document."""
    return row.startswith(MARKER) and row[len(MARKER) : len(MARKER) + 1] in ("", " ", "\t")
