"""`fedner check`: everything that training would check, and what it would take; no training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedner.cli.arguments import AsJson, ChangedKeys, InitialModel, OwnSettings

if TYPE_CHECKING:
    from fedner.runs.readiness import Readiness


def check(
    source: Annotated[
        Path,
        typer.Argument(metavar="FEDERATION", help="A federation file; with --platform a study."),
    ],
    platforms: OwnSettings = None,
    initial: InitialModel = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RUN", help="The run folder that training would write."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Skip the trial round: no time, memory or context features."),
    ] = False,
    assignments: ChangedKeys = None,
    json: AsJson = False,
) -> None:
    """Check a federation and its data as training would, and estimate the cost; trains nothing."""
    from fedner.cli.check_view import show
    from fedner.cli.output import console, show_json
    from fedner.cli.train import resolve
    from fedner.runs.readiness import check_run

    settings, folder = resolve(
        source, tuple(platforms or ()), initial, out, tuple(assignments or ()), resume=False
    )

    def say(line: str) -> None:
        if not json:
            console.print(line, style="dim")

    found = check_run(settings, folder, say, source=str(source), has_trial=not quick)
    if json:
        show_json(as_json(found))
    else:
        show(found, f"fedner train {source}")


def as_json(found: "Readiness") -> dict[str, object]:
    """Return what was found for machines: only a federation that can train gets so far."""
    from dataclasses import asdict

    totals = {"bytes_of_link": found.traffic.num_bytes}
    if found.work is not None:
        totals["seconds"] = round(found.work.seconds)
    return {"ready": True, **totals, **asdict(found)}
