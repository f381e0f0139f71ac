"""How a watched run is shown in a terminal: one table and a few lines."""

from collections.abc import Callable, Sequence

import typer

from fedner.cli.output import console, table
from fedner.cli.progress import duration
from fedner.runs.report.rows import size
from fedner.runs.watch.snapshot import PlatformView, Snapshot

_Column = tuple[str, Callable[[PlatformView], str]]
_MOST_INCIDENTS = 5


def show_snapshot(shown: Snapshot) -> None:
    """Print how a run stands."""
    typer.echo(f"{shown.run or 'no run'}: {_sentence(shown)}")
    typer.echo(_rounds(shown))
    if shown.platforms:
        columns = _columns(shown)
        rows = [[show(each) for _, show in columns] for each in shown.platforms]
        console.print(table("", [name for name, _ in columns], rows))
    for each in shown.incidents[:_MOST_INCIDENTS]:
        console.print(f"round {each.round}: {each.platform}: {each.kind}: {each.why}")
    for sentence in shown.verdict:
        console.print(sentence)


def _sentence(shown: Snapshot) -> str:
    standing = shown.standing
    waits = ", ".join(standing.waiting_for) if standing.phase != "refused" else ""
    parts = [standing.phase, f"waiting for {waits}" if waits else "", standing.words]
    return ": ".join(part for part in parts if part)


def _rounds(shown: Snapshot) -> str:
    of = "" if shown.rounds is None else f" of {shown.rounds:,}"
    took = f", {duration(shown.seconds)} in rounds" if shown.seconds else ""
    left = f", about {duration(shown.seconds_left)} left" if shown.seconds_left else ""
    return f"round {shown.round:,}{of}{took}{left}"


def _columns(shown: Snapshot) -> Sequence[_Column]:
    """Return the columns that some platform has something for."""
    methods = list(dict.fromkeys(name for each in shown.platforms for name in each.final))
    f1 = "F1, noised" if shown.is_noised else "strict F1"
    every: list[_Column] = [
        ("platform", lambda each: each.name),
        ("loss", lambda each: "" if each.loss is None else f"{each.loss:.4g}"),
        (f1, lambda each: _percent(each.f1)),
        *((f"end: {name}", _final(name)) for name in methods),
        ("bytes up", lambda each: size(each.bytes_up)),
        ("bytes down", lambda each: size(each.bytes_down)),
        ("epsilon", lambda each: "" if each.epsilon is None else f"{each.epsilon:.3g}"),
        ("refused", lambda each: f"{each.refused:,}" if each.refused else ""),
        ("missing", lambda each: f"{each.missing:,}" if each.missing else ""),
    ]
    return [each for each in every if any(each[1](row) for row in shown.platforms)]


def _final(method: str) -> Callable[[PlatformView], str]:
    return lambda each: _percent(each.final.get(method))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"
