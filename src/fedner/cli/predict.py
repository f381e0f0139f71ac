"""`fedner predict`: mentions of a saved tagger in any input, streamed."""

import json as json_module
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedner.cli.arguments import MovedContext, MovedVectors, OfPlatform, TaggerFolder, TextEncoding
from fedner.errors import FednerError
from fedner.visible import visible_json

if TYPE_CHECKING:
    from fedner.inference.inputs import PredictionInput
    from fedner.inference.predict import Predicted, Predictor

Device = Literal["cpu", "cuda"]


Source = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT",
        help="A text file, a folder of .txt files, a corpus in any format, or - for text from "
        "standard input.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Write JSONL to this new file, whole or not at all."),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="The format of INPUT. text: each file is a document; lines: each line is one.",
    ),
]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Go on without texts of a corpus that are broken.")
]
AsJsonLines = Annotated[
    bool, typer.Option("--json", help="Print JSONL for machines on standard output.")
]


def predict(
    model: TaggerFolder,
    source: Source,
    platform: OfPlatform = None,
    out: Out = None,
    format: Format = "auto",
    encoding: TextEncoding = None,
    lenient: Lenient = False,
    vectors: MovedVectors = None,
    context: MovedContext = None,
    device: Annotated[Device, typer.Option("--device", help="Where to run.")] = "cpu",
    json: AsJsonLines = False,
) -> None:
    """Find mentions with a saved tagger: character offsets, labels and confidences.

    A text file is one document: offsets count the characters of the whole file.
    """
    from fedner.cli.left_out import exit_code, show_left_out
    from fedner.inference.inputs import open_input
    from fedner.inference.predict import Predictor
    from fedner.runs.folder import tagger_folder

    if out is not None:
        _refuse_existing(out)
    folder = tagger_folder(model, platform)
    opened = open_input(source, format, encoding, sys.stdin.buffer)
    predictor = Predictor.load(folder, vectors=vectors, context=context, device=device)
    documents = opened.documents if lenient else opened.whole()
    found = predictor.predict_documents(documents)
    if out is not None:
        num_documents, num_mentions = _write(out, found, predictor, opened)
        typer.echo(f"{out}: {num_mentions:,} mentions in {num_documents:,} documents", err=True)
    elif json:
        for line in _lines(found, predictor, opened):
            sys.stdout.write(line)
    else:
        _show(found, predictor)
    show_left_out(opened.left_out)
    _show_problems(opened, lenient=lenient)
    if code := exit_code(opened.left_out):
        raise typer.Exit(code)


def _refuse_existing(out: Path) -> None:
    if os.path.lexists(out):
        raise FednerError(
            f"{out} is already there", "Choose another --out: predicting never overwrites."
        )


def _show_problems(opened: "PredictionInput", *, lenient: bool) -> None:
    """Say what of a corpus was not read; annotation that is wrong does not matter here."""
    if lenient and opened.log.total:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in opened.log.counts.most_common())
        typer.echo(f"{opened.source}: problems in the input: {counts}", err=True)


def _write(
    out: Path, found: "Iterable[Predicted]", predictor: "Predictor", opened: "PredictionInput"
) -> tuple[int, int]:
    from fedner.durable import writing
    from fedner.inference.permissions import output_mode

    counts = [0, 0]

    def counted() -> "Iterator[Predicted]":
        for predicted in found:
            counts[0] += 1
            counts[1] += len(predicted.mentions)
            yield predicted

    with writing(out, mode=output_mode(opened.files, out), overwrite=False) as file:
        for line in _lines(counted(), predictor, opened):
            file.write(line.encode("utf-8", "surrogatepass"))
    return counts[0], counts[1]


def _lines(
    found: "Iterable[Predicted]", predictor: "Predictor", opened: "PredictionInput"
) -> Iterator[str]:
    """Yield the lines of fedner's own JSONL, with a confidence beside every span."""
    from fedner.cli.left_out import as_dicts
    from fedner.corpus.readers.jsonl import VERSION

    yield _line(
        {
            "fedner": "corpus",
            "version": VERSION,
            "name": "predictions",
            "labels": list(predictor.model.space.labels),
            **({"left_out": as_dicts(opened.left_out)} if opened.left_out else {}),
        }
    )
    for predicted in found:
        yield _line(
            {
                "id": predicted.document.id,
                "text": predicted.document.text,
                "spans": [
                    {
                        "start": mention.start,
                        "end": mention.end,
                        "label": mention.label,
                        "confidence": round(mention.confidence, 6),
                    }
                    for mention in predicted.mentions
                ],
                "source": predicted.document.source,
            }
        )


def _line(record: dict[str, Any]) -> str:
    text = json_module.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return visible_json(text) + "\n"


def _show(found: "Iterable[Predicted]", predictor: "Predictor") -> None:
    from fedner.cli.output import console, highlighted, show_place

    for predicted in found:
        show_place("document", predicted.document.id)
        spans = [(mention.start, mention.end, mention.label) for mention in predicted.mentions]
        console.print(highlighted(predicted.document.text, spans, predictor.model.space.labels))
        for mention in predicted.mentions:
            console.print(
                f"  {mention.start}-{mention.end} {mention.label} {mention.confidence:.3f}",
                style="dim",
            )
