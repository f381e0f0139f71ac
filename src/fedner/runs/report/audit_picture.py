"""The table of attacks and defences as one self-contained SVG."""

from html import escape

from fedner.audit.finding import DEFENCES, Finding
from fedner.runs.records.audit import AuditRecord
from fedner.runs.report.audit_words import DEFENCE_WORDS, ENCRYPTED, number, power, terms, verdict

_LEFT, _TOP, _WIDE, _TALL, _GAP = 200.0, 100.0, 130.0, 46.0, 4.0
_LINE = 15.0
# Fill and ink differ in lightness, and each cell has its words: readable in print and by everybody.
_COLOURS = {
    "leak": ("#d55e00", "#ffffff"),
    "within epsilon": ("#8db8d8", "#10324a"),
    "no leak found": ("#cfe3f3", "#10324a"),
    "inconclusive": ("#f4e3a1", "#4a3b00"),
    "nothing to attack": ("#eeeeee", "#444444"),
}
_MARKED = ("#ffffff", "#555555")


def audit_svg(record: AuditRecord) -> str:
    """Return the picture of an audit."""
    columns = len(DEFENCES) + 1
    width = _LEFT + columns * _WIDE + 16
    height = _TOP + len(record.attacks) * _TALL + 40
    title = f"Attacks on {record.platform}, against each defence"
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="12">'
    )
    parts = [
        opening,
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
        _text(16, 24, title, size=15, weight="bold"),
        _text(16, 44, terms(record), size=11, ink="#444444"),
        _text(16, 60, ENCRYPTED, size=11, ink="#444444"),
    ]
    heads = [*(DEFENCE_WORDS[each] for each in DEFENCES), "planted leak"]
    parts += [
        _text(_LEFT + (at + 0.5) * _WIDE, _TOP - 10, head, anchor="middle", weight="bold")
        for at, head in enumerate(heads)
    ]
    for at, attack in enumerate(record.attacks):
        parts += _row(attack, list(record.row(attack)), _TOP + at * _TALL)
    parts.append(
        _text(16, height - 14, "No cell says that a defence is safe: other attacks may do better.",
              size=11, ink="#444444")
    )  # fmt: skip
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(attack: str, row: list[Finding], y: float) -> list[str]:
    parts = [_text(_LEFT - 12, y + _TALL / 2 + 4, attack, anchor="end", weight="bold")]
    for at, finding in enumerate(row):
        parts.append(_cell(finding, _LEFT + at * _WIDE, y))
    middle = _LEFT + (len(DEFENCES) + 0.5) * _WIDE
    parts.append(_text(middle, y + _TALL / 2 + 4, _planted(row), anchor="middle"))
    return parts


def _planted(row: list[Finding]) -> str:
    """Return how much of a planted leak was found, in words."""
    share = power(row)
    return share if share == "-" else f"{share} found"


def _cell(finding: Finding, x: float, y: float) -> str:
    fill, ink = _COLOURS.get(finding.verdict, _MARKED)
    dashes = ' stroke-dasharray="3 3"' if finding.status == "unchanged" else ""
    middle = x + _WIDE / 2
    lines = [verdict(finding)]
    if finding.status == "run" and finding.result is not None:
        lines.append(_numbers(finding))
    first = y + _TALL / 2 + 4 - _LINE * (len(lines) - 1) / 2
    words = "".join(
        _text(middle, first + _LINE * at, line, anchor="middle", ink=ink)
        for at, line in enumerate(lines)
    )
    said = f"{finding.attack}, {DEFENCE_WORDS[finding.defence]}: {finding.measure}. {finding.note}"
    return (
        f"<g><title>{escape(said)}</title>"
        f'<rect x="{x + _GAP / 2:g}" y="{y + _GAP / 2:g}" width="{_WIDE - _GAP:g}" '
        f'height="{_TALL - _GAP:g}" rx="3" fill="{fill}" stroke="#999999"{dashes}/>{words}</g>'
    )


def _numbers(finding: Finding) -> str:
    """Return the result beside what it is compared with."""
    result = number(finding.result or 0.0)
    if finding.promised is not None and finding.verdict != "no leak found":
        return f"{result} of {number(finding.promised)}"
    return result if finding.chance is None else f"{result}, chance {number(finding.chance)}"


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 12,
    weight: str = "normal",
    ink: str = "#222222",
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{ink}">{escape(text)}</text>'
    )
