"""`fedner train`: a federation from one file, or a study and its platforms, into a run folder."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedner.cli.arguments import AsJson, ChangedKeys, InitialModel, OwnSettings
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.runs.records import RunScores
    from fedner.settings import Settings

INTERRUPTED = 130


def train(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FEDERATION",
            help="A federation file; with --platform a study; with --resume a run folder.",
        ),
    ],
    platforms: OwnSettings = None,
    initial: InitialModel = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RUN", help="The run folder; default: runs/TITLE."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    assignments: ChangedKeys = None,
    json: AsJson = False,
) -> None:
    """Train a federation on this machine: check its file, then rounds, scores and a report."""
    from fedner.cli.output import show_json

    settings, folder = resolve(
        source, tuple(platforms or ()), initial, out, tuple(assignments or ()), resume=resume
    )
    scores = train_shown(settings, folder, resume=resume, is_quiet=json)
    if json:
        show_json({"run": str(folder), **verdicts(folder, scores), "scores": scores.as_dict()})
        return
    show_finished(folder, scores)


def resolve(
    source: Path,
    platforms: tuple[Path, ...],
    initial: Path | None,
    out: Path | None,
    assignments: tuple[str, ...],
    *,
    resume: bool,
) -> "tuple[Settings, Path]":
    """Return the settings and the folder of the run."""
    from fedner.runs.checks import read_settings
    from fedner.runs.folder import open_run
    from fedner.runs.study_files import read_halves

    if source.is_dir():
        if not resume or assignments or platforms or initial is not None:
            raise FednerError(
                f"{source} is a folder",
                "Name a federation file; a run goes on with `fedner train RUN --resume` alone.",
            )
        return open_run(source).settings(), source
    if platforms:
        settings = read_halves(source, platforms, assignments, initial)
    elif initial is not None:
        raise FednerError(
            "--initial is for a study with --platform FILE",
            f"For a federation file use --set 'model.initial=\"{initial}\"'.",
        )
    else:
        settings = read_settings(source, assignments)
    name = re.sub(r"[^\w.-]+", "-", settings.title).strip("-.") or "run"
    return settings, Path("runs") / name if out is None else out


def train_shown(
    settings: "Settings", folder: Path, *, resume: bool = False, is_quiet: bool = False
) -> "RunScores":
    """Train a run with live progress; Ctrl-C stops it cleanly and says how to go on."""
    from fedner.cli.progress import LiveProgress
    from fedner.runs.folder import SETTINGS, resume_command
    from fedner.runs.simulation import train_run

    if is_quiet:
        return train_run(settings, folder, resume=resume)
    with LiveProgress() as live:
        try:
            return train_run(settings, folder, resume=resume, progress=live.callbacks())
        except KeyboardInterrupt:
            stopped_at = live.round
    if (folder / SETTINGS).is_file():
        typer.echo(
            f"stopped after round {stopped_at:,}; go on with: {resume_command(folder)}", err=True
        )
    else:  # stopped while the data were read: there is no run to resume
        typer.echo(f"stopped before the run began; {folder} holds nothing to go on with", err=True)
    raise typer.Exit(INTERRUPTED)


def verdicts(folder: Path, scores: "RunScores") -> dict[str, str]:
    """Return what stands on top of a finished run, for machines."""
    from fedner.runs.folder import RunFolder
    from fedner.runs.verdict import privacy_sentence, verdict_sentence, zero_sentence

    return {
        "verdict": verdict_sentence(scores),
        "zeros": zero_sentence(scores.by_platform),
        "privacy": privacy_sentence(RunFolder(folder).privacy()),
    }


def show_finished(folder: Path, scores: "RunScores") -> None:
    """Print what a finished run came to: the verdict on top."""
    from fedner.cli import results_view
    from fedner.runs.folder import DISCLOSURE, RunFolder
    from fedner.runs.records import RunDisclosure

    run = RunFolder(folder)
    spent = run.privacy()
    results_view.show_verdict(scores, spent)
    results_view.show_scores(scores)
    results_view.show_spent(spent)
    results_view.show_disclosure(run.read_as(RunDisclosure, DISCLOSURE))
    results_view.show_places(folder, run.report, run.card)
