"""`fedner adapt`: a new platform joins a finished run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedner.cli import label_maps
from fedner.cli.arguments import AsJson
from fedner.cli.inputs import CliSentences, CliUnit
from fedner.cli.label_maps import LabelMap

if TYPE_CHECKING:
    from fedner.runs.adaptation import Adapted
    from fedner.settings import PlatformEntry, Settings


FinishedRun = Annotated[Path, typer.Argument(metavar="RUN", help="A finished run.")]
Data = Annotated[
    str, typer.Option("--data", help="The new platform's data: a path, or synthetic:NAME.")
]
Out = Annotated[Path, typer.Option("--out", help="The folder for its tagger.")]
Labels = Annotated[
    str | None,
    typer.Option("--labels", help="The types that it annotates, e.g. ADE,Drug; default: all."),
]
Name = Annotated[str, typer.Option("--name", help="What to call it.")]
TuneShared = Annotated[
    bool, typer.Option("--tune-shared", help="Also train its copy of the shared module.")
]
Format = Annotated[str, typer.Option("--format", help="The format of the data.")]
Lenient = Annotated[bool, typer.Option("--lenient", help="Skip and count what cannot be placed.")]
Sentences = Annotated[
    CliSentences | None, typer.Option("--sentences", help="Where sentences come from.")
]
By = Annotated[
    CliUnit,
    typer.Option(
        "--by", metavar="UNIT", help="What stays together: sentence, document or patient."
    ),
]
TestShare = Annotated[float, typer.Option("--test", help="The share of the test part.")]
NumSentences = Annotated[int, typer.Option("--num-sentences", help="The size of synthetic data.")]
Epochs = Annotated[int, typer.Option("--epochs", help="Epochs at most; 1 or more.")]


def adapt(
    run: FinishedRun,
    data: Data,
    out: Out,
    labels: Labels = None,
    label_map: LabelMap = None,
    name: Name = "new-platform",
    tune_shared: TuneShared = False,
    format: Format = "auto",
    lenient: Lenient = False,
    sentences: Sentences = None,
    by: By = "sentence",
    test: TestShare = 0.2,
    num_sentences: NumSentences = 500,
    epochs: Epochs = 60,
    json: AsJson = False,
) -> None:
    """Train a new platform's private part on the shared module of RUN; nothing is transmitted."""
    from fedner.runs.adaptation import adapt as adapt_platform
    from fedner.runs.folder import open_run

    wanted = None if labels is None else [label.strip() for label in labels.split(",")]
    table = {
        "name": name,
        "data": data,
        "format": format,
        "lenient": lenient,
        "labels": wanted,
        "label_map": label_maps.parse(label_map),
        "sentences": sentences,
        "num_sentences": num_sentences,
        "split": {"by": by, "test": test},
    }
    given = {key: value for key, value in table.items() if value is not None}
    folder = open_run(run)
    platform = _platform(folder.settings(), given)
    adapted = adapt_platform(folder, platform, out, tune_shared=tune_shared, epochs=epochs)
    if json:
        from fedner.cli.output import show_json

        show_json({"tagger": str(out), "platform": name, **adapted.as_dict()})
        return
    _show(name, out, adapted)


def _platform(settings: "Settings", given: dict[str, Any]) -> "PlatformEntry":
    """Return the new platform's settings, checked as those of a federation file are."""
    from fedner.runs.checks import checked

    stated = settings.model_dump(mode="json")
    return checked({**stated, "platforms": [given]}, Path.cwd(), "adapt").platforms[0]


def _show(name: str, out: Path, adapted: "Adapted") -> None:
    from fedner.cli.output import console, show_place, table

    for warning in (adapted.zeros, *adapted.warnings):
        if warning:
            console.print(warning, style="bold red")
    if adapted.left_out:
        console.print(f"left out of training and test: {adapted.left_out}")
    scores = adapted.outcome.scores
    both = [(label, scores.strict[label].f1, scores.relaxed[label].f1) for label in scores.labels]
    both.append(("all (micro)", scores.strict_micro.f1, scores.relaxed_micro.f1))
    rows = [(label, f"{100 * one:.1f}", f"{100 * other:.1f}") for label, one, other in both]
    title = f"{name} on its own test part, after {adapted.epochs} epochs"
    console.print(table(title, ("type", "strict F1", "relaxed F1"), rows))
    console.print(
        f"trained {adapted.trained:,} numbers; {adapted.kept:,} shared "
        "ones are as the federation left them; nothing was transmitted"
    )
    show_place("tagger:", out)
