"""`fedner platform`: what a hospital does to take part in a federation across machines."""

from pathlib import Path
from typing import Annotated

import typer

from fedner.cli import record
from fedner.cli.arguments import AsJson, AsLines
from fedner.cli.identity_view import require_flare

PROBLEMS = 2

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
Home = Annotated[
    Path | None,
    typer.Option("--home", metavar="FOLDER", help="The platform's folder; default: its name."),
]
NamedHome = Annotated[Path, typer.Option("--home", metavar="FOLDER", help="The platform's folder.")]
Own = Annotated[
    Path, typer.Option("--settings", metavar="FILE", help="The platform's own settings.")
]
app.command("record")(record.record)
OtherArgument = Annotated[str, typer.Argument(metavar="NAME", help="The other platform.")]


@app.callback()
def group() -> None:
    """Take part in a federation across machines; texts and keys stay here."""
    require_flare()


@app.command()
def request(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The platform's name in the study.")],
    home: Home = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Default: NAME.request.json.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Make the platform's key, and a request for its certificate; again: to renew it."""
    from fedner.cli.identity_view import write_request
    from fedner.runs.deployment.homes import PlatformHome
    from fedner.runs.deployment.taking_part import request_platform

    place = Path(name) if home is None else home
    write_request(request_platform(PlatformHome(place), name), place, out, as_json=json)


@app.command()
def install(
    approval: Annotated[Path, typer.Argument(metavar="APPROVAL", help="The file that came back.")],
    home: Home = None,
    authority: Annotated[
        str | None,
        typer.Option("--authority", help="The authority's fingerprint, as you were told it."),
    ] = None,
    accept_study: Annotated[
        bool,
        typer.Option("--accept-study", help="Take part in the study although it has changed."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Install what the coordinator sent back.

    An approval for another study than the installed one is refused, and what changed is shown;
    with --accept-study it is installed.
    """
    from fedner.cli.identity_view import show_installed
    from fedner.runs.deployment.approvals import read_approval
    from fedner.runs.deployment.homes import PlatformHome
    from fedner.runs.deployment.pins import parse_fingerprint
    from fedner.runs.deployment.taking_part import install_platform

    told = None if authority is None else parse_fingerprint(authority)
    place = Path(read_approval(approval, told).name) if home is None else home
    done, changes = install_platform(
        PlatformHome(place), approval, told, accepts_study=accept_study
    )
    next_step = f"fedner platform check --settings platform.toml --home {place}"
    show_installed(done, place, next_step, changes, as_json=json)


@app.command()
def show(home: NamedHome, json: AsJson = False) -> None:
    """Show this home's owner and fingerprint, when its certificate ends, and what is pinned."""
    from fedner.cli.identity_view import home_facts, show_facts
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.homes import PlatformHome
    from fedner.runs.deployment.pins import read_pins, spoken

    pins = read_pins(PlatformHome(home))
    facts = home_facts(PlatformHome(home))
    if json:
        show_json(facts | {"pins": pins})
        return
    show_facts(facts)
    for name, found in pins.items():
        show_place(f"pinned {name}:", spoken(found))


@app.command()
def pin(
    name: OtherArgument,
    fingerprint: Annotated[
        str,
        typer.Argument(
            metavar="FINGERPRINT", help="The fingerprint that the platform read to you."
        ),
    ],
    home: NamedHome,
    json: AsJson = False,
) -> None:
    """Pin the fingerprint that another platform told you: nobody else can take its name."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.homes import PlatformHome
    from fedner.runs.deployment.pins import parse_fingerprint
    from fedner.runs.deployment.pins import pin as pin_platform

    old = pin_platform(PlatformHome(home), name, fingerprint)
    if json:
        show_json({"name": name, "pinned": parse_fingerprint(fingerprint), "before": old})
        return
    show_place("pinned", name, "" if old is None else f"; before it was {old}")


@app.command()
def unpin(name: OtherArgument, home: NamedHome, json: AsJson = False) -> None:
    """Forget the fingerprint of another platform."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.homes import PlatformHome
    from fedner.runs.deployment.pins import unpin as unpin_platform

    unpin_platform(PlatformHome(home), name)
    if json:
        show_json({"name": name, "pinned": None})
        return
    show_place("not pinned any more:", name)


@app.command()
def check(
    settings: Own,
    home: Home = None,
    roster: Annotated[
        Path | None,
        typer.Option("--roster", metavar="FILE", help="A newer list of who takes part."),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Measure the link to the server, with random letters.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Check all that training needs; exit with 2 if anything has to be fixed.

    Looks at connection, certificate, clock, membership, data, labels, policy, pins and disk.
    Trains nothing and keeps nothing; sends only a TLS handshake and the question whether the
    server still admits this platform. With --link it also measures the speed of the link, and says
    how long the study's messages take over it.
    """
    from fedner.cli.output import show_json
    from fedner.runs.deployment.checks import check_platform
    from fedner.runs.deployment.homes import PlatformHome

    place = _home_for(settings) if home is None else home
    found = check_platform(PlatformHome(place), settings, roster, measures_link=link)
    is_fine = all(each.result != "problem" for each in found)
    if json:
        show_json({"ready": is_fine, "checks": found})
    else:
        for each in found:
            typer.echo(f"{each.result:8} {each.subject:12} {each.found}")
            if each.hint and each.result != "ok":
                typer.echo(f"{'':21} {each.hint}")
        typer.echo("ready to train" if is_fine else "not ready: fix the problems above")
    if not is_fine:
        raise typer.Exit(PROBLEMS)


@app.command()
def start(settings: Own, home: Home = None, json: AsLines = False) -> None:
    """Connect to the server and take part in what the policy accepts, until Ctrl-C or SIGTERM."""
    from fedner.runs.deployment.homes import PlatformHome
    from fedner.runs.deployment.starting import start_platform

    place = _home_for(settings) if home is None else home
    start_platform(PlatformHome(place), settings, as_json=json)


def _home_for(settings: Path) -> Path:
    from fedner.runs.platform_file import read_platform

    return Path(read_platform(settings).name)
