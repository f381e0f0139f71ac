"""How commands speak: tables and colours to people, JSON to machines, errors with their hint."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fedner.errors import FednerError
from fedner.visible import visible, visible_json


class SafeConsole(Console):
    """A console that shows control characters of texts instead of sending them to the terminal.

    All that is printed is rendered here, tables and live displays included; rich's own colours and
    cursor movements are added later, or marked as control segments.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render as rich does, with every text made visible."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


# No markup: what is shown are names, labels and words of users, and "[/b]" may be one of them.
console = SafeConsole(highlight=False, markup=False)
errors = SafeConsole(stderr=True, highlight=False, markup=False)

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red", "bright_cyan", "bright_magenta")

_SHORT_NAME = 14  # characters of names that stay in one piece, whatever else must be folded


def show_json(value: Any) -> None:
    """Print `value` as JSON on standard output, untouched by colours or line width."""
    print(visible_json(json.dumps(value, ensure_ascii=False, indent=2, default=_json_form)))


def _json_form(value: object) -> Any:
    """Return the JSON form of a result: a record by its fields, a path as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def show_error(error: FednerError) -> None:
    """Print an error and its hint on standard error."""
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
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return visible(str(value))  # before widths are counted


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
