"""`fedner server`: the machine that platforms connect to."""

from pathlib import Path
from typing import Annotated

import typer

from fedner.cli.arguments import AsJson, AsLines
from fedner.cli.identity_view import require_flare

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
Home = Annotated[Path, typer.Option("--home", metavar="FOLDER", help="The server's folder.")]
_HOME = Path("server")


@app.callback()
def group() -> None:
    """Run the server of a federation across machines; it never sees a text."""
    require_flare()


@app.command()
def request(
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="This machine's name, as platforms reach it.")
    ],
    home: Home = _HOME,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Default: HOST.request.json.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Make the server's keys and a request for their certificates; run it again to renew them."""
    from fedner.cli.identity_view import write_request
    from fedner.runs.deployment.homes import ServerHome
    from fedner.runs.deployment.taking_part import request_server

    write_request(request_server(ServerHome(home), host), home, out, as_json=json)


@app.command()
def install(
    approval: Annotated[Path, typer.Argument(metavar="APPROVAL", help="The file that came back.")],
    home: Home = _HOME,
    authority: Annotated[
        str | None,
        typer.Option("--authority", help="The authority's fingerprint, as you were told it."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Install what the coordinator sent back."""
    from fedner.cli.identity_view import show_installed
    from fedner.runs.deployment.homes import ServerHome
    from fedner.runs.deployment.pins import parse_fingerprint
    from fedner.runs.deployment.taking_part import install_server

    told = None if authority is None else parse_fingerprint(authority)
    done = install_server(ServerHome(home), approval, told)
    show_installed(done, home, f"fedner server start --home {home}", as_json=json)


@app.command()
def show(home: Home = _HOME, json: AsJson = False) -> None:
    """Show this home's owner and fingerprints, and when its certificate ends."""
    from fedner.cli.identity_view import home_facts, show_facts
    from fedner.cli.output import show_json
    from fedner.runs.deployment.homes import ServerHome

    facts = home_facts(ServerHome(home))
    if json:
        show_json(facts)
    else:
        show_facts(facts)


@app.command()
def start(home: Home = _HOME, json: AsLines = False) -> None:
    """Run the server, and the watchdog beside it, until Ctrl-C or SIGTERM."""
    from fedner.runs.deployment.homes import ServerHome
    from fedner.runs.deployment.starting import start_server

    start_server(ServerHome(home), as_json=json)
