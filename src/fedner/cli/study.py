"""`fedner study`: the public half of a federation, and each platform's own half, as files."""

from pathlib import Path
from typing import Annotated

import typer

from fedner.cli.arguments import AsJson

PROBLEMS = 2

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def group() -> None:
    """The study that everyone knows, and the settings that each platform keeps to itself."""


@app.command()
def write(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION", help="A federation file.")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder for the files.")],
    json: AsJson = False,
) -> None:
    """Write study.toml and NAME/platform.toml from a federation file.

    Opens word vectors and encoder to compute their digests. Counts a public size that the file
    does not declare.
    """
    from fedner.cli.output import show_json, show_place
    from fedner.runs.checks import read_settings
    from fedner.runs.study_files import halves_of, write_halves

    halves = halves_of(read_settings(federation))
    paths = write_halves(halves, out)
    if json:
        written = [str(path) for path in paths]
        found = {"digest": halves.study.digest, "counted_sizes": list(halves.undeclared)}
        show_json({"written": written, **found})
        return
    for path in paths:
        show_place("written to", path)
    typer.echo(f"digest of the study: {halves.study.digest}")
    if halves.undeclared:
        typer.echo(
            f"public_size of {', '.join(halves.undeclared)} is the true size of the training part: "
            "round it in study.toml where that must not be known"
        )


@app.command()
def check(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="A study file.")],
    platforms: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PLATFORM]...", help="Files with platforms' own settings."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Print every problem of a study, and of platforms' own settings; exit with 2 if any.

    For a platform it checks files, digests of embeddings, types, ledger and policy, and reads
    the texts. It writes nothing and sends nothing.
    """
    from fedner.cli.output import show_json
    from fedner.runs.study_files import check_files
    from fedner.settings import SettingsError

    found, problems, warnings = check_files(study, platforms or ())
    if found is None or problems:
        raise SettingsError(str(study), problems)
    if json:
        show_json({"problems": [], "warnings": warnings, "digest": found.digest})
    else:
        for warning in warnings:
            typer.echo(f"warning: {warning}")
        typer.echo(f"no problem; digest of the study: {found.digest}")
