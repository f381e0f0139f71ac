"""How the scores of a run look to people: methods, gains, what each platform disclosed."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from fedner.cli.output import console, show_place, table

if TYPE_CHECKING:
    from fedner.runs.records import Gain, PrivacySpent, RunDisclosure, RunScores
    from fedner.scoring import Interval

SYNTHETIC_NOTE = "Synthetic data: the texts were made by a program."
# Where the terminal is narrow, headings are folded rather than numbers.
_WIDE = 96
_FOLDED = {
    "local-only": "local-\nonly",
    "centralized": "central-\nized",
    "helped me?": "helped\nme?",
}
_STYLES = {"yes": "bold green", "no": "bold red", "not clear": "bold"}


def show_verdict(record: "RunScores", spent: "PrivacySpent | None") -> None:
    """Print what a run came to, a sentence each: zeros first, joining, differential privacy.

    Args:
        record: The scores of the run.
        spent: What it spent; None without differential privacy.
    """
    from fedner.runs.verdict import privacy_sentence, verdict_sentence, zero_sentence

    zeros = zero_sentence(record.by_platform)
    if zeros:
        console.print(Text(zeros, style="bold red"))
    console.print(Text(verdict_sentence(record), style="bold"))
    console.print(Text(privacy_sentence(spent), style="bold" if spent is None else ""))


def show_scores(record: "RunScores") -> None:
    """Print strict F1 of every method on every platform, the gains, and precision and recall."""
    mean, has_gains = record.mean, bool(record.gains)
    columns = ["platform", *mean]
    if has_gains:
        columns += ["gain (95 %)", "helped me?"]
    if console.width < _WIDE:
        columns = [_FOLDED.get(each, each) for each in columns]
    rows: list[tuple[object, ...]] = []
    for name, platform in record.platforms.items():
        cells: list[object] = [name]
        for method in mean:
            scores = platform.methods.get(method)
            cells.append("-" if scores is None else f"{100 * scores.strict_micro.f1:.1f}")
        if has_gains:
            cells += _gain(platform.gain)
        rows.append(tuple(cells))
    means = [f"{100 * each.strict:.1f}" for each in mean.values()]
    rows.append(("mean", *means, *([""] * (2 if has_gains else 0))))
    title = f"{record.title}: strict F1 on each platform's test part"
    if record.synthetic:
        title += " (synthetic data)"
    console.print(_unbroken(table(title, columns, rows)))
    _show_precision_and_recall(record)


def _show_precision_and_recall(record: "RunScores") -> None:
    """Print strict precision, recall and F1, and relaxed F1, of the taggers that a run is about."""
    method = record.main_method
    rows = []
    for name, platform in record.platforms.items():
        if method is not None and method in platform.methods:
            scores = platform.methods[method]
            numbers = (*scores.strict_micro.measures, scores.relaxed_micro.f1)
            rows.append((name, *(f"{100 * number:.1f}" for number in numbers)))
    columns = ("platform", "precision", "recall", "F1", "relaxed F1")
    console.print(_unbroken(table(f"{method} taggers: precision and recall", columns, rows)))


def _unbroken(shown: Table) -> Table:
    """Return a table in which only names and blanks of headings are folded, never numbers."""
    shown.columns[0].no_wrap = False
    for column in shown.columns[1:]:
        words = str(column.header).split()
        widest = max(len(each) for each in (*map(str, column.cells), *words))
        # Columns that cannot give way say so: else the widest number would be the first to be cut.
        column.min_width, column.no_wrap = widest, widest >= len(str(column.header))
    return shown


def show_spent(spent: "PrivacySpent | None") -> None:
    """Print the epsilon that a run spent on every platform."""
    if spent is None:
        return
    from fedner.runs.report.rows import epsilon_words, over_all_runs

    rows = [
        (
            name,
            epsilon_words(one.pld),
            epsilon_words(one.rdp),
            f"{one.delta:g}",
            one.unit or "-",
            one.steps,
            over_all_runs(one),
        )
        for name, one in spent.platforms.items()
    ]
    word = "Epsilon of a simulation" if spent.simulation else "Epsilon spent"
    columns = ("platform", "PLD", "RDP", "delta", "unit", "noised steps", "over all runs")
    console.print(_unbroken(table(word, columns, rows)))


def _gain(gain: "Gain | None") -> list[object]:
    if gain is None:
        return ["-", "-"]
    return [interval(gain.strict.difference), Text(gain.verdict, _STYLES[gain.verdict])]


def interval(difference: "Interval") -> str:
    """Return a difference in points of F1 with its interval."""
    # Adding zero takes the sign from a zero that came from below.
    value, low, high = (round(point, 1) + 0.0 for point in difference.points)
    return f"{value:+.1f} ({low:+.1f}, {high:+.1f})"


def show_disclosure(found: "RunDisclosure") -> None:
    """Print what every platform disclosed."""
    from fedner.runs.report.rows import size

    rows = [
        (
            name,
            one.updates,
            len(one.tensors),
            one.numbers_per_update,
            size(one.bytes),
            one.numbers_kept,
        )
        for name, one in found.platforms.items()
    ]
    columns = (
        "platform", "updates", "tensors in each", "numbers in each", "bytes in all",
        "private numbers kept",
    )  # fmt: skip
    console.print(_unbroken(table("What each platform disclosed", columns, rows)))
    console.print(f"Never disclosed: {', '.join(found.never)}.", style="dim")
    for note in found.notes:
        console.print(note, style="dim")


def show_places(folder: Path, report: Path, card: Path) -> None:
    """Print where the run, its report, its model card and what it releases are."""
    show_place("run:", folder)
    if (folder / "model" / "model.json").is_file():
        show_place("shared model:", folder / "model")
    show_place("report:", report, " (opens offline)")
    show_place("model card:", card)
