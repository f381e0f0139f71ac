"""`fedner suggest`: which unlabelled notes to annotate next, in an annotation tool's form."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedner.cli.arguments import MovedContext, MovedVectors, OfPlatform, TextEncoding
from fedner.cli.predict import (
    Device,
    Format,
    IdColumn,
    Lenient,
    Model,
    PatientColumn,
    Restart,
    Skipped,
    Sources,
    TextColumn,
    columns_of,
    end,
    refuse_list,
    tagger_in,
)

if TYPE_CHECKING:
    from fedner.inference.job import Job, JobResult
    from fedner.inference.suggestions import Chooser, Fresh, Judging, Known

ToolName = Literal["label-studio", "doccano", "xmi", "brat", "bioc", "jsonl"]
UnitName = Literal["note", "sentence"]
RankingName = Literal["both", "uncertainty", "diversity", "random"]
_BY_SUFFIX: dict[str, ToolName] = {".json": "label-studio", ".jsonl": "jsonl", ".xml": "bioc"}
_SHOWN = 10

Out = Annotated[
    Path,
    typer.Option(
        "--out",
        help="The output, written whole or not at all. After a kill the same command goes on.",
    ),
]
To = Annotated[
    ToolName | None,
    typer.Option(
        "--to",
        metavar="TOOL",
        help="label-studio, doccano, xmi (INCEpTION), brat, bioc or jsonl. By default the name of "
        "--out decides: .json Label Studio, .xml BioC, .jsonl fedner's own.",
    ),
]
Count = Annotated[int, typer.Option("--count", "-n", help="How many texts to suggest.")]
UnitOption = Annotated[
    UnitName,
    typer.Option("--unit", help="What an annotator opens: whole notes, or sentences of them."),
]
By = Annotated[
    RankingName,
    typer.Option(
        "--by",
        metavar="RANKING",
        help="both: from the most uncertain, those that represent the others; uncertainty or "
        "diversity alone; random, for comparison.",
    ),
]
NotIn = Annotated[
    list[Path] | None,
    typer.Option(
        "--not-in",
        help="An annotated corpus, whose texts are not suggested. Repeatable.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="The seed of --by random.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was suggested as JSON.")]


def suggest(
    model: Model,
    sources: Sources,
    out: Out,
    platform: OfPlatform = None,
    to: To = None,
    count: Count = 50,
    unit: UnitOption = "note",
    by: By = "both",
    not_in: NotIn = None,
    seed: Seed = 1,
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
    json: AsJson = False,
) -> None:
    """Choose the unlabelled notes to annotate next: those about which a tagger is least sure.

    It writes them with what the tagger found in them, for you to correct in an annotation tool.
    """
    from fedner.inference.several import open_inputs
    from fedner.inference.suggestions import Chooser, Fresh, Judging, check_count

    check_count(count)
    chosen_form = _form(out, to)
    columns = columns_of(text_column, id_column, patient_column)
    refuse_list(skipped)
    load = tagger_in(model, platform, vectors, context, device)
    opened = open_inputs(sources, format, encoding, sys.stdin.buffer, columns, lenient=lenient)
    known = _known(not_in or (), unit)
    chooser = Chooser(by, count, known, seed)
    settings = {
        "task": "suggest",
        "inputs": [str(each) if str(each) == "-" else str(each.resolve()) for each in sources],
        "format": format,
        "encoding": encoding,
        "columns": None if columns is None else asdict(columns),
        "unit": unit,
        "not_in": known.digest,
    }
    job = _job(out, chosen_form, settings, skipped, chooser, sources)
    fresh = Fresh(opened, unit, known)
    done = _run(job, Judging(load()), fresh, restart=restart, json=json)
    opened.left_out[:] = done.left_out
    _show_json(job, done, chooser, fresh) if json else _show(done, chooser, fresh)
    end(opened, lenient=lenient)


def _form(out: Path, to: ToolName | None) -> ToolName:
    from fedner.errors import FednerError

    form = to or _BY_SUFFIX.get(out.suffix.lower())
    if form is None:
        raise FednerError(
            f"--out {out} does not say which tool it is for",
            "Add --to label-studio, doccano, xmi (INCEpTION), brat, bioc or jsonl.",
        )
    return form


def _known(paths: Sequence[Path], unit: UnitName) -> "Known":
    from fedner.inference.several import open_inputs
    from fedner.inference.suggestions import known_texts

    return known_texts((open_inputs([each], lenient=True) for each in paths), unit)


def _job(
    out: Path,
    form: ToolName,
    settings: dict[str, Any],
    skipped: Path | None,
    chooser: "Chooser",
    sources: Sequence[Path],
) -> "Job":
    from fedner.inference.job import Job

    job = Job(out, form, settings, skipped, chooser)
    job.check_target(sources)
    return job


def _run(
    job: "Job", tagger: "Judging", fresh: "Fresh", *, restart: bool, json: bool
) -> "JobResult":
    """Judge all notes and write those that were chosen."""
    from fedner.cli.output import errors
    from fedner.cli.predict_progress import PredictionProgress

    opened = fresh.input()
    try:
        with PredictionProgress(opened.total, quiet=json) as progress:
            return job.run(tagger, opened, progress.on_note, restart=restart)
    except BaseException:
        if job.partial.is_dir() and not json:
            said = f"{job.partial} keeps what is done: the same command goes on where it was"
            errors.print(said, soft_wrap=True)
        raise


def _show_json(job: "Job", done: "JobResult", chooser: "Chooser", fresh: "Fresh") -> None:
    from fedner.cli.left_out import as_dicts
    from fedner.cli.output import show_json

    show_json(
        {
            "out": str(done.out),
            "format": job.format,
            "unit": fresh.unit,
            "by": chooser.by,
            "judged": chooser.judged,
            "passed_over": dict(fresh.passed_over),
            "suggestions": chooser.suggestions,
            "resumed": done.resumed,
            "left_out": as_dicts(done.left_out),
            "skipped": done.skipped and str(done.skipped),
        }
    )


def _show(done: "JobResult", chooser: "Chooser", fresh: "Fresh") -> None:
    """Show the first suggestions by id and scores, never by their text."""
    from fedner.cli.output import console, show_place, table

    rows = [
        (each.id, f"{each.uncertainty:.3f}", each.rank, each.mentions, each.characters)
        for each in chooser.suggestions[:_SHOWN]
    ]
    num = len(chooser.suggestions)
    of = f" (the first {_SHOWN} of {num:,})" if num > _SHOWN else ""
    columns = (fresh.unit, "uncertainty", "rank by it", "mentions", "characters")
    if rows:
        console.print(table(f"To annotate next{of}", columns, rows))
    over = "".join(
        f", {each:,} passed over ({why})" for why, each in sorted(fresh.passed_over.items())
    )
    show_place("written to", done.out, f": {num:,} of {chooser.judged:,} {fresh.unit}s{over}")
    if done.skipped is not None:
        typer.echo(f"{done.skipped}: what was skipped, and why", err=True)
