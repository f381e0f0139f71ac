"""`fedner predict`: mentions of a saved tagger in any input, streamed."""

import json as json_module
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedner.cli.arguments import MovedContext, MovedVectors, OfPlatform, TaggerFolder
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.corpus.document import Document
    from fedner.inference.predict import Predicted, Predictor

TEXT = "text"
Device = Literal["cpu", "cuda"]


def predict(
    model: TaggerFolder,
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="A file or folder; - reads lines of text.")
    ],
    platform: OfPlatform = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write JSONL here, whole or not at all.")
    ] = None,
    format: Annotated[
        str,
        typer.Option("--format", help="The format of the input; text: each line is a document."),
    ] = "auto",
    vectors: MovedVectors = None,
    context: MovedContext = None,
    device: Annotated[Device, typer.Option("--device", help="Where to run.")] = "cpu",
    json: Annotated[
        bool, typer.Option("--json", help="Print JSONL for machines on standard output.")
    ] = False,
) -> None:
    """Find mentions with a saved tagger: character offsets, labels and confidences."""
    from fedner.inference.predict import Predictor
    from fedner.runs.folder import tagger_folder

    folder = tagger_folder(model, platform)
    predictor = Predictor.load(folder, vectors=vectors, context=context, device=device)
    found = predictor.predict_documents(_documents(source, format))
    if out is not None:
        num_documents, num_mentions = _write(out, found, predictor)
        typer.echo(f"{out}: {num_mentions:,} mentions in {num_documents:,} documents", err=True)
    elif json:
        for line in _lines(found, predictor):
            sys.stdout.write(line)
    else:
        _show(found, predictor)


def _documents(source: Path, format: str) -> "Iterator[Document]":
    """Return the documents of the input as a stream; what cannot be placed is only annotation."""
    from fedner.corpus.reading import open_corpus

    if str(source) == "-":
        return _text_lines(sys.stdin, "-")
    if format == TEXT:
        return _text_file(source)
    try:
        _, documents, _ = open_corpus(source, format)
    except FednerError:
        if format == "auto" and source.is_file() and source.suffix == ".txt":
            return _text_file(source)
        raise
    return documents


def _text_file(path: Path) -> "Iterator[Document]":
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from _text_lines(file, path.name)
    except UnicodeDecodeError as error:
        raise FednerError(
            f"{path} is not UTF-8: {error.reason}", "Convert the file to UTF-8."
        ) from error
    except OSError as error:
        raise FednerError(f"cannot read {path}: {error.strerror}", "Check the path.") from error


def _text_lines(lines: Iterable[str], name: str) -> "Iterator[Document]":
    from fedner.corpus.document import Document

    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        if text.strip():
            yield Document(f"{name}:{number}", text, source=name)


def _write(out: Path, found: "Iterable[Predicted]", predictor: "Predictor") -> tuple[int, int]:
    from fedner.durable import writing

    counts = [0, 0]

    def counted() -> "Iterator[Predicted]":
        for predicted in found:
            counts[0] += 1
            counts[1] += len(predicted.mentions)
            yield predicted

    with writing(out) as file:
        for line in _lines(counted(), predictor):
            file.write(line.encode("utf-8", "surrogatepass"))
    return counts[0], counts[1]


def _lines(found: "Iterable[Predicted]", predictor: "Predictor") -> Iterator[str]:
    """Yield the lines of fedner's own JSONL, with a confidence beside every span."""
    from fedner.corpus.readers.jsonl import VERSION

    yield _line(
        {
            "fedner": "corpus",
            "version": VERSION,
            "name": "predictions",
            "labels": list(predictor.model.space.labels),
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
    return json_module.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def _show(found: "Iterable[Predicted]", predictor: "Predictor") -> None:
    from fedner.cli.output import console, highlighted

    for predicted in found:
        spans = [(mention.start, mention.end, mention.label) for mention in predicted.mentions]
        console.print(highlighted(predicted.document.text, spans, predictor.model.space.labels))
        for mention in predicted.mentions:
            console.print(
                f"  {mention.start}-{mention.end} {mention.label} {mention.confidence:.3f}",
                style="dim",
            )
