"""`fedner evaluate`, `compare` and `report`: looking at finished runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from fedner.runs.comparison import Comparison

Method = Literal["federated", "local-only", "centralized"]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
MethodOption = Annotated[
    Method,
    typer.Option(
        "--method", metavar="METHOD", help="Which taggers: federated, local-only or centralized."
    ),
]


def evaluate(run: RunArgument, json: JsonOption = False) -> None:
    """Score the taggers of RUN anew on every platform's test part."""
    from fedner.cli.output import show_json
    from fedner.cli.results_view import show_scores
    from fedner.runs.folder import open_run
    from fedner.runs.scoring_again import score_again

    record = score_again(open_run(run))
    show_json(record.as_dict()) if json else show_scores(record)


def compare(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A run folder.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Another one.")],
    method: MethodOption = "federated",
    seed: Annotated[int, typer.Option("--seed", help="The seed for resampling.")] = 1,
    json: JsonOption = False,
) -> None:
    """Compare two runs: a paired test on every platform, SECOND against FIRST."""
    from fedner.cli.output import show_json
    from fedner.runs.comparison import compare as compare_runs
    from fedner.runs.folder import open_run

    found = compare_runs(open_run(first), open_run(second), method=method, seed=seed)
    show_json(found.as_dict()) if json else _show_comparison(found)


def _show_comparison(found: "Comparison") -> None:
    from fedner.cli.output import console, table
    from fedner.cli.results_view import interval

    rows = [
        (
            name,
            f"{100 * row.strict.first:.1f}",
            f"{100 * row.strict.second:.1f}",
            interval(row.strict.difference),
            f"{row.strict.p_value:.4f}",
            interval(row.relaxed.difference),
            row.verdict,
        )
        for name, row in found.platforms.items()
    ]
    columns = (
        "platform", "first", "second", "strict difference", "p", "relaxed difference", "better?",
    )  # fmt: skip
    title = f"{found.second} against {found.first} ({found.method})"
    console.print(table(title, columns, rows))
    if found.only_in_one:
        console.print(f"only in one of them: {', '.join(found.only_in_one)}")


def report(run: RunArgument, json: JsonOption = False) -> None:
    """Write the report of RUN (HTML, opens offline) and its model card (Markdown) anew."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.folder import open_run
    from fedner.runs.report import write_report

    folder = open_run(run)
    write_report(folder)
    if json:
        show_json({"report": str(folder.report), "card": str(folder.card)})
    else:
        show_place("report:", folder.report)
        show_place("model card:", folder.card)
