"""`fedner join`: a platform receives a shared model, sends nothing, and keeps what serves it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedner.cli import label_maps, types_option
from fedner.cli.arguments import AsJson, MovedContext, MovedVectors
from fedner.cli.data_arguments import ByOption, FlattenOption, SeedOption, SentencesOption
from fedner.cli.label_maps import LabelMap
from fedner.cli.reading import Reading, takes_reading
from fedner.cli.train import INTERRUPTED
from fedner.cli.types_option import Types

if TYPE_CHECKING:
    from fedner.runs.joining.join import JoinOptions
    from fedner.runs.joining.record import Joined
    from fedner.settings import PlatformEntry

SharedModel = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A shared model (RUN/model), or a finished run; it is only read."
    ),
]
Data = Annotated[
    str, typer.Option("--data", help="The platform's own data: a path, or synthetic:NAME.")
]
Out = Annotated[
    Path, typer.Option("--out", help="The folder for its tagger; a stopped join goes on there.")
]
Labels = Annotated[
    str | None,
    typer.Option("--labels", help="The types that it annotates, e.g. ADE,Drug; default: all."),
]
Name = Annotated[str, typer.Option("--name", help="The platform's name.")]
TestShare = Annotated[
    float | None,
    typer.Option(
        "--test",
        help="The share of the test part, 0.2 by default; 0 trains on everything and claims no "
        "result.",
    ),
]
TestData = Annotated[Path | None, typer.Option("--test-data", help="A test part in a file.")]
Own = Annotated[
    int | None,
    typer.Option(
        "--own", help="Train on this many of the own sentences; the test part stays the same."
    ),
]
NumSentences = Annotated[int, typer.Option("--num-sentences", help="The size of synthetic data.")]
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs",
        help="The epochs of a training; by default they follow from the number of sentences.",
    ),
]
NumWorkers = Annotated[
    int, typer.Option("--workers", help="How many trainings run side by side on the CPU.")
]
Device = Annotated[Literal["cpu", "cuda", "auto"], typer.Option("--device", help="Where to train.")]


@takes_reading()
def join(
    model: SharedModel,
    data: Data,
    out: Out,
    reading: Reading,
    types: Types = None,
    labels: Labels = None,
    label_map: LabelMap = None,
    name: Name = "new-platform",
    sentences: SentencesOption = None,
    flatten: FlattenOption = "longest",
    by: ByOption = "sentence",
    test: TestShare = None,
    test_data: TestData = None,
    own: Own = None,
    num_sentences: NumSentences = 500,
    epochs: Epochs = None,
    workers: NumWorkers = 1,
    vectors: MovedVectors = None,
    context: MovedContext = None,
    device: Device = "cpu",
    seed: SeedOption = 1,
    json: AsJson = False,
) -> None:
    """Join later: receive MODEL, send nothing, keep the best of joined, local-only and both.

    Cross-validation on the own sentences chooses the settings; the result comes from a test part
    that played no part in the choice.
    """
    from fedner.runs.joining.join import JoinOptions

    wanted = None if labels is None else [label.strip() for label in labels.split(",")]
    split = {"by": by, "test": test or None, "test_data": test_data}
    given = {
        "name": name,
        "data": data,
        "labels": wanted,
        "label_map": label_maps.parse(label_map),
        "sentences": sentences,
        "flatten": flatten,
        "num_sentences": num_sentences,
        "split": _stated({**split, "test_data": None if test_data is None else str(test_data)}),
        **_read_as(reading),
    }
    options = JoinOptions(
        types=types_option.parse(types),
        has_test=test_data is not None or test != 0,
        own=own,
        seed=seed,
        epochs=epochs,
        workers=workers,
        device=device,
        vectors=vectors,
        context=context,
    )
    joined = _joined(model, _platform(_stated(given)), out, options, is_quiet=json)
    if json:
        from fedner.cli.output import show_json

        show_json({"tagger": str(out), **joined.as_dict()})
        return
    _show(out, joined)


def _stated(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def _read_as(reading: Reading) -> dict[str, Any]:
    """Return the options of reading as a platform's settings have them."""
    source = reading.options.patients
    patients = None
    if source is not None:
        file = None if source.file is None else str(source.file)
        patients = _stated({"file": file, "column": source.column, "pattern": source.pattern})
    return {
        "format": reading.format,
        "lenient": reading.lenient,
        "options": dict(reading.options.own),
        "encoding": reading.options.encoding,
        "patients": patients,
    }


def _platform(given: dict[str, Any]) -> "PlatformEntry":
    """Return the platform's settings, checked as those of a federation file are."""
    from fedner.runs.checks import checked

    tables = {"training": {"rounds": 1}, "platforms": [given]}
    return checked(tables, Path.cwd(), "join").platforms[0]


def _joined(
    model: Path, platform: "PlatformEntry", out: Path, options: "JoinOptions", *, is_quiet: bool
) -> "Joined":
    """Join with a bar that shows how far it is; Ctrl-C stops cleanly and says how to go on."""
    from fedner.cli.join_progress import JoinBar
    from fedner.runs.joining.join import join as join_platform

    try:
        if is_quiet:
            return join_platform(model, platform, out, options)[0]
        with JoinBar() as bar:
            return join_platform(model, platform, out, options, progress=bar.callbacks())[0]
    except KeyboardInterrupt:
        typer.echo(
            f"stopped; finished trainings are kept in {out}: the same command goes on", err=True
        )
        raise typer.Exit(INTERRUPTED) from None


def _show(out: Path, joined: "Joined") -> None:
    from fedner.cli.output import console, show_place, table

    for warning in (joined.zeros, *joined.warnings):
        if warning:
            console.print(warning, style="bold red")
    if joined.left_out:
        console.print(f"left out of training and test: {joined.left_out}")
    _show_selection(joined)
    if joined.results:
        _show_results(joined)
    else:
        console.print("no test part (--test 0): nobody knows how good the tagger is")
    if joined.worth:
        rows = [
            (each.sentences, _percent(each.local_f1), _percent(each.joined_f1), each.words())
            for each in joined.worth
        ]
        columns = ("own sentences", "local-only", "joined", "joining is worth")
        console.print(table("What joining is worth in own sentences", columns, rows))
        console.print(joined.worth_words())
    received = joined.received
    console.print(
        f"received: {received['title']} ({received['digest'][:12]}...), "
        f"{received['numbers']:,} numbers; sent: nothing"
    )
    console.print(received["privacy"])
    show_place("tagger:", out, f" ({joined.kept})")


def _show_selection(joined: "Joined") -> None:
    from fedner.cli.output import console, table

    choice = joined.choice
    settings = {
        "joined": choice.joined.setting.words(),
        "local-only": f"{choice.local.arm} head, {choice.local.setting.words()}",
        "average": "the mean of both",
    }
    rows = [
        (f"{name} (kept)" if name == joined.kept else name, settings[name], _percent(score))
        for name, score in choice.selection_f1.items()
    ]
    title = "Chosen on three folds (selection scores, not a result)"
    console.print(table(title, ("method", "setting", "selection score"), rows))


def _show_results(joined: "Joined") -> None:
    from fedner.cli.output import console, table
    from fedner.runs.report.card import spread

    rows = [
        (f"{name} (kept)" if name == joined.kept else name, spread(each.intervals.strict),
         spread(each.intervals.relaxed))
        for name, each in joined.results.items()
    ]  # fmt: skip
    title = f"{joined.name} on its own test part of {joined.num_test:,} sentences"
    console.print(table(title, ("method", "strict F1", "relaxed F1"), rows))
    if joined.gain is not None:
        gain = spread(joined.gain.difference, "+")
        console.print(f"against local-only: {gain} points of strict F1")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
