"""`fedner demo`: two platforms train together, a third joins; built-in data, nothing to set up."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedner.cli.arguments import AsJson

if TYPE_CHECKING:
    from fedner.runs.demonstration import Demonstration
    from fedner.runs.joining.record import Joined


def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The folder; default: a new one. Name a stopped demo's folder to go on."
        ),
    ] = None,
    num_sentences: Annotated[
        int | None,
        typer.Option("--num-sentences", help="The size of each of the two platforms."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", help="The number of rounds of their joint training.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Epochs of the newcomer, for a shorter demo.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The seed of every random choice.")] = 1,
    workers: Annotated[
        int, typer.Option("--workers", help="How many trainings of the newcomer run side by side.")
    ] = 2,
    json: AsJson = False,
) -> None:
    """Let two synthetic platforms train together, and a third join with 25 sentences."""
    from fedner.cli.output import show_json
    from fedner.runs.demonstration import demonstration

    folder = _free(Path("runs") / "demo") if out is None else out
    shown = demonstration(
        folder,
        seed,
        num_sentences=num_sentences,
        rounds=rounds,
        epochs=epochs,
        workers=workers,
    )
    joined = _run(shown, is_quiet=json)
    if json:
        found = {"run": str(shown.together.path), "tagger": str(shown.tagger)}
        show_json({**found, **joined.as_dict()})
        return
    _show_result(joined)
    _show_places(shown)


def _run(shown: "Demonstration", *, is_quiet: bool) -> "Joined":
    """Run both halves with bars; Ctrl-C stops cleanly and says how to go on."""
    from fedner.cli.join_progress import JoinBar
    from fedner.cli.output import console
    from fedner.cli.progress import LiveProgress
    from fedner.cli.train import INTERRUPTED
    from fedner.runs.demonstration import let_join, train_together

    try:
        if is_quiet:
            train_together(shown)
            return let_join(shown)
        _show_platforms(shown)
        with LiveProgress() as live:
            train_together(shown, live.callbacks())
        console.print()
        _show_newcomer(shown)
        with JoinBar() as bar:
            return let_join(shown, bar.callbacks())
    except KeyboardInterrupt:
        typer.echo(f"stopped; the same options with --out {shown.folder} go on", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _show_platforms(shown: "Demonstration") -> None:
    from fedner.cli.output import console
    from fedner.cli.results_view import SYNTHETIC_NOTE

    console.print(SYNTHETIC_NOTE, style="bold")
    console.print("1. Two platforms that cannot share their texts train one tagger together:")
    for platform in shown.settings.platforms:
        held = f"{platform.num_sentences:,} sentences"
        console.print(f"   {platform.name}: {held}, {_described(platform.name)}", soft_wrap=True)


def _show_newcomer(shown: "Demonstration") -> None:
    from fedner.cli.output import console

    name = shown.newcomer.name
    console.print("2. A third arrives, receives their model and fine-tunes it locally:")
    held = f"{shown.options.own} annotated sentences"
    console.print(f"   {name}: {held}, {_described(name)}", soft_wrap=True)


def _show_result(joined: "Joined") -> None:
    """Print alone against joined, and what was sent."""
    from fedner.cli.output import console, table
    from fedner.runs.joining.record import RECEIVED
    from fedner.runs.report.card import spread

    words = {
        "local-only": f"alone, with its {joined.num_train:,} sentences",
        RECEIVED: "the received model, untouched",
        "joined": f"joined: received, then its {joined.num_train:,} sentences",
        "average": "the mean of alone and joined",
    }
    rows = [
        (f"{text} (kept)" if method == joined.kept else text, spread(each.intervals.strict))
        for method, text in words.items()
        if (each := joined.results.get(method)) is not None
    ]
    title = f"{joined.name}: strict F1 on {joined.num_test:,} test sentences (synthetic data)"
    console.print(table(title, ("tagger", "F1 (95 % interval)"), rows))
    if joined.zeros:
        console.print(joined.zeros, style="bold red")
    verdict = "Alone was kept: joining gained nothing here."
    if joined.gain is not None:
        gained = spread(joined.gain.difference, "+")
        verdict = f"The kept tagger gains {gained} points of F1 over alone."
    console.print(verdict, style="bold")
    console.print("Sent by the newcomer: nothing.", style="bold")
    console.print(joined.received["privacy"])


def _show_places(shown: "Demonstration") -> None:
    from fedner.cli.output import show_place

    show_place("the two platforms:", shown.together.report, " (opens offline)")
    show_place("the shared model:", shown.model)
    show_place("the newcomer's tagger:", shown.tagger, " (MODEL_CARD.md says how it was chosen)")
    show_place("next, four times the sentences:", shown.next_command(4 * (shown.options.own or 1)))


def _described(name: str) -> str:
    from fedner.corpus.synthetic import PLATFORMS

    platform = PLATFORMS[name]
    return f"{platform.description}; annotates {', '.join(platform.labels)}"


def _free(path: Path) -> Path:
    """Return the first of demo, demo-2, demo-3 ... that is not there yet."""
    number = 1
    candidate = path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
