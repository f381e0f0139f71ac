"""`fedner privacy`: plan a run, open a ledger, grant a budget, see what was spent, audit."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedner.cli.audit import audit

if TYPE_CHECKING:
    from fedner.privacy.ledger_owner import Grant
    from fedner.privacy.planning import PrivacyPlan
    from fedner.runs.records import LedgerSpent, PlatformSpent, PrivacySpent, StatedSpend

app = typer.Typer(
    name="privacy",
    help="Differential privacy: plan a run, open a platform's ledger, see what was spent, audit.",
    no_args_is_help=True,
)
app.command("audit")(audit)
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
LedgerArgument = Annotated[
    Path, typer.Argument(metavar="LEDGER", help="The folder of the platform's ledger.")
]


class UnitChoice(StrEnum):
    """Whose presence is protected."""

    SENTENCE = "sentence"
    DOCUMENT = "document"
    PATIENT = "patient"
    PLATFORM = "platform"


class AccountantChoice(StrEnum):
    """The accountant whose epsilon counts."""

    PLD = "pld"
    RDP = "rdp"


class AdjacencyChoice(StrEnum):
    """Which data sets are neighbours."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"


@app.command("plan")
def plan(
    examples: Annotated[int, typer.Option("--examples", help="The number of units.")],
    batch_size: Annotated[
        int, typer.Option("--batch-size", help="Expected units in a platform's step.")
    ],
    epochs: Annotated[int, typer.Option("--epochs", help="Passes over the data.")],
    delta: Annotated[float, typer.Option("--delta", help="At most one over the units.")],
    noise_multiplier: Annotated[
        float | None, typer.Option("--noise-multiplier", help="Epsilon is computed from it.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="The target: the noise multiplier is computed."),
    ] = None,
    platforms: Annotated[
        int, typer.Option("--platforms", help="Platforms that share the units equally.")
    ] = 1,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Write a figure of both curves to this file."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compute the noise multiplier for an epsilon, or the reverse, by two accountants."""
    from fedner.privacy.planning import plan as make_plan

    made = make_plan(
        examples=examples,
        batch_size=batch_size,
        epochs=epochs,
        delta=delta,
        noise_multiplier=noise_multiplier,
        target_epsilon=epsilon,
        platforms=platforms,
    )
    if svg is not None:
        from fedner.durable import write_text
        from fedner.privacy.curve import svg_curve

        write_text(svg, svg_curve(made))
    if json:
        from fedner.cli.output import show_json

        show_json(made.to_json())
        return
    _show_plan(made)
    if svg is not None:
        from fedner.cli.output import show_place

        show_place("curve:", svg)


def _show_plan(made: "PrivacyPlan") -> None:
    from fedner.cli.output import console, table
    from fedner.privacy.curve import text_curve

    rows = [
        ("epsilon (PLD)", f"{made.pld:.4g}"),
        ("epsilon (RDP)", f"{made.rdp:.4g}"),
        ("delta", f"{made.delta:g}"),
        ("noise multiplier", f"{made.noise_multiplier:.4g}"),
        ("sampling probability", f"{made.sampling_probability:.4g}"),
        ("noised steps", made.steps),
        ("units on a platform", made.examples_per_platform),
    ]
    if made.rdp_noise_multiplier is not None:
        rows.append(("noise multiplier by RDP", f"{made.rdp_noise_multiplier:.4g}"))
    console.print(table("What each platform would spend", ("", ""), rows))
    _show_warnings(made.warnings)
    console.print(text_curve(made.curve))
    console.print(
        "Neighbours differ in one unit. PLD is the tighter bound; both are upper bounds.",
        style="dim",
    )


@app.command("open")
def open_(
    ledger: LedgerArgument,
    epsilon: Annotated[
        float, typer.Option("--epsilon", help="What may ever be spent, over all runs.")
    ],
    delta: Annotated[float, typer.Option("--delta", help="At most one over the public size.")],
    unit: Annotated[
        UnitChoice,
        typer.Option(
            "--unit",
            metavar="UNIT",
            help="Whose presence is protected: sentence, document, patient or platform.",
        ),
    ],
    public_size: Annotated[
        int, typer.Option("--public-size", help="The public, rounded number of units.")
    ],
    accountant: Annotated[
        AccountantChoice, typer.Option("--accountant", help="The accountant whose epsilon counts.")
    ] = AccountantChoice.PLD,
    adjacency: Annotated[
        AdjacencyChoice | None,
        typer.Option(
            "--adjacency",
            metavar="KIND",
            help="add_or_remove_one, or replace_one (the default for platforms).",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Open a platform's ledger with its owner's budget, and make the ledger's key.

    Only its owner opens a ledger and changes its budget. A run only asks, and never changes it.
    """
    from fedner.privacy.budget import Budget
    from fedner.privacy.ledger_owner import open_ledger

    usual = AdjacencyChoice.ADD_OR_REMOVE_ONE
    if unit is UnitChoice.PLATFORM:
        usual = AdjacencyChoice.REPLACE_ONE
    neighbours = usual if adjacency is None else adjacency
    budget = Budget(epsilon, delta, unit.value, neighbours.value, accountant.value)
    _show_grant(ledger, open_ledger(ledger, budget, public_size), is_new=True, json=json)


@app.command("budget")
def budget(
    ledger: LedgerArgument,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="What may ever be spent, over all runs.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="At most one over the public size.")
    ] = None,
    public_size: Annotated[
        int | None, typer.Option("--public-size", help="The public, rounded number of units.")
    ] = None,
    accountant: Annotated[
        AccountantChoice | None,
        typer.Option("--accountant", help="The accountant whose epsilon counts."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Change what a ledger grants, for its owner; who, when, old and new are recorded in it.

    What you leave out stays as it is. What was spent stays spent.
    """
    from fedner.errors import FednerError
    from fedner.privacy.ledger_owner import change_budget

    if all(each is None for each in (epsilon, delta, public_size, accountant)):
        raise FednerError(
            "nothing to change was named",
            f"Name --epsilon, --delta, --public-size or --accountant; `fedner privacy spent "
            f"{ledger}` shows what is granted.",
        )
    granted = change_budget(
        ledger,
        epsilon=epsilon,
        delta=delta,
        public_units=public_size,
        accountant=None if accountant is None else accountant.value,
    )
    _show_grant(ledger, granted, is_new=False, json=json)


def _show_grant(ledger: Path, granted: "Grant", *, is_new: bool, json: bool) -> None:
    from dataclasses import asdict

    from fedner.cli.output import console, show_json, show_place
    from fedner.privacy.budget import described

    line = granted.line
    if json:
        stated = {key: value for key, value in asdict(line).items() if key != "key_digest"}
        show_json({"ledger": str(ledger), **stated, "warnings": list(granted.warnings)})
        return
    show_place("ledger:", ledger)
    console.print(f"grants: {described(line.budget)}; public size {line.public_units:,}")
    if line.old is not None:
        console.print(f"before: {described(line.old)}")
    console.print(f"by {line.who} at {line.time}", style="dim")
    if is_new:
        console.print(
            "The key in this folder splits the platform's data: keep the folder, and back it up "
            "with its witness. Nobody else may read it.",
            style="dim",
        )
    _show_warnings(granted.warnings)


def _show_warnings(warnings: Iterable[str]) -> None:
    from fedner.cli.output import console

    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow")


@app.command("spent")
def spent(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|LEDGER", help="A run folder, or the folder of a platform's ledger."
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Show what a run spent on every platform, or what a platform's ledger spent in all runs."""
    from fedner.cli.output import show_json
    from fedner.errors import FednerError
    from fedner.runs.folder import SETTINGS, RunFolder
    from fedner.runs.privacy_record import folder_spent, run_spent

    if (path / SETTINGS).is_file():
        found = run_spent(RunFolder(path))
        if found is None:
            raise FednerError(
                f"{path} ran without differential privacy: its updates had no noise",
                "Add a [privacy] table to the federation file.",
            )
        show_json(found.as_dict()) if json else _show_run(str(path), found)
        return
    held = folder_spent(path)
    show_json(held.as_dict()) if json else _show_ledger(held)


def _show_run(title: str, found: "PrivacySpent") -> None:
    from fedner.cli.output import console, table
    from fedner.runs.report.rows import over_all_runs

    rows = [(name, *_cells(one), over_all_runs(one)) for name, one in found.platforms.items()]
    columns = ("platform", *_COLUMNS, "over all runs")
    label = " (simulation)" if found.simulation else ""
    console.print(table(f"{title}: spent{label}", columns, rows))
    _show_neighbours(one.adjacency for one in found.platforms.values())
    for note in found.notes:
        console.print(note, style="dim")
    for use in found.uncharged:
        console.print(f"declared, not in epsilon: {use}")


def _show_ledger(found: "LedgerSpent") -> None:
    from fedner.cli.output import console, table

    rows = [(run, *_cells(one)) for run, one in found.runs.items()]
    rows.append(("all runs", *_cells(found.all)))
    label = " (simulation)" if found.simulation else ""
    console.print(table(f"{found.ledger}: spent{label}", ("run", *_COLUMNS), rows))
    _show_neighbours([found.all.adjacency])
    budget = found.budget
    console.print(
        f"budget: epsilon {budget.epsilon:g} at delta {budget.delta:g} by "
        f"{budget.accountant.upper()}; {found.releases:,} releases"
    )
    if len(found.grants) > 1:
        columns = ("granted", "by", "epsilon", "delta", "public size")
        grants = [
            (each.time, each.who or "-", f"{each.epsilon:g}", f"{each.delta:g}",
             each.public_size or "-")
            for each in found.grants
        ]  # fmt: skip
        console.print(table("What the owner granted", columns, grants))


def _show_neighbours(kinds: Iterable[str | None]) -> None:
    """Say between which data sets epsilon holds."""
    from fedner.cli.output import console
    from fedner.runs.report.rows import ADJACENCY

    neighbours = "; ".join(sorted({ADJACENCY[kind] for kind in kinds}))
    console.print(f"Neighbours: {neighbours}.", style="dim")


_COLUMNS = ("epsilon (PLD)", "epsilon (RDP)", "delta", "unit", "public size", "steps")


def _cells(one: "PlatformSpent | StatedSpend") -> tuple[object, ...]:
    from fedner.runs.report.rows import epsilon_words

    sizes = ", ".join(f"{size:,}" for size in one.public_units) or "-"
    spent = (epsilon_words(one.pld), epsilon_words(one.rdp))
    return (*spent, f"{one.delta:g}", one.unit or "-", sizes, one.steps)
