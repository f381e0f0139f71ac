"""Files of a folder that were not read: named for people, listed for machines."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fedner.inference.notes import LeftOut

PARTLY_DONE: Final = 1
"""The exit code of a command that did its work, but was given files that it had to refuse."""

_ROW: Final = re.compile(r":[0-9]+$")


def exit_code(left_out: Sequence["LeftOut"]) -> int:
    """Return 1 where something was refused that may be meant as a note, else 0."""
    return PARTLY_DONE if any(each.is_refused for each in left_out) else 0


def end_with(left_out: Sequence["LeftOut"]) -> None:
    """End the command with the exit code of what was left out."""
    import typer

    if code := exit_code(left_out):
        raise typer.Exit(code)


def as_dicts(left_out: Sequence["LeftOut"]) -> list[dict[str, Any]]:
    """Return what was left out in a form that JSON can carry."""
    return [
        {"file": str(each.path), "why": each.why, "hint": each.hint, "refused": each.is_refused}
        for each in left_out
    ]


def show_left_out(left_out: Sequence["LeftOut"]) -> None:
    """Say on standard error what was refused and what was skipped, by reason, with counts."""
    from rich.text import Text

    from fedner.cli.output import errors
    from fedner.inference.notes import summary

    refused = [each for each in left_out if each.is_refused]
    skipped = [each for each in left_out if not each.is_refused]
    for name, style, files in (("refused", "bold red", refused), ("skipped", "bold", skipped)):
        if files:
            noun = "row" if all(_ROW.search(each.path.name) for each in files) else "file"
            counted = f"{len(files):,} {noun}{'s' if len(files) > 1 else ''} not read"
            errors.print(Text.assemble((f"{name}: ", style), counted), soft_wrap=True)
        for line in summary(files):
            errors.print(Text(f"  {line}"), soft_wrap=True)
    for hint in dict.fromkeys(each.hint for each in refused if each.hint):
        errors.print(Text.assemble(("hint: ", "bold yellow"), hint), soft_wrap=True)
