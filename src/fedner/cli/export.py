"""`fedner export`: a trained tagger for machines without torch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedner.cli.arguments import AsJson, MovedContext, MovedVectors, OfPlatform, TaggerFolder

if TYPE_CHECKING:
    from fedner.inference.precision import PrecisionCheck

ExportFormat = Literal["onnx"]
PrecisionName = Literal["float32", "int8"]


def export(
    model: TaggerFolder,
    to: Annotated[
        Path, typer.Option("--to", help="The folder for the export; files are never overwritten.")
    ],
    platform: OfPlatform = None,
    format: Annotated[
        ExportFormat, typer.Option("--format", help="What to write: a graph for onnxruntime.")
    ] = "onnx",
    precision: Annotated[
        PrecisionName,
        typer.Option("--precision", help="int8: LSTMs in 8 bits, faster; needs --check."),
    ] = "float32",
    check: Annotated[
        Path | None,
        typer.Option(
            "--check",
            help="An annotated corpus that was not trained on: int8 is refused if it costs more "
            "than 0.2 points of strict F1.",
        ),
    ] = None,
    vectors: MovedVectors = None,
    context: MovedContext = None,
    json: AsJson = False,
) -> None:
    """Write a tagger as ONNX and JSON: the same predictions without torch."""
    from fedner.cli.output import console, show_json, show_place, table
    from fedner.inference.precision import checked_export
    from fedner.models.checkpoint import load_tagger
    from fedner.runs.folder import tagger_folder

    loaded = load_tagger(tagger_folder(model, platform), vectors=vectors, context=context)
    checked = checked_export(loaded, to, precision, check)
    files = {path.name: path.stat().st_size for path in sorted(to.iterdir())}
    encoder = None if loaded.encoder is None else loaded.encoder.origin
    if json:
        origin = None if encoder is None else encoder.to_json()
        record = {"export": str(to), "format": format, "files": files, "context": origin}
        show_json(record | {"precision": precision, "check": checked})
        return
    console.print(table(f"{loaded.recipe.name} as {format}", ("file", "bytes"), files.items()))
    show_place("written to", to)
    if checked is not None:
        console.print(_said(checked))
    if encoder is not None:
        console.print(
            f"The context features ({encoder.kind} {encoder.name}) are an input of the "
            "graph; their encoder is not exported.",
            style="dim",
        )


def _said(checked: "PrecisionCheck") -> str:
    return (
        f"strict F1 on {checked.documents:,} documents: {checked.int8_f1:.2f} in 8 bits, "
        f"{checked.float32_f1:.2f} in 32"
    )
