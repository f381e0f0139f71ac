"""`fedner errors`: mistakes of a finished tagger by kind and type; texts stay on this screen."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedner.cli.arguments import AsJson
from fedner.cli.runs import MethodOption, RunArgument

if TYPE_CHECKING:
    from rich.text import Text

    from fedner.runs.mistakes import Mistake, MistakeGroup

DOCUMENTS_SHOWN = 5


def errors(
    run: RunArgument,
    platform: Annotated[str, typer.Option("--platform", help="The platform.")],
    kind: Annotated[
        Literal["missed", "border", "type", "spurious"] | None,
        typer.Option(
            "--kind", metavar="KIND", help="Only one kind: missed, border, type or spurious."
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only mistakes of this type.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", help="How many of each group to show in context; 0 for all.")
    ] = 5,
    counts: Annotated[
        bool, typer.Option("--counts", help="Show only counts and ids of documents, no text.")
    ] = False,
    method: MethodOption = "federated",
    json: AsJson = False,
) -> None:
    """Show mistakes by kind and type, in context. Local: texts appear only on this screen."""
    from rich.text import Text

    from fedner.cli.output import console, show_json
    from fedner.runs.folder import open_run
    from fedner.runs.mistakes import find_mistakes, grouped

    every = grouped(find_mistakes(open_run(run), platform, method))
    groups = [each for each in every if kind in (None, each.kind) and label in (None, each.label)]
    most = 0 if counts else (limit if limit > 0 else None)
    if json:
        held = [each.as_dict(limit=most) for each in groups]
        show_json({"platform": platform, "method": method, "groups": held})
    else:
        _show(platform, groups, most)
        if not groups:
            asked = " ".join(each for each in (kind, label) if each)
            types = ", ".join(dict.fromkeys(each.label for each in every))
            there = f"; there are some of the types {types}" if types else ""
            said = f"no mistakes: {asked}{there}" if every else "no mistakes"
            console.print(Text(said))


def _show(platform: str, groups: "Sequence[MistakeGroup]", most: int | None) -> None:
    """Print every group with its first mistakes, then the table of all."""
    from rich.text import Text

    from fedner.cli.output import console, table

    for group in groups if most != 0 else ():
        console.print(Text(f"{group.kind} {group.label} ({len(group.mistakes):,})", style="bold"))
        for each in group.mistakes[:most]:
            console.print(_shown(each))
        hidden = len(group.mistakes) - len(group.mistakes[:most])
        if hidden:
            console.print(Text(f"  ... and {hidden:,} more; --limit 0 shows all", style="dim"))
    rows = [
        (each.kind, each.label, len(each.mistakes), _documents(each.documents)) for each in groups
    ]
    columns = ("kind", "type", "count", "documents")
    console.print(table(f"{platform}: mistakes", columns, rows))


def _documents(counts: dict[str, int]) -> str:
    """Return the worst documents with their counts."""
    shown = [
        name if count == 1 else f"{name} ({count})"
        for name, count in list(counts.items())[:DOCUMENTS_SHOWN]
    ]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _shown(mistake: "Mistake") -> "Text":
    """Return a mistake as a line: the gold mention underlined, the found one coloured."""
    from rich.text import Text

    line = Text(f"  {mistake.sentence.document}: ", style="dim")
    gold, found = mistake.gold, mistake.found
    for number, token in enumerate(mistake.sentence.tokens):
        is_gold = gold is not None and gold.start <= number < gold.end
        is_found = found is not None and found.start <= number < found.end
        style = "bold " * (is_gold or is_found) + "underline " * is_gold + "red" * is_found
        line.append(token, style=style.strip() or "default not dim")
        line.append(" ")
    said = []
    if gold is not None:
        said.append(
            f"gold {gold.label}: {' '.join(mistake.sentence.tokens[gold.start : gold.end])}"
        )
    if found is not None:
        words = " ".join(mistake.sentence.tokens[found.start : found.end])
        said.append(f"found {found.label}: {words} ({mistake.confidence:.2f})")
    line.append("\n    " + "; ".join(said), style="dim")
    return line
