"""The `fedner` command: its groups, its version, and how errors reach people."""

import sys
from typing import Annotated

import typer

from fedner import __version__
from fedner.cli import (
    adapt,
    data,
    demo,
    embeddings,
    export,
    init,
    models,
    predict,
    privacy,
    redact,
    runs,
    score,
    train,
)
from fedner.errors import FednerError

app = typer.Typer(
    name="fedner",
    help="Federated named-entity recognition: platforms train together, every text stays at home.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.add_typer(embeddings.app, name="embeddings")
app.add_typer(privacy.app, name="privacy")
app.command("demo")(demo.demo)
app.command("init")(init.init)
app.command("train")(train.train)
app.command("evaluate")(runs.evaluate)
app.command("compare")(runs.compare)
app.command("report")(runs.report)
app.command("errors")(runs.errors)
app.command("predict")(predict.predict)
app.command("redact")(redact.redact)
app.command("export")(export.export)
app.command("adapt")(adapt.adapt)
app.command("models")(models.models)
app.command("score")(score.score)

INTERRUPTED = 130
USER_ERROR = 2


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedner {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the trace of an error, not only its message.")
    ] = False,
) -> None:
    """Federated named-entity recognition: platforms train together, every text stays at home."""


def main() -> None:
    """Run the command line; an error that the user can mend exits with 2 and says how."""
    debug = "--debug" in sys.argv[1:]
    if debug:
        # Accepted anywhere, so that it can simply be added at the end of a failed command.
        sys.argv = [sys.argv[0], *(word for word in sys.argv[1:] if word != "--debug")]
    try:
        app()
    except FednerError as error:
        if debug:
            raise
        from fedner.cli.output import show_error

        show_error(error)
        sys.exit(USER_ERROR)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong.
        sys.stderr.close()
        sys.exit(0)
