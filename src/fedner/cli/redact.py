"""`fedner redact`: texts without what a tagger finds in them."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedner.cli.arguments import AsJson, MovedContext, MovedVectors, OfPlatform

How = Literal["type", "pseudonym", "mask"]


def redact(
    model: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or a saved tagger.")],
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="A text file, or a folder of .txt files.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Where redacted texts go; never over a file.")],
    platform: OfPlatform = None,
    how: Annotated[
        How,
        typer.Option(
            "--how",
            help="[TYPE]; a pseudonym, the same for the same words; or a mask of the same length.",
        ),
    ] = "type",
    vectors: MovedVectors = None,
    context: MovedContext = None,
    json: AsJson = False,
) -> None:
    """Replace found entities; everything else stays byte for byte. Taggers miss some."""
    from fedner.cli.output import console, show_json, show_place, table
    from fedner.inference.predict import Predictor
    from fedner.inference.redact import redact_files
    from fedner.runs.folder import tagger_folder

    predictor = Predictor.load(tagger_folder(model, platform), vectors=vectors, context=context)
    done = list(redact_files(predictor, source, out, how))
    if json:
        rows = [
            {"source": str(each.source), "target": str(each.target), "replaced": each.replaced}
            for each in done
        ]
        show_json({"how": how, "files": rows})
        return
    total: dict[str, int] = {}
    for each in done:
        for label, count in each.replaced.items():
            total[label] = total.get(label, 0) + count
    if total:
        console.print(table(f"Replaced in {len(done):,} files", ("type", "count"), total.items()))
    else:
        console.print(f"nothing found to replace in {len(done):,} files", style="yellow")
    show_place("written to", out)
    console.print(
        "A tagger misses mentions: what it leaves may still identify people.", style="dim"
    )
