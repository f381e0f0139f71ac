"""Charts as inline SVG: learning curves, gains with intervals, bars by type. No script, no font."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

METHOD_ORDER = ("local-only", "federated", "centralized")
WIDTH = 340
LETTER = 7.0  # about the width of a letter, in the units of the charts
LONGEST_NAME = 18
Scale = Callable[[float], float]


class Point(NamedTuple):
    """A point of a curve: the round, and a score in percent."""

    round: int
    value: float


class GainBar(NamedTuple):
    """A difference in points of F1 with its interval."""

    platform: str
    value: float
    low: float
    high: float


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    body = "".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>{body}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def _short(name: str) -> str:
    return (
        name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "\N{HORIZONTAL ELLIPSIS}"
    )


def _room(names: Sequence[str]) -> float:
    """Return how far from the left a chart begins, so that its names fit before it."""
    return 16 + LETTER * max((len(_short(name)) for name in names), default=0)


def learning_curve(platform: str, points: Sequence[Point], references: Mapping[str, float]) -> str:
    """Draw strict F1 by round, with the baselines as broken lines."""
    left, right, top, bottom, height = 28.0, 100.0, 10.0, 26.0, 230.0
    inner, tall = WIDTH - left - right, height - top - bottom
    last = max((point.round for point in points), default=1)

    def x(round_: float) -> float:
        return left + inner * round_ / last

    def y(value: float) -> float:
        return top + tall * (1 - value / 100)

    parts = []
    for mark in range(0, 101, 20):
        parts.append(_line(left, y(mark), WIDTH - right, y(mark), "grid"))
        parts.append(_text(left - 6, y(mark) + 4, str(mark), "end"))
    parts += [
        _text(x(last * share), height - 8, f"{round(last * share):,}", "middle")
        for share in (0.0, 0.5, 1.0)
    ]
    for method, value in references.items():
        line = _line(left, y(value), WIDTH - right, y(value), "reference")
        parts.append(f'<g class="{method}">{line}</g>')
    path = " ".join(f"{x(each.round):.1f},{y(each.value):.1f}" for each in points)
    dots = "".join(
        f'<circle cx="{x(each.round):.1f}" cy="{y(each.value):.1f}" r="3" class="dot">'
        f"<title>round {each.round:,}: {each.value:.1f}</title></circle>"
        for each in points
    )
    parts.append(f'<g class="federated"><polyline points="{path}" class="curve"/>{dots}</g>')
    ends = dict(references)
    if points:
        ends["federated"] = points[-1].value
    parts += _end_labels(ends, WIDTH - right + 6, y)
    return _svg(height, f"{platform}: strict F1 by round", parts)


def _end_labels(ends: Mapping[str, float], x: float, y: Scale) -> list[str]:
    """Write the name and value of each line at its end, moved apart where they would overlap."""
    parts, lowest = [], -100.0
    for method, value in sorted(ends.items(), key=lambda item: -item[1]):
        place = max(y(value) + 4, lowest + 13)
        lowest = place
        parts.append(_text(x, place, f"{method} {value:.1f}", style="value"))
    return parts


def gains(rows: Sequence[GainBar]) -> str:
    """Draw what joining brought each platform, with its interval."""
    right, step, top = 46.0, 26.0, 6.0
    left = _room([row.platform for row in rows])
    height = top + step * len(rows) + 26
    edge = max([1.0, *(abs(value) for row in rows for value in (row.low, row.high))])
    inner = WIDTH - left - right

    def x(value: float) -> float:
        return left + inner * (value + edge) / (2 * edge)

    parts = [_line(x(0), top, x(0), height - 22, "zero"), _text(x(0), height - 8, "0", "middle")]
    parts += [_text(x(mark), height - 8, f"{mark:+.1f}", "middle") for mark in (-edge, edge)]
    for number, row in enumerate(rows):
        y = top + step * (number + 0.5)
        whisker = _line(x(row.low), y, x(row.high), y, "whisker")
        dot = f'<circle cx="{x(row.value):.1f}" cy="{y:.1f}" r="5" class="dot"/>'
        said = f"{row.platform}: {row.value:+.1f} ({row.low:+.1f} to {row.high:+.1f})"
        parts.append(f'<g class="federated"><title>{escape(said)}</title>{whisker}{dot}</g>')
        parts.append(_text(left - 10, y + 4, _short(row.platform), "end", "value"))
        parts.append(_text(WIDTH - right + 10, y + 4, f"{row.value:+.1f}", style="value"))
    return _svg(height, "GainBar of joining in points of strict F1, with 95 % intervals", parts)


def type_bars(platform: str, scores: Mapping[str, Mapping[str, float]]) -> str:
    """Draw strict F1 by entity type, a bar for each method.

    Args:
        platform: The platform.
        scores: By label, then by method, in percent.
    """
    right, bar, gap, top = 26.0, 14.0, 12.0, 4.0
    left = _room(list(scores))
    methods = [name for name in METHOD_ORDER if any(name in each for each in scores.values())]
    block = bar * len(methods) + gap
    height = top + block * len(scores)
    inner = WIDTH - left - right
    parts = []
    for mark in (0, 50, 100):
        at = left + inner * mark / 100
        parts.append(_line(at, top, at, height - gap, "grid"))
    for row, (label, values) in enumerate(scores.items()):
        y = top + block * row
        middle = y + bar * len(methods) / 2 + 4
        parts.append(_text(left - 8, middle, _short(label), "end", "value"))
        for number, method in enumerate(methods):
            if method not in values:
                continue
            value, at = values[method], y + bar * number
            parts.append(
                f'<g class="{method}"><title>{escape(label)}, {method}: {value:.1f}</title>'
                f'<rect x="{left:g}" y="{at + 1:.1f}" width="{inner * value / 100:.1f}" '
                f'height="{bar - 2:g}" rx="2" class="bar"/></g>'
            )
            end = left + inner * value / 100 + 5
            parts.append(_text(end, at + bar - 3, f"{value:.0f}"))
    return _svg(height, f"{platform}: strict F1 by type", parts)
