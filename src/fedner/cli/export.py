"""`fedner export`: a trained tagger for machines without torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer

ExportFormat = Literal["onnx"]


def export(
    model: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or the folder of a saved tagger.")
    ],
    to: Annotated[Path, typer.Option("--to", help="The folder for the export; never over files.")],
    platform: Annotated[
        str | None, typer.Option("--platform", help="Whose tagger of a run.")
    ] = None,
    format: Annotated[
        ExportFormat, typer.Option("--format", help="What to write: a graph for onnxruntime.")
    ] = "onnx",
    vectors: Annotated[
        Path | None, typer.Option("--vectors", help="The model's word vectors, if they moved.")
    ] = None,
    context: Annotated[
        Path | None, typer.Option("--context", help="The model's context encoder, if it moved.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
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
