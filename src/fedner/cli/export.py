"""`fedner export`: a trained tagger for machines without torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedner.cli.arguments import AsJson, MovedContext, MovedVectors, OfPlatform, TaggerFolder

ExportFormat = Literal["onnx"]


def export(
    model: TaggerFolder,
    to: Annotated[Path, typer.Option("--to", help="The folder for the export; never over files.")],
    platform: OfPlatform = None,
    format: Annotated[
        ExportFormat, typer.Option("--format", help="What to write: a graph for onnxruntime.")
    ] = "onnx",
    vectors: MovedVectors = None,
    context: MovedContext = None,
    json: AsJson = False,
) -> None:
    """Write a tagger as ONNX and JSON: the same predictions without torch."""
    from fedner.cli.output import console, show_json, show_place, table
    from fedner.inference.onnx_export import export_onnx
    from fedner.models.checkpoint import load_tagger
    from fedner.runs.folder import tagger_folder

    loaded = load_tagger(tagger_folder(model, platform), vectors=vectors, context=context)
    export_onnx(loaded, to)
    files = {path.name: path.stat().st_size for path in sorted(to.iterdir())}
    encoder = None if loaded.encoder is None else loaded.encoder.origin
    if json:
        origin = None if encoder is None else encoder.to_json()
        show_json({"export": str(to), "format": format, "files": files, "context": origin})
        return
    console.print(table(f"{loaded.recipe.name} as {format}", ("file", "bytes"), files.items()))
    show_place("written to", to)
    if encoder is not None:
        console.print(
            f"The context features ({encoder.kind} {encoder.name}) are an input of the "
            "graph; their encoder is not exported.",
            style="dim",
        )
