"""How a run across machines is shown: followed like a local one, or how it stands."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from fedner.cli.progress import LiveProgress
    from fedner.federated.record import RoundRecord
    from fedner.runs.deployment.fetching import Fetched
    from fedner.runs.deployment.standing import RunState
    from fedner.settings import Study


class _Followed:
    """Passes what is heard of a run on to the screen."""

    def __init__(self, live: "LiveProgress", study: "Study") -> None:
        self._live = live
        self._study = study
        self._said = ""
        self._begun = False

    def on_state(self, state: "RunState") -> None:
        """Say how the run stands, when that has changed."""
        if state.phase == "running" or state.round:
            self._begin()
        self._say(state.sentence)

    def on_round(self, record: "RoundRecord") -> None:
        """Show a round."""
        self._begin()
        self._live.on_round(record)
        for each in record.failures:
            self._say(f"round {record.round}: {each.platform} is missing: {each.message}")

    def on_away(self, why: str) -> None:
        """Say that the server cannot be reached."""
        self._say(f"the server does not answer; trying again: {why}")

    def _begin(self) -> None:
        from fedner.runs.schedule import algorithm_for, num_rounds

        if not self._begun:
            self._begun = True
            self._live.begin(self._study, num_rounds(self._study, algorithm_for(self._study)))

    def _say(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._live.say(line)


def follow_shown(home: Path, run: str, *, is_quiet: bool) -> "RunState":
    """Follow a run until it is over; Ctrl-C ends nothing but the following."""
    from fedner.cli.failures import INTERRUPTED
    from fedner.cli.progress import LiveProgress
    from fedner.runs.deployment.federation import read_federation_study
    from fedner.runs.deployment.homes import FederationHome
    from fedner.runs.deployment.running import follow

    place = FederationHome(home)
    if is_quiet:
        return follow(place, run, on_state=_ignore, on_round=_ignore, on_away=_ignore)
    with LiveProgress() as live:
        view = _Followed(live, read_federation_study(place))
        try:
            return follow(
                place, run, on_state=view.on_state, on_round=view.on_round, on_away=view.on_away
            )
        except KeyboardInterrupt:
            pass
    typer.echo(
        f"not followed any more; run {run} goes on at the server. Follow it again: fedner "
        "federation status --follow; end it: fedner federation stop",
        err=True,
    )
    raise typer.Exit(INTERRUPTED)


def _ignore(_: object) -> None:
    pass


def state_json(state: "RunState") -> dict[str, Any]:
    """Return how a run stands, for machines."""
    from dataclasses import asdict

    return asdict(state) | {"over": state.is_over}


def show_state(state: "RunState") -> None:
    """Print how a run stands."""
    loss = "" if state.loss is None else f", loss {state.loss:.4f}"
    typer.echo(state.sentence)
    typer.echo(f"round {state.round:,} of {state.rounds:,}{loss}")
    if state.num_jobs > 1:
        typer.echo(f"resubmitted {state.num_jobs - 1:,} times")
    for name, count in sorted(state.faults.items()):
        typer.echo(f"{name}: {count:,} jobs of the last hour ended because it was missing")
    for name, words in sorted(state.failures.items()):
        typer.echo(f"{name} did not answer at last: {words}")
    show_refusals(state)


def show_refusals(state: "RunState") -> None:
    """Print who refuses a run, and why."""
    for name, reasons in sorted(state.refusals.items()):
        for words in reasons:
            typer.echo(f"{name} refuses: {words}")


def show_results(fetched: "Fetched") -> None:
    """Print what each platform reported of a finished run, and where it stands."""
    from fedner.cli.output import console, show_place, table

    rows = [
        (name, each["state"], _score(each, "federated"), _score(each, "local-only"))
        for name, each in sorted(results_json(fetched).items())
    ]
    columns = ("platform", "scores", "federated", "local-only")
    console.print(table("strict F1 on each platform's own test part", columns, rows))
    show_place("records:", fetched.folder)
    show_place("report:", fetched.folder / "coordinator.html", " (opens offline)")


def results_json(fetched: "Fetched") -> dict[str, dict[str, Any]]:
    """Return what each platform reported: strict F1 in percent by method; noised where it is."""
    from fedner.runs.records import ScoreReports
    from fedner.runs.records.border import read_as
    from fedner.runs.report.coordinator import SCORE_REPORTS

    known = read_as(ScoreReports, fetched.folder / SCORE_REPORTS, "Fetch it again.")
    found: dict[str, dict[str, Any]] = {}
    for name, each in known.platforms.items():
        found[name] = {"state": each.state}
        for method, scores in each.scores.items():
            found[name][method] = round(100 * scores.strict_micro.f1, 2)
        if each.noised is not None:
            found[name]["federated, noised"] = round(100 * each.noised.f1, 2)
    return found


def _score(reported: dict[str, Any], method: str) -> str:
    value = reported.get(method, reported.get(f"{method}, noised"))
    return "" if value is None else f"{value:.1f}"
