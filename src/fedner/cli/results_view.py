"""How the scores of a run look to people: methods, gains, what left each platform."""

from pathlib import Path
from typing import Any

from rich.text import Text

from fedner.cli.output import console, show_place, table

SYNTHETIC_NOTE = "Synthetic data: the texts were made by a program."
_STYLES = {"yes": "bold green", "no": "bold red", "not clear": "bold"}


def show_scores(record: dict[str, Any]) -> None:
    """Print strict and relaxed F1 of every method on every platform, and the gains."""
    platforms = record["platforms"]
    methods = list(record["mean"])
    columns = ["platform", *methods]
    has_gains = any(each["gain"] for each in platforms.values())
    if has_gains:
        columns += ["gain (95 % interval)", "did joining help me?"]
    rows: list[tuple[object, ...]] = []
    for name, platform in platforms.items():
        cells: list[object] = [name]
        for method in methods:
            scores = platform["methods"].get(method)
            cells.append("-" if scores is None else _pair(scores))
        if has_gains:
            cells += _gain(platform["gain"])
        rows.append(tuple(cells))
    means = [_means(record["mean"][method]) for method in methods]
    rows.append(("mean", *means, *([""] * (2 if has_gains else 0))))
    title = f"{record['title']}: strict / relaxed F1 on each platform's test part"
    if record["synthetic"]:
        title += " (synthetic data)"
    console.print(table(title, columns, rows))


def _pair(scores: dict[str, Any]) -> str:
    strict, relaxed = (100 * scores[kind]["micro"]["f1"] for kind in ("strict", "relaxed"))
    return f"{strict:.1f} / {relaxed:.1f}"


def _means(mean: dict[str, float]) -> str:
    return f"{100 * mean['strict']:.1f} / {100 * mean['relaxed']:.1f}"


def _gain(gain: dict[str, Any] | None) -> list[object]:
    if gain is None:
        return ["-", "-"]
    return [interval(gain["strict"]["difference"]), Text(gain["verdict"], _STYLES[gain["verdict"]])]


def interval(difference: dict[str, float]) -> str:
    """Return a difference in points of F1 with its interval."""
    # Adding zero takes the sign from a zero that came from below.
    points = (round(100 * difference[key], 1) + 0.0 for key in ("value", "low", "high"))
    value, low, high = points
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


def show_left(left: dict[str, Any]) -> None:
    """Print what left every platform."""
    from fedner.runs.report.page import size

    rows = [
        (
            name,
            platform["updates"],
            len(platform["tensors"]),
            platform["numbers_per_update"],
            size(platform["bytes"]),
            platform["numbers_stayed"],
        )
        for name, platform in left["platforms"].items()
    ]
    columns = (
        "platform", "updates", "tensors in each", "numbers in each", "bytes in all",
        "private numbers that stayed",
    )  # fmt: skip
    console.print(table("What left each platform", columns, rows))
    console.print(f"What never left: {', '.join(left['never'])}.", style="dim")
    for note in left["notes"]:
        console.print(note, style="dim")


def show_places(folder: Path, report: Path, card: Path) -> None:
    """Print where the run, its report and its model card are."""
    show_place("run:", folder)
    show_place("report:", report, " (opens offline)")
    show_place("model card:", card)
