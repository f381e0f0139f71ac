"""Tables as people read them: Markdown, LaTeX, HTML; and every estimate as CSV for machines."""

import csv
import io
from collections.abc import Sequence
from html import escape

from fedner.reproduce.reproduction import Entry, Estimate, Table

MISSING = "missing"
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def markdown(table: Table) -> str:
    """Return a table in Markdown: mean, deviation, interval and the published number."""
    lines = [
        f"| {' | '.join(map(_in_markdown, table.columns))} |",
        "|---" * len(table.columns) + "|",
    ]
    most = _most_repeats(table)
    lines += [
        f"| {' | '.join(_in_markdown(text(entry, table.digits, most)) for entry in row)} |"
        for row in table.rows
    ]
    notes = [f"- {note}" for note in (*table.notes, *_how_to_read(table))]
    return "\n".join([*lines, "", *notes, ""])


def _in_markdown(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ")


def _how_to_read(table: Table) -> list[str]:
    """Return what the parts of an entry are, as far as the table has them."""
    found = [entry for row in table.rows for entry in row if isinstance(entry, Estimate)]
    notes = []
    if any(each.deviation is not None for each in found):
        numbers = sorted({each.num for each in found})
        repeats = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        notes.append(
            f"mean ± standard deviation over {repeats} repeats [95 % Student interval of the mean]"
        )
    if any(each.published is not None for each in found):
        notes.append("paper: the published number")
    if any(entry is None for row in table.rows for entry in row):
        notes.append(f"{MISSING}: not run")
    return notes


def _most_repeats(table: Table) -> int:
    return max(
        (entry.num for row in table.rows for entry in row if isinstance(entry, Estimate)), default=0
    )


def _fewer(entry: Estimate, most: int) -> str:
    """Return how many repeats an entry has where others of its table have more."""
    if entry.num >= most:
        return ""
    return "1 repeat" if entry.num == 1 else f"{entry.num} repeats"


def text(entry: Entry, digits: int, most: int = 0) -> str:
    """Return an entry in a line: "84.2 ± 0.7 [83.5, 84.9] (2 repeats) (paper 81.6)".

    Args:
        entry: The entry.
        digits: Digits after the point.
        most: The most repeats of an entry of the table: one with fewer says how many it has.
    """
    if entry is None:
        return MISSING
    if isinstance(entry, str):
        return entry
    parts = [number(entry.mean, digits)]
    if entry.deviation is not None and entry.low is not None and entry.high is not None:
        parts.append(f"± {number(entry.deviation, digits)}")
        parts.append(f"[{number(entry.low, digits)}, {number(entry.high, digits)}]")
    if fewer := _fewer(entry, most):
        parts.append(f"({fewer})")
    if entry.published is not None:
        parts.append(f"(paper {number(entry.published, digits)})")
    return " ".join(parts)


def short(entry: Entry, digits: int) -> str:
    """Return an entry for narrow places: "84.2 ± 0.7"."""
    if not isinstance(entry, Estimate) or entry.deviation is None:
        return number(entry.mean, digits) if isinstance(entry, Estimate) else text(entry, digits)
    return f"{number(entry.mean, digits)} ± {number(entry.deviation, digits)}"


def number(value: float, digits: int) -> str:
    """Return a number with so many digits after the point; no minus before zeros."""
    shown = f"{value:.{digits}f}"
    return shown.lstrip("-") if float(shown) == 0 else shown


def latex(table: Table) -> str:
    """Return a table in LaTeX, for the package booktabs."""
    columns = "l" + "r" * (len(table.columns) - 1)
    lines = [
        f"% {table.title}",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        " & ".join(map(_in_latex, table.columns)) + r" \\",
        "\\midrule",
    ]
    lines += [
        " & ".join(_latex_entry(entry, table.digits) for entry in row) + r" \\"
        for row in table.rows
    ]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _latex_entry(entry: Entry, digits: int) -> str:
    if not isinstance(entry, Estimate):
        return _in_latex(text(entry, digits))
    shown = number(entry.mean, digits)
    if entry.deviation is not None:
        shown += f" $\\pm$ {number(entry.deviation, digits)}"
    if entry.published is not None:
        shown += f" ({number(entry.published, digits)})"
    return shown


def _in_latex(words: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in words)


def html(table: Table) -> str:
    """Return a table in HTML."""
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in table.columns)
    most = _most_repeats(table)
    body = "".join(
        "<tr>"
        + "".join(_html_entry(entry, table.digits, at == 0, most) for at, entry in enumerate(row))
        + "</tr>"
        for row in table.rows
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in (*table.notes, *_how_to_read(table)))
    return (
        f'<div class="wide"><table><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<ul>{notes}</ul>"
    )


def _html_entry(entry: Entry, digits: int, is_head: bool, most: int) -> str:
    if is_head:
        return f'<th scope="row">{escape(text(entry, digits))}</th>'
    if not isinstance(entry, Estimate):
        kind = ' class="missing"' if entry is None else ""
        return f"<td{kind}>{escape(text(entry, digits))}</td>"
    shown = f"<b>{number(entry.mean, digits)}</b>"
    if entry.deviation is not None and entry.low is not None and entry.high is not None:
        shown += f" ± {number(entry.deviation, digits)}"
        interval = f"{number(entry.low, digits)} to {number(entry.high, digits)}"
        shown += f"<small>{interval}</small>"
    if fewer := _fewer(entry, most):
        shown += f"<small>{fewer}</small>"
    if entry.published is not None:
        shown += f"<small>paper {number(entry.published, digits)}</small>"
    return f"<td>{shown}</td>"


def estimates_csv(tables: Sequence[Table]) -> str:
    """Return every estimate of all tables as a line of CSV; a missing one has 0 repeats."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(
        ["table", "row", "column", "mean", "deviation", "low", "high", "repeats", "published"]
    )
    for table in tables:
        for row in table.rows:
            for column, entry in zip(table.columns[1:], row[1:], strict=True):
                if isinstance(entry, Estimate):
                    writer.writerow(_estimate_line(table.name, str(row[0]), column, entry))
                elif entry is None:
                    writer.writerow([table.name, str(row[0]), column, "", "", "", "", 0, ""])
    return lines.getvalue()


def _estimate_line(table: str, row: str, column: str, entry: Estimate) -> list[object]:
    held = (entry.mean, entry.deviation, entry.low, entry.high)
    shown = ["" if each is None else round(each, 6) for each in held]
    return [
        table,
        row,
        column,
        *shown,
        entry.num,
        "" if entry.published is None else entry.published,
    ]
