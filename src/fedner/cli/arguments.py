"""Arguments and options that several commands have in common, each defined once."""

from pathlib import Path
from typing import Annotated

import typer

TaggerFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, or the folder of a saved tagger.")
]
OfPlatform = Annotated[
    str | None, typer.Option("--platform", help="Of a run: the platform whose tagger to use.")
]
MovedVectors = Annotated[
    Path | None, typer.Option("--vectors", help="The model's word vectors, if they were moved.")
]
MovedContext = Annotated[
    Path | None, typer.Option("--context", help="The model's context encoder, if it was moved.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
AsLines = Annotated[bool, typer.Option("--json", help="Print each line as JSON: time, from, line.")]
TextEncoding = Annotated[
    str | None,
    typer.Option("--encoding", help="The encoding of text files, e.g. cp1252; default: UTF-8."),
]
OwnSettings = Annotated[
    list[Path] | None,
    typer.Option(
        "--platform", metavar="FILE", help="A platform's own settings, for a study. Repeatable."
    ),
]
InitialModel = Annotated[
    Path | None,
    typer.Option(
        "--initial", metavar="FOLDER", help="The folder of the model that a study begins with."
    ),
]
ChangedKeys = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, as model.hidden=100."),
]
