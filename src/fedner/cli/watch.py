"""`fedner watch`: a run as it grows: in the browser, as a table, as JSON or for TensorBoard."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedner.cli.arguments import AsJson
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.inference.service.settings import Token, WebSettings
    from fedner.runs.watch.source import Source

PORT = 8322


def watch(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run folder; or the home of a server, of a platform or of the coordinator.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option("--run", metavar="NAME", help="The run of a home; default: the newest."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print its state as a table, and stop.")
    ] = False,
    json: AsJson = False,
    tensorboard: Annotated[
        Path | None,
        typer.Option(
            "--tensorboard",
            metavar="FOLDER",
            help="Write event files for TensorBoard while the run goes on; no page.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host", help="The address of the page; any but this machine's own needs a token."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help=f"Default: {PORT}, or a free one."),
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            "--host-name", metavar="NAME", help="Another name of this machine. Repeatable."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="A file with the token that the page asks for."
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Watch a run live: loss, F1, bytes, epsilon, refusals, time left; a page on this machine."""
    if tensorboard is not None:
        _export(run, name, tensorboard, once=once, as_json=json)
        return
    from fedner.runs.watch.opening import open_source

    if once or json:
        _show_once(open_source(run, name), as_json=json)
        return
    settings = _page_settings(host, port, host_name or [], token_file)
    _serve(open_source(run, name), settings, is_free=port is None, opens=browser)


def _page_settings(
    host: str, port: int | None, names: list[str], token_file: Path | None
) -> "WebSettings":
    """Return where the page listens, and for whom."""
    _require_web()
    from fedner.inference.service.settings import WebSettings, read_token

    return WebSettings(host, PORT if port is None else port, read_token(token_file), tuple(names))


def _serve(source: "Source", settings: "WebSettings", *, is_free: bool, opens: bool) -> None:
    """Show the page until Ctrl-C or SIGTERM."""
    from dataclasses import replace

    from fedner.cli.output import show_place
    from fedner.inference.service.web import address_of, listen
    from fedner.inference.service.web import run as run_server
    from fedner.runs.watch.service import watch_application
    from fedner.runs.watch.watcher import Watcher

    try:
        listening = listen(settings)
    except FednerError:
        if not is_free:
            raise
        listening = listen(replace(settings, port=0))
    with listening, Watcher(source) as watcher:
        address = address_of(listening, settings.host)
        show_place("watch it at", address, _asks(settings.token))
        typer.echo("Ctrl-C ends the watching, not the training")
        if opens:
            import webbrowser

            webbrowser.open(address)
        run_server(watch_application(watcher, settings), settings, listening)


def _asks(token: "Token | None") -> str:
    return "" if token is None else " (the page asks for the token)"


def _require_web() -> None:
    """Say what to install where there is no server.

    Raises:
        FednerError: The extra is not installed.
    """
    from importlib.util import find_spec

    missing = [each for each in ("starlette", "uvicorn") if find_spec(each) is None]
    if missing:
        raise FednerError(
            f"the page needs {' and '.join(missing)}, which is not installed",
            "Install it: pip install 'fedner[serve]'; or look without a page: --once.",
        )


def _show_once(source: "Source", *, as_json: bool) -> None:
    from fedner.cli.output import show_json
    from fedner.cli.watch_view import show_snapshot
    from fedner.runs.watch.watcher import cost_all, read_all, state_json

    try:
        read_all(source)
        cost_all(source, newest_alone=True)
        shown = source.snapshot()
    finally:
        source.close()
    if as_json:
        stated = state_json(shown)
        del stated["problem"]  # it is raised here
        show_json(stated)
    else:
        show_snapshot(shown)


def _export(run: Path, name: str | None, folder: Path, *, once: bool, as_json: bool) -> None:
    """Write event files until the run is over, or once."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.watch.event_files import EventFiles
    from fedner.runs.watch.exporting import export
    from fedner.runs.watch.opening import open_source

    files = EventFiles(folder)
    source = open_source(run, name, files)
    if not as_json:
        show_place("look at it with: tensorboard --logdir", folder)
    try:
        shown = export(source, files, once=once)
    finally:
        source.close()
        files.close()
    if as_json:
        show_json({"folder": folder, "run": shown.run, "rounds": shown.round})
    else:
        typer.echo(f"written: {shown.round:,} rounds of {shown.run}, {shown.standing.phase}")
