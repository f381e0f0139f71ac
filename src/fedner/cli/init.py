"""`fedner init`: a commented federation file that runs as it is."""

from pathlib import Path
from typing import Annotated

import typer

from fedner.cli.arguments import AsJson


def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path(
        "federation.toml"
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is already there.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Write a commented example of a federation file; it runs on built-in, synthetic platforms."""
    from importlib.resources import files

    from fedner.cli.inputs import ready_to_write
    from fedner.cli.output import show_json, show_place
    from fedner.durable import write_text

    text = files("fedner.runs").joinpath("example.toml").read_text(encoding="utf-8")
    write_text(ready_to_write(path, overwrite=overwrite), text)
    if json:
        show_json({"written": str(path)})
    else:
        show_place("written to", path, f"; try: fedner train {path}")
