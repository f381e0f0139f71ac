"""`fedner evaluate`, `compare`, `report` and `errors`: looking at finished runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from fedner.runs.comparison import Comparison
    from fedner.runs.mistakes import Mistake

Method = Literal["federated", "local-only", "centralized"]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
MethodOption = Annotated[
    Method,
    typer.Option(
        "--method", metavar="METHOD", help="Which taggers: federated, local-only or centralized."
    ),
]
PlatformOption = Annotated[str, typer.Option("--platform", help="The platform.")]


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
    seed: Annotated[int, typer.Option("--seed", help="The seed of the resampling.")] = 1,
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


def errors(
    run: RunArgument,
    platform: PlatformOption,
    limit: Annotated[int, typer.Option("--limit", help="How many to show; 0 for all.")] = 30,
    method: MethodOption = "federated",
    json: JsonOption = False,
) -> None:
    """Show false positives and negatives in context. Local: the texts go to this screen alone."""
    from collections import Counter

    from fedner.cli.output import console, show_json, table
    from fedner.runs.folder import open_run
    from fedner.runs.mistakes import find_mistakes

    mistakes = find_mistakes(open_run(run), platform, method)
    counts = Counter(each.kind for each in mistakes)
    shown = mistakes if limit <= 0 else mistakes[:limit]
    if json:
        show_json(
            {
                "platform": platform,
                "method": method,
                "counts": dict(counts.most_common()),
                "mistakes": [each.as_dict() for each in shown],
            }
        )
        return
    for each in shown:
        console.print(_shown(each))
    console.print(table(f"{platform}: mistakes", ("kind", "count"), counts.most_common()))
    if len(shown) < len(mistakes):
        console.print(f"{len(shown):,} of {len(mistakes):,} shown; --limit 0 shows all")


def _shown(mistake: "Mistake") -> "Text":
    """Return a mistake as a line: the gold mention underlined, the found one coloured."""
    from rich.text import Text

    line = Text(f"{mistake.kind}: ", style="bold")
    gold, found = mistake.gold, mistake.found
    for number, token in enumerate(mistake.sentence.tokens):
        is_gold = gold is not None and gold.start <= number < gold.end
        is_found = found is not None and found.start <= number < found.end
        style = "bold " * (is_gold or is_found) + "underline " * is_gold + "red" * is_found
        line.append(token, style=style.strip() or None)
        line.append(" ")
    said = []
    if gold is not None:
        said.append(
            f"gold {gold.label}: {' '.join(mistake.sentence.tokens[gold.start : gold.end])}"
        )
    if found is not None:
        words = " ".join(mistake.sentence.tokens[found.start : found.end])
        said.append(f"found {found.label}: {words} ({mistake.confidence:.2f})")
    line.append("\n  " + "; ".join(said), style="dim")
    return line
