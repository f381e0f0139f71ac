"""`fedner init`: a commented federation file that runs as it is, or that fits data of one's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedner.cli.arguments import AsJson
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.runs.fitting_file import SeenPlatform


def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path(
        "federation.toml"
    ),
    platforms: Annotated[
        list[str] | None,
        typer.Option(
            "--platform", metavar="NAME=PATH", help="A platform and its annotated data; repeat."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is already there.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Write a commented federation file: for your data, or for built-in, synthetic platforms."""
    from importlib.resources import files

    from fedner.cli.inputs import ready_to_write
    from fedner.cli.output import show_json, show_place
    from fedner.durable import write_text

    seen: Sequence[SeenPlatform] = ()
    ready_to_write(path, overwrite=overwrite)
    if platforms:
        from fedner.runs.fitting_file import fitting_file

        made = fitting_file([_place(each) for each in platforms], path.parent)
        text, seen = made.text, made.platforms
    else:
        text = files("fedner.runs").joinpath("example.toml").read_text(encoding="utf-8")
    write_text(path, text)
    if json:
        show_json({"written": str(path), "platforms": seen})
        return
    if seen:
        _show(seen)
    show_place("written to", path, f"; try: fedner {'check' if seen else 'train'} {path}")


def _place(given: str) -> tuple[str, str]:
    """Return name and data of a platform."""
    name, equals, data = given.partition("=")
    if not (name and equals and data):
        raise FednerError(
            f"--platform: found {given!r}; expected NAME=PATH", "As --platform clinic=notes/."
        )
    return name, data


def _show(seen: "Sequence[SeenPlatform]") -> None:
    from rich.text import Text

    from fedner.cli.output import console, table

    rows = [
        (
            each.name,
            each.format or "built in",
            each.sentences,
            each.documents,
            each.patients,
            len(each.labels),
            "a file of its own" if each.test_data else f"a fifth by {each.by}",
        )
        for each in seen
    ]
    columns = ("platform", "format", "sentences", "documents", "patients", "types", "test part")
    console.print(table("What the data look like", columns, rows))
    for each in seen:
        if each.labels:
            console.print(f"types of {each.name}: {', '.join(each.labels)}", soft_wrap=True)
    for each in seen:
        said = list(each.repeats)
        if each.num_problems:
            said.append(
                f"strict reading refuses {each.num_problems:,} places; the file says lenient = true"
            )
        if each.num_undecoded:
            said.append(
                f"{each.num_undecoded:,} of them are not UTF-8: name their encoding in the file, "
                'as encoding = "latin-1", or their letters are lost'
            )
        for line in said:
            warning = Text(f"warning: {each.name}: {line}", style="yellow")
            console.print(warning, soft_wrap=True)
