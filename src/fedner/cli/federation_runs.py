"""`fedner federation train`, `status`, `stop`, `resume`, `fetch`: runs across machines."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedner.cli.arguments import AsJson
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.runs.deployment.fetching import Fetched
    from fedner.runs.deployment.running import Started
    from fedner.runs.deployment.standing import RunState

Home = Annotated[Path, typer.Option("--home", metavar="FOLDER", help="The coordinator's folder.")]
HOME = Path("federation")
Detach = Annotated[
    bool, typer.Option("--detach", help="Return as soon as the run is submitted; do not follow it.")
]
Run = Annotated[
    str | None, typer.Option("--run", metavar="NAME", help="The run; default: the newest.")
]


def train(
    study: Annotated[
        Path | None,
        typer.Argument(metavar="[STUDY]", help="A study file, which must be the federation's."),
    ] = None,
    home: Home = HOME,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="NAME", help="The run's name; default: a new name."),
    ] = None,
    detach: Detach = False,
    json: AsJson = False,
) -> None:
    """Train the federation's study, and follow it like a local run.

    The run is on the server: Ctrl-C ends only the display, not the training, and this machine may
    be switched off. `stop` ends the run.
    """
    from fedner.runs.deployment.homes import FederationHome
    from fedner.runs.deployment.running import require_federations_study, start_run
    from fedner.runs.study_files import read_study

    place = FederationHome(home)
    if study is not None:
        require_federations_study(place, read_study(study))
    started = start_run(place, run)
    if started.before and not json:
        typer.echo(f"run {started.before} was not finished; this is a new one, from the beginning")
    _go_on(home, started, detach=detach, as_json=json)


def resume(
    home: Home = HOME, run: Run = None, detach: Detach = False, json: AsJson = False
) -> None:
    """Go on with a run that was stopped or failed, from its newest stored round."""
    from fedner.runs.deployment.homes import FederationHome
    from fedner.runs.deployment.running import resume_run

    _go_on(home, resume_run(FederationHome(home), run), detach=detach, as_json=json)


def _go_on(home: Path, started: "Started", *, detach: bool, as_json: bool) -> None:
    from fedner.cli.output import show_json, show_place

    if detach:
        if as_json:
            show_json({"run": started.run, "job": started.job})
        else:
            show_place("submitted run", started.run)
            typer.echo("follow it: fedner federation status --follow")
        return
    if not as_json:
        show_place("run", started.run, "; Ctrl-C ends the display, not the training")
        _show_estimate(home)
    _follow_to_the_end(home, started.run, as_json=as_json)


def _show_estimate(home: Path) -> None:
    """Say how long messages will be on their way, by the link from here to the server."""
    from fedner.runs.deployment.federation import read_federation_study
    from fedner.runs.deployment.homes import FederationHome
    from fedner.runs.deployment.link import estimate, measure_link
    from fedner.runs.deployment.sessions import coordinator_session

    place = FederationHome(home)
    try:
        with coordinator_session(place) as session:
            link = measure_link(session)
        found = estimate(read_federation_study(place), link)
    except FednerError as error:
        typer.echo(f"no estimate of the time: {error.message}")
        return
    typer.echo(f"link from here to the server: {link.words}")
    typer.echo(f"over such a link {found.words}")


def _follow_to_the_end(home: Path, run: str, *, as_json: bool) -> None:
    from fedner.cli.follow_view import follow_shown

    state = follow_shown(home, run, is_quiet=as_json)
    _require_not_refused(state)
    if state.phase != "done":
        raise FednerError(
            state.sentence,
            "Once the cause is fixed, go on with: fedner federation resume",
        )
    _show_done(home, state, as_json=as_json)


def _require_not_refused(state: "RunState") -> None:
    """Say who refuses a run; the watchdog has ended it, so that nobody is asked again.

    Raises:
        FednerError: It is refused.
    """
    if state.phase != "refused":
        return
    reasons = "; ".join(
        f"{name}: {', '.join(words)}" for name, words in sorted(state.refusals.items())
    )
    raise FednerError(
        f"run {state.run} was refused by {reasons}",
        "Ask the platform, then go on: fedner federation resume; or change the study (fedner "
        "federation update) and train anew.",
    )


def _show_done(home: Path, state: "RunState", *, as_json: bool) -> None:
    from fedner.cli.follow_view import results_json, show_results, state_json
    from fedner.cli.output import show_json
    from fedner.runs.deployment.fetching import fetch

    fetched = fetch(home, state.run)
    if as_json:
        found = {"folder": str(fetched.folder), "platforms": results_json(fetched)}
        show_json({**state_json(state), **found})
        return
    show_results(fetched)


def status(
    home: Home = HOME,
    run: Run = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow the run until it is over.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show who is connected, when certificates end, and the state of the newest run."""
    from fedner.cli.follow_view import show_state, state_json
    from fedner.cli.output import console, show_json, table
    from fedner.runs.deployment.homes import FederationHome
    from fedner.runs.deployment.running import overview

    found = overview(FederationHome(home), run)
    state = found.state
    if follow:
        if state is None:
            raise FednerError(
                "this federation has no run yet", "Begin one: fedner federation train"
            )
        _follow_to_the_end(home, state.run, as_json=json)
        return
    if json:
        members: list[dict[str, Any]] = [
            {"name": each.name, "connected": each.connected, "expires": each.expires}
            for each in found.members
        ]
        shown = None if state is None else state_json(state)
        show_json(
            {"federation": found.name, "study": found.study, "members": members, "run": shown}
        )
        return
    rows = [(each.name, each.standing, each.expires) for each in found.members]
    console.print(table(found.name, ("member", "", "certificate ends"), rows))
    if state is None:
        typer.echo("no run yet: fedner federation train")
        return
    show_state(state)


def stop(home: Home = HOME, run: Run = None, json: AsJson = False) -> None:
    """End a run; the server's watchdog leaves it alone until `resume`."""
    from fedner.cli.follow_view import state_json
    from fedner.cli.output import show_json
    from fedner.runs.deployment.homes import FederationHome
    from fedner.runs.deployment.running import stop_run

    state = stop_run(FederationHome(home), run)
    if json:
        show_json(state_json(state))
    else:
        typer.echo(f"{state.sentence}, after round {state.round:,} of {state.rounds:,}")
        typer.echo("go on with it: fedner federation resume")


def fetch(
    home: Annotated[
        Path,
        typer.Option(
            "--home", metavar="FOLDER", help="The coordinator's folder, or a platform's own home."
        ),
    ] = HOME,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="NAME", help="The run; default: the newest finished one."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Default: within the home.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Fetch the records of a run, and the model if the study releases it; sends nothing.

    With the home of a platform, or of a newcomer that the study names: only the model.
    """
    from fedner.cli.output import show_json
    from fedner.runs.deployment.fetching import fetch as fetch_run

    fetched = fetch_run(home, run, out)
    if json:
        show_json({**_fetched_json(fetched)})
    else:
        _show_fetched(fetched)


def _fetched_json(fetched: "Fetched") -> dict[str, Any]:
    return {
        "run": fetched.run,
        "folder": fetched.folder,
        "files": fetched.files,
        "model": fetched.model,
        "study": fetched.study,
        "no_model": fetched.no_model,
    }


def _show_fetched(fetched: "Fetched") -> None:
    from fedner.cli.follow_view import show_results
    from fedner.cli.output import show_place
    from fedner.runs.deployment.serving import REPORTS

    show_place("run", fetched.run)
    if REPORTS in fetched.files:
        show_results(fetched)
    elif fetched.model is None:
        show_place("written to", fetched.folder)
    if fetched.model is None:
        typer.echo(f"no model: {fetched.no_model}")
        return
    show_place("model:", fetched.model, f" (study {fetched.study[:16]})")
    typer.echo(f"use it: fedner predict {fetched.model} TEXTS; with own types: fedner join")
