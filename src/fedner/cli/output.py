"""How commands speak: tables and colours to people, JSON to machines, errors with their remedy."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedner.errors import FednerError

# No markup: what is shown are names, labels and words of users, and "[/b]" may be one of them.
console = Console(highlight=False, markup=False)
errors = Console(stderr=True, highlight=False, markup=False)

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red", "bright_cyan", "bright_magenta")

_SHORT_NAME = 14  # characters of names that stay in one piece, whatever else must be folded


def show_json(value: Any) -> None:
    """Print `value` as JSON on standard output, untouched by colours or line width."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def show_error(error: FednerError) -> None:
    """Print an error and its remedy on standard error."""
    # Never wrapped: a path that is broken into lines cannot be copied.
    errors.print(Text.assemble(("error: ", "bold red"), error.message), soft_wrap=True)
    if error.hint:
        errors.print(Text.assemble(("hint: ", "bold yellow"), error.hint), soft_wrap=True)


def show_place(what: str, place: object, rest: str = "") -> None:
    """Print where something is; never wrapped, so that it can be copied."""
    console.print(Text.assemble(f"{what} ", (str(place), "bold"), rest), soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table whose first column is text and whose others are numbers, aligned right."""
    result = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    result.show_header = any(columns)
    cells = [[cell if isinstance(cell, Text) else _cell(cell) for cell in row] for row in rows]
    is_short = max((len(str(row[0])) for row in cells), default=0) <= _SHORT_NAME
    for position, column in enumerate(columns):
        # Folded where the terminal is narrow: a name that was cut short may stand for another.
        is_name = position == 0
        justify: Literal["left", "right"] = "left" if is_name else "right"
        result.add_column(column, justify=justify, overflow="fold", no_wrap=is_name and is_short)
    for row in cells:
        result.add_row(*row)
    return result


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def colour_of(label: str, labels: Sequence[str]) -> str:
    """Return the colour in which a label is shown, the same throughout one output."""
    return _COLOURS[sorted(labels).index(label) % len(_COLOURS)]


def highlighted(text: str, mentions: Iterable[tuple[int, int, str]], labels: Sequence[str]) -> Text:
    """Return `text` with its mentions coloured and followed by their labels."""
    result, position = Text(), 0
    for start, end, label in sorted(mentions):
        colour = colour_of(label, labels)
        result.append(text[position:start])
        result.append(text[start:end], style=f"bold {colour}")
        result.append(f" [{label}]", style=f"dim {colour}")
        position = end
    result.append(text[position:])
    return result
