"""`fedner redact`: texts without what a tagger finds in them."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedner.cli.arguments import (
    AsJson,
    MovedContext,
    MovedVectors,
    OfPlatform,
    TaggerFolder,
    TextEncoding,
)

if TYPE_CHECKING:
    from fedner.inference.redact import RedactedFile

How = Literal["type", "pseudonym", "mask"]


def redact(
    model: TaggerFolder,
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="A text file, or a folder of .txt files.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Where redacted texts go; never over a file.")],
    platform: OfPlatform = None,
    how: Annotated[
        How,
        typer.Option(
            "--how",
            help="By type; by a pseudonym, the same for the same words; or by a mask of the same "
            "length.",
        ),
    ] = "type",
    encoding: TextEncoding = None,
    vectors: MovedVectors = None,
    context: MovedContext = None,
    json: AsJson = False,
) -> None:
    """Replace found entities; everything else stays byte for byte. Taggers miss some."""
    from fedner.cli.left_out import as_dicts, exit_code, show_left_out
    from fedner.cli.output import show_json
    from fedner.inference.notes import find_notes
    from fedner.inference.predict import Predictor
    from fedner.inference.redact import redact_files, redaction_targets
    from fedner.runs.folder import tagger_folder

    folder = tagger_folder(model, platform)
    notes = find_notes(source, encoding)
    redaction_targets(notes, out)  # what is in the way is said before a model is loaded
    predictor = Predictor.load(folder, vectors=vectors, context=context)
    done = list(redact_files(predictor, notes, out, how))
    if json:
        files = [_as_dict(each) for each in done]
        show_json({"how": how, "files": files, "left_out": as_dicts(notes.left_out)})
    else:
        _show(done, out)
        show_left_out(notes.left_out)
    if code := exit_code(notes.left_out):
        raise typer.Exit(code)


def _as_dict(done: "RedactedFile") -> dict[str, Any]:
    """Return what became of a file, and where: no words of the text."""
    return {
        "source": str(done.source),
        "target": str(done.target),
        "replaced": done.replaced,
        "mentions": [asdict(each) for each in done.replacements],
    }


def _show(done: "list[RedactedFile]", out: Path) -> None:
    from fedner.cli.output import console, show_place, table

    total: Counter[str] = Counter()
    for each in done:
        total.update(each.replaced)
    files = f"{len(done):,} file{'s' if len(done) > 1 else ''}"
    if total:
        console.print(table(f"Replaced in {files}", ("type", "count"), sorted(total.items())))
    else:
        console.print(f"nothing found to replace in {files}", style="yellow")
    show_place("written to", out)
    console.print(
        "A tagger misses mentions: what it leaves may still identify people.", style="dim"
    )
