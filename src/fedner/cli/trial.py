"""`fedner federation trial`: everything across machines, on this one, torn down at the end."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedner.cli.arguments import AsJson
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.runs.deployment.standing import RunState
    from fedner.runs.deployment.trial_run import Trial


def trial(
    number: Annotated[int, typer.Option("-n", "--number", help="How many platforms.")] = 3,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="The number of rounds.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Keep all homes in this folder; default: keep nothing."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Try a federation on this machine: real processes, mutual TLS on loopback, synthetic text.

    Authority, server, platforms and a newcomer get keys and certificates. The server and all
    platforms start and train; the newcomer fetches the model; then everything is removed.
    """
    from fedner.runs.deployment.trial_run import running_trial, trial_settings

    began = time.monotonic()
    steps = _Steps(is_quiet=json)
    settings = trial_settings(number)
    if rounds is not None:
        changed = settings.training.model_copy(update={"rounds": rounds})
        settings = settings.model_copy(update={"training": changed})
    with _folder(out) as folder:
        with running_trial(folder, settings, steps.say) as running:
            found = _trained(running, steps)
        found["seconds"] = round(time.monotonic() - began, 1)
        _show(found, out, as_json=json)


class _Steps:
    """Numbers the steps that people see."""

    def __init__(self, *, is_quiet: bool) -> None:
        self.is_quiet = is_quiet
        self._number = 0

    def say(self, line: str) -> None:
        """Print a step."""
        self._number += 1
        if not self.is_quiet:
            typer.echo(f"{self._number}. {line}")


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    if out is None:
        with TemporaryDirectory(prefix="fedner-trial-") as folder:
            yield Path(folder)
        return
    if out.exists() and any(out.iterdir()):
        raise FednerError(f"{out} is already there and not empty", "Name another folder.")
    yield out


def _trained(running: "Trial", steps: _Steps) -> dict[str, Any]:
    """Train, and return what it came to."""
    from fedner.cli.follow_view import follow_shown
    from fedner.runs.deployment.fetching import fetch
    from fedner.runs.deployment.running import start_run

    home = running.homes.federation
    started = start_run(home)
    steps.say(f"the coordinator submits the run {started.run}")
    state = follow_shown(home.path, started.run, is_quiet=steps.is_quiet)
    _require_done(state)
    steps.say("every platform has its own results, in its own home")
    records = fetch(home.path, started.run)
    model = fetch(running.newcomer.path, started.run)
    steps.say(f"the newcomer fetched the model without a job: {len(model.files)} files")
    return {
        "run": started.run,
        "rounds": state.round,
        "jobs": state.num_jobs,
        "platforms": _own_results(running, started.run),
        "coordinator": list(records.files),
        "newcomer": list(model.files),
    }


def _require_done(state: "RunState") -> None:
    if state.phase != "done":
        refused = "; ".join(f"{name}: {', '.join(words)}" for name, words in state.refusals.items())
        raise FednerError(f"{state.sentence} {refused}".strip())


def _own_results(running: "Trial", run: str) -> dict[str, Any]:
    """Return what stands in each platform's own home: scores, and the files of its results."""
    from fedner.runs.disclosure_record import RECORD
    from fedner.runs.folder import SCORES, SiteFolder
    from fedner.runs.records import PlatformScores

    found = {}
    for name, home in sorted(running.homes.platforms.items()):
        own = SiteFolder(home.runs / run)
        scores = own.read_as(PlatformScores, SCORES).methods
        found[name] = {
            "strict_f1": {
                method: round(100 * each.strict_micro.f1, 1) for method, each in scores.items()
            },
            "files": sorted(
                path.name for path in (own.report, own.card, home.path / RECORD) if path.is_file()
            ),
        }
    return found


def _show(found: dict[str, Any], out: Path | None, *, as_json: bool) -> None:
    from fedner.cli.output import console, show_json, show_place, table
    from fedner.cli.results_view import SYNTHETIC_NOTE

    if as_json:
        show_json(found)
        return
    rows = [
        (name, *(each["strict_f1"].get(method, "") for method in ("local-only", "federated")))
        for name, each in found["platforms"].items()
    ]
    title = (
        f"{found['run']}: strict F1 of each platform's own taggers after {found['rounds']} rounds"
    )
    console.print(table(title, ("platform", "local-only", "federated"), rows))
    console.print(SYNTHETIC_NOTE)
    typer.echo("A trial is short: it shows that all of it works, not what joining gains.")
    if out is None:
        typer.echo("nothing was kept; --out FOLDER keeps all homes")
    else:
        show_place("kept in", out)
    typer.echo(f"{found['seconds']:.0f} s")
