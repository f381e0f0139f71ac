"""`fedner predict`: mentions of a saved or exported tagger in any input, streamed."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedner.cli.arguments import MovedContext, MovedVectors, OfPlatform, TextEncoding
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.inference.inputs import PredictionInput
    from fedner.inference.job import Job, JobResult, Reads
    from fedner.inference.onnx_tagger import OnnxTagger
    from fedner.inference.predict import Predictor
    from fedner.inference.reading import Predicted
    from fedner.inference.tables import Columns

Device = Literal["cpu", "cuda"]
OutputName = Literal["jsonl", "csv", "bioc", "brat", "label-studio", "doccano", "xmi"]


Model = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="A run folder, the folder of a saved tagger, or one that `fedner export` wrote.",
    ),
]
Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="INPUT...",
        help="Text files, Word documents, PDFs, folders of them, tables, corpora in any format, or "
        "- for standard input.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="The output, written whole or not at all. After a kill the same command goes on.",
    ),
]
To = Annotated[
    OutputName | None,
    typer.Option(
        "--to",
        metavar="FORMAT",
        help="The format of --out: jsonl, csv, bioc, brat; label-studio, doccano or xmi for "
        "annotation tools. By default its name decides (.csv, .xml for BioC), else jsonl.",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="The format of INPUT. text: each file is a document; lines: each line is one; csv, "
        "tsv, parquet: each row is one.",
    ),
]
TextColumn = Annotated[
    str | None,
    typer.Option("--text-column", help="INPUT is a table; the column that holds the notes."),
]
IdColumn = Annotated[
    str | None, typer.Option("--id-column", help="Its column of ids; default: row numbers.")
]
PatientColumn = Annotated[
    str | None, typer.Option("--patient-column", help="Its column of patients.")
]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Skip broken texts of a corpus instead of stopping.")
]
Skipped = Annotated[
    Path | None,
    typer.Option(
        "--skipped", help="Where the list of what was skipped goes; default: OUT.skipped.csv."
    ),
]
Restart = Annotated[
    bool, typer.Option("--restart", help="Throw away what a killed job has found, and begin again.")
]
AsJsonLines = Annotated[
    bool,
    typer.Option(
        "--json", help="Print JSONL on standard output; with --out, what was done and skipped."
    ),
]


def predict(
    model: Model,
    sources: Sources,
    platform: OfPlatform = None,
    out: Out = None,
    to: To = None,
    format: Format = "auto",
    text_column: TextColumn = None,
    id_column: IdColumn = None,
    patient_column: PatientColumn = None,
    encoding: TextEncoding = None,
    lenient: Lenient = False,
    skipped: Skipped = None,
    restart: Restart = False,
    vectors: MovedVectors = None,
    context: MovedContext = None,
    device: Annotated[Device, typer.Option("--device", help="Where to run.")] = "cpu",
    json: AsJsonLines = False,
) -> None:
    """Find mentions with a tagger: character offsets, labels and confidences.

    A text file is one document: offsets count the characters of the whole file.
    """
    from fedner.inference.several import open_inputs

    columns = columns_of(text_column, id_column, patient_column)
    settings = {
        "inputs": [str(each) if str(each) == "-" else str(each.resolve()) for each in sources],
        "format": format,
        "encoding": encoding,
        "columns": None if columns is None else asdict(columns),
    }
    job = _job(out, to, settings, skipped, sources)
    refuse_list(skipped)
    load = tagger_in(model, platform, vectors, context, device)  # its folder is there, or said so
    opened = open_inputs(sources, format, encoding, sys.stdin.buffer, columns, lenient=lenient)
    tagger = load()
    if job is not None:
        _run(job, tagger, opened, restart=restart, json=json)
    else:
        found = tagger.predict_documents(opened.documents)
        _print_lines(found, tagger, opened) if json else _show(found, tagger)
        _list_skipped(opened, skipped)
    end(opened, lenient=lenient)


def columns_of(text: str | None, ids: str | None, patient: str | None) -> "Columns | None":
    """Return the columns of a table; None where no table is meant."""
    from fedner.inference.tables import Columns

    if text is not None:
        return Columns(text, ids, patient)
    for option, given in (("--id-column", ids), ("--patient-column", patient)):
        if given is not None:
            raise FednerError(f"{option} without --text-column", "Name the column of the notes.")
    return None


def _job(
    out: Path | None,
    to: OutputName | None,
    settings: Mapping[str, object],
    skipped: Path | None,
    sources: list[Path],
) -> "Job | None":
    """Return the job that writes to --out, after a look at what is in its way."""
    from fedner.inference.found_files import format_of
    from fedner.inference.job import Job

    if out is None:
        if to is not None:
            raise FednerError(f"--to {to} without --out", "Name the file or folder to write.")
        return None
    job = Job(out, to or format_of(out), settings, skipped)
    job.check_target(sources)
    return job


def refuse_list(skipped: Path | None) -> None:
    """Refuse to overwrite a list of what was skipped."""
    if skipped is not None and skipped.exists():
        raise FednerError(f"{skipped} is already there", "Choose another --skipped.")


def tagger_in(
    model: Path, platform: str | None, vectors: Path | None, context: Path | None, device: Device
) -> "Callable[[], Predictor | OnnxTagger]":
    """Return what loads a tagger: one of torch, or an exported one, for which torch is not loaded.

    Raises:
        FednerError: There is no tagger, or an option does not fit it.
    """
    from fedner.inference.onnx_tagger import OnnxTagger, is_export

    if not is_export(model):
        from fedner.inference.predict import Predictor
        from fedner.runs.folder import tagger_folder

        folder = tagger_folder(model, platform)
        return lambda: Predictor.load(folder, vectors=vectors, context=context, device=device)
    given = {
        "--platform": platform,
        "--vectors": vectors,
        "--context": context,
        "--device": None if device == "cpu" else device,
    }
    for option, value in given.items():
        if value is not None:
            raise FednerError(
                f"{option} {value} is not for an exported tagger: {model}", f"Leave out {option}."
            )
    return lambda: OnnxTagger.load(model)


def _run(
    job: "Job", tagger: "Reads", opened: "PredictionInput", *, restart: bool, json: bool
) -> None:
    """Run a job and say what it came to."""
    from fedner.cli.left_out import as_dicts
    from fedner.cli.output import errors, show_json
    from fedner.cli.predict_progress import PredictionProgress

    try:
        with PredictionProgress(opened.total, quiet=json) as progress:
            done = job.run(tagger, opened, progress.on_note, restart=restart)
    except BaseException:
        if job.partial.is_dir() and not json:
            said = f"{job.partial} keeps what is done: the same command goes on where it was"
            errors.print(said, soft_wrap=True)
        raise
    opened.left_out[:] = done.left_out
    if json:
        show_json(
            {
                "out": str(done.out),
                "format": job.format,
                "documents": done.documents,
                "mentions": done.mentions,
                "resumed": done.resumed,
                "left_out": as_dicts(done.left_out),
                "skipped": done.skipped and str(done.skipped),
            }
        )
        return
    _say_done(done)


def _say_done(done: "JobResult") -> None:
    before = f" ({done.resumed:,} of them done before)" if done.resumed else ""
    typer.echo(
        f"{done.out}: {done.mentions:,} mentions in {done.documents:,} documents{before}", err=True
    )
    if done.skipped is not None:
        typer.echo(f"{done.skipped}: what was skipped, and why", err=True)


def _list_skipped(opened: "PredictionInput", skipped: Path | None) -> None:
    """Write the list of what was skipped where it was asked for."""
    from fedner.inference.job import write_skipped
    from fedner.inference.permissions import output_mode

    if skipped is not None:
        write_skipped(skipped, opened.left_out, output_mode(opened.files, skipped))


def end(opened: "PredictionInput", *, lenient: bool) -> None:
    """Say what was skipped and why; the exit code is 1 where something was refused."""
    from fedner.cli.left_out import exit_code, show_left_out

    show_left_out(opened.left_out)
    _show_problems(opened, lenient=lenient)
    if code := exit_code(opened.left_out):
        raise typer.Exit(code)


def _show_problems(opened: "PredictionInput", *, lenient: bool) -> None:
    """Say what of a corpus was not read; annotation that is wrong does not matter here."""
    if lenient and opened.log.total:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in opened.log.counts.most_common())
        typer.echo(f"{opened.source}: problems in the input: {counts}", err=True)


def _print_lines(found: "Iterable[Predicted]", tagger: "Reads", opened: "PredictionInput") -> None:
    """Print fedner's own JSONL, with a confidence beside every span."""
    from fedner.cli.left_out import as_dicts
    from fedner.inference.found_files import found_line, header_line

    sys.stdout.write(header_line(tagger.labels, as_dicts(opened.left_out)))
    for predicted in found:
        sys.stdout.write(found_line(predicted))


def _show(found: "Iterable[Predicted]", tagger: "Reads") -> None:
    from fedner.cli.output import console, highlighted, show_place

    for predicted in found:
        show_place("document", predicted.document.id)
        spans = [(mention.start, mention.end, mention.label) for mention in predicted.mentions]
        console.print(highlighted(predicted.document.text, spans, tagger.labels))
        for mention in predicted.mentions:
            console.print(
                f"  {mention.start}-{mention.end} {mention.label} {mention.confidence:.3f}",
                style="dim",
            )
