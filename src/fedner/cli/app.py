"""The `fedner` command: its groups, its version, and how errors reach people."""

import os
import sys
from contextlib import suppress
from typing import Annotated

import typer

from fedner.cli import (
    check,
    data,
    demo,
    embeddings,
    errors,
    export,
    failures,
    federation,
    init,
    join,
    models,
    platform,
    predict,
    privacy,
    redact,
    redaction,
    reproduce,
    runs,
    score,
    serve,
    server,
    study,
    suggest,
    train,
    watch,
)
from fedner.version import __version__

app = typer.Typer(
    name="fedner",
    help="Federated named-entity recognition: train together, every text stays on its platform.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_BEGIN, _RUNS, _TAGGERS, _DATA = "Train", "Look at runs", "Use taggers", "Data, models, privacy"
_ACROSS = "Across machines"
app.command("demo", rich_help_panel=_BEGIN)(demo.demo)
app.command("init", rich_help_panel=_BEGIN)(init.init)
app.command("check", rich_help_panel=_BEGIN)(check.check)
app.command("train", rich_help_panel=_BEGIN)(train.train)
app.add_typer(study.app, name="study", rich_help_panel=_BEGIN)
app.add_typer(federation.app, name="federation", rich_help_panel=_ACROSS)
app.add_typer(platform.app, name="platform", rich_help_panel=_ACROSS)
app.add_typer(server.app, name="server", rich_help_panel=_ACROSS)
app.command("reproduce", rich_help_panel=_BEGIN)(reproduce.reproduce)
app.command("watch", rich_help_panel=_RUNS)(watch.watch)
app.command("evaluate", rich_help_panel=_RUNS)(runs.evaluate)
app.command("compare", rich_help_panel=_RUNS)(runs.compare)
app.command("report", rich_help_panel=_RUNS)(runs.report)
app.command("errors", rich_help_panel=_RUNS)(errors.errors)
app.command("predict", rich_help_panel=_TAGGERS)(predict.predict)
app.command("suggest", rich_help_panel=_TAGGERS)(suggest.suggest)
app.command("redact", rich_help_panel=_TAGGERS)(redact.redact)
app.command("serve", rich_help_panel=_TAGGERS)(serve.serve)
app.add_typer(redaction.app, name="redaction", rich_help_panel=_TAGGERS)
app.command("export", rich_help_panel=_TAGGERS)(export.export)
app.command("join", rich_help_panel=_TAGGERS)(join.join)
app.command("score", rich_help_panel=_DATA)(score.score)
app.command("models", rich_help_panel=_DATA)(models.models)
app.add_typer(data.app, name="data", rich_help_panel=_DATA)
app.add_typer(embeddings.app, name="embeddings", rich_help_panel=_DATA)
app.add_typer(privacy.app, name="privacy", rich_help_panel=_DATA)


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
    """Federated named-entity recognition: train together, every text stays on its platform."""


def main() -> None:
    """Run the command line; an error that the user can fix exits with 2 and says how."""
    arguments = sys.argv[1:]
    as_json, debug = _wants("--json", arguments), _wants("--debug", arguments)
    if debug:
        # Accepted anywhere, so that it can simply be added at the end of a failed command.
        sys.argv = [sys.argv[0], *(word for word in arguments if word != "--debug")]
    try:
        code = _run(as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong.
        _drop_output()
        code = 0
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            raise
        code = _failed(failures.failure_of(error), as_json=as_json)
    sys.exit(code)


def _run(*, as_json: bool) -> int:
    """Run the command and return its exit code."""
    try:
        # Typer shows wrong usage in colours of its own; machines get it as any other error.
        code = app(standalone_mode=not as_json)
    except SystemExit as done:
        code = done.code
    if code == failures.INTERRUPTED and as_json:
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _wants(option: str, arguments: list[str]) -> bool:
    """Whether an option is among the arguments; what follows -- are none."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return option in arguments[:end]


def _failed(failure: failures.Failure, *, as_json: bool) -> int:
    try:
        failures.show_failure(failure, as_json=as_json)
    except OSError:  # a full disk behind standard output
        _drop_output()
        if as_json:
            failures.show_failure(failure, as_json=False)
    return failure.code


def _drop_output() -> None:
    """Let what is still to be printed go nowhere: Python would complain about it at the end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
