"""`fedner federation`: what the coordinator of a federation across machines does."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedner.cli import federation_runs, trial
from fedner.cli.arguments import AsJson
from fedner.cli.federation_runs import HOME as _HOME
from fedner.cli.federation_runs import Home
from fedner.cli.identity_view import require_flare

if TYPE_CHECKING:
    from fedner.runs.deployment.approvals import Member

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
Days = Annotated[
    int, typer.Option("--days", min=1, max=3650, help="How long certificates are valid.")
]
PlatformArgument = Annotated[str, typer.Argument(metavar="NAME", help="The platform.")]


@app.callback()
def group() -> None:
    """Coordinate a federation across machines: who takes part, and what they train."""
    require_flare()


@app.command()
def create(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="A study file.")],
    host: Annotated[
        str, typer.Option("--host", help="The server's host name, as platforms reach it.")
    ],
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Its port.")] = 8002,
    home: Home = _HOME,
    name: Annotated[
        str | None, typer.Option("--name", help="The federation's name; default: the title.")
    ] = None,
    server_home: Annotated[
        Path | None,
        typer.Option(
            "--server-home",
            metavar="FOLDER",
            help="Make the server's home here as well. A server on another machine requests its "
            "own: fedner server request.",
        ),
    ] = None,
    days: Days = 365,
    json: AsJson = False,
) -> None:
    """Create a federation: its study, its certificate authority, the server's kit.

    Anyone who can read the folder can approve platforms: let nobody else read it.
    """
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.creation import create_with_server
    from fedner.runs.deployment.pins import spoken
    from fedner.runs.study_files import read_study
    from fedner.runs.sums import sum_warnings

    asked = read_study(study)
    made = create_with_server(
        home, asked, host=host, port=port, name=name, server=server_home, days=days
    )
    if json:
        show_json(made)
        return
    show_place("federation", made.name, f", server {host}:{port}")
    show_place("study", made.study)
    show_place("authority", spoken(made.authority))
    show_place("written to", home)
    for warning in sum_warnings(asked):
        typer.echo(f"warning: {warning}")
    if server_home is None:
        typer.echo(f"next, on {host}: fedner server request {host}")
    else:
        show_place("server's home:", server_home)
        typer.echo(f"next: fedner server start --home {server_home}")
    typer.echo(f"platforms ask with: fedner platform request NAME   ({', '.join(made.platforms)})")


@app.command()
def approve(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="The file that was sent.")],
    home: Home = _HOME,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Default: NAME.approval.json.")
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(
            "--fingerprint",
            help="The fingerprint that the sender read to you: no other key is approved.",
        ),
    ] = None,
    days: Days = 365,
    json: AsJson = False,
) -> None:
    """Approve the request of a platform or a server, and write the file to send back.

    If the key is already known, this renews the certificate.
    """
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.creation import approve_file

    done = approve_file(home, request, out=out, fingerprint=fingerprint, days=days)
    if json:
        show_json(done)
        return
    show_place(f"approved the {done.kind}", done.name, f" until {done.expires}")
    show_place("fingerprint", done.fingerprint)
    show_place("written to", done.approval)
    typer.echo("compare the fingerprint with the sender by telephone before you send it back")


@app.command()
def members(home: Home = _HOME, json: AsJson = False) -> None:
    """Show all who were approved: fingerprints, when certificates end, who was removed."""
    from fedner.cli.output import console, show_json, table
    from fedner.runs.deployment.expiry import expiry_warning
    from fedner.runs.deployment.federation import read_federation
    from fedner.runs.deployment.homes import FederationHome

    record = read_federation(FederationHome(home))
    if json:
        shown = [_member_json(each) for each in record.members]
        place = {"host": record.host, "port": record.port}
        show_json({"name": record.name, **place, "study": record.study_digest, "members": shown})
        return
    rows = [(each.name, each.kind, _ends(each), each.fingerprint[:16]) for each in record.members]
    console.print(table(record.name, ("name", "kind", "certificate ends", "fingerprint"), rows))
    for each in record.members:
        renewal = _RENEWALS[each.kind]
        if each.removed is None and (said := expiry_warning(each.name, each.expires, renewal)):
            typer.echo(f"warning: {said}")


_RENEWALS = {
    "coordinator": "fedner federation renew",
    "server": "fedner server request HOST",
    "watchdog": "fedner server request HOST",
    "platform": "fedner platform request NAME",
}


def _ends(member: "Member") -> str:
    from fedner.runs.deployment.expiry import expiry

    if member.removed is not None:
        return f"removed {member.removed:%Y-%m-%d}"
    return expiry(member.expires).words


def _member_json(member: "Member") -> dict[str, Any]:
    from fedner.runs.deployment.expiry import expiry

    return {**member.model_dump(mode="json"), "days_left": expiry(member.expires).days}


@app.command()
def renew(home: Home = _HOME, days: Days = 365, json: AsJson = False) -> None:
    """Renew the coordinator's own certificate; all others request theirs."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.federation import renew_coordinator
    from fedner.runs.deployment.homes import FederationHome

    member = renew_coordinator(FederationHome(home), days)
    if json:
        show_json(_member_json(member))
    else:
        show_place("renewed", member.name, f" until {member.expires:%Y-%m-%d}")


@app.command()
def roster(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.")],
    home: Home = _HOME,
    json: AsJson = False,
) -> None:
    """Write all who were approved, signed: platforms compare it with what they pinned."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.approvals import write_letter
    from fedner.runs.deployment.federation import signed_roster
    from fedner.runs.deployment.homes import FederationHome

    written = signed_roster(FederationHome(home))
    write_letter(out, written)
    if json:
        names = [each.name for each in written.members if each.removed is None]
        show_json({"federation": written.federation, "roster": out, "members": names})
    else:
        show_place("written to", out)


@app.command()
def update(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The new study file.")],
    home: Home = _HOME,
    json: AsJson = False,
) -> None:
    """Give the federation another study, such as one with a further platform; all keys stay."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.federation import replace_study
    from fedner.runs.deployment.homes import FederationHome
    from fedner.runs.study_files import read_study

    given = read_study(study)
    record = replace_study(FederationHome(home), given)
    known = {each.name for each in record.members}
    missing = [name for name in given.names if name not in known]
    if json:
        show_json({"study": given.digest, "not_approved": missing})
        return
    show_place("study", given.digest)
    if missing:
        typer.echo(f"not approved yet: {', '.join(missing)} (fedner platform request NAME)")


@app.command()
def remove(name: PlatformArgument, home: Home = _HOME, json: AsJson = False) -> None:
    """Remove a platform: the server refuses its certificate from now on."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.homes import FederationHome
    from fedner.runs.deployment.removal import remove_platform

    remove_platform(FederationHome(home), name)
    if json:
        show_json({"name": name, "removed": True})
    else:
        show_place("removed", name, "; the server refuses it")


@app.command()
def restore(name: PlatformArgument, home: Home = _HOME, json: AsJson = False) -> None:
    """Let a removed platform take part again."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.homes import FederationHome
    from fedner.runs.deployment.removal import restore_platform

    restore_platform(FederationHome(home), name)
    if json:
        show_json({"name": name, "removed": False})
    else:
        show_place("restored", name, "; the server admits it")


app.command("train")(federation_runs.train)
app.command("status")(federation_runs.status)
app.command("stop")(federation_runs.stop)
app.command("resume")(federation_runs.resume)
app.command("fetch")(federation_runs.fetch)
app.command("trial")(trial.trial)
