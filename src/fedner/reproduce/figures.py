"""Figures as SVG without any library: curves and bars, readable for the colour-blind and in print.

Colours are those of Okabe and Ito (2008); every series also has a mark and a stroke of its own. The
whisker of a point is the 95 % interval of its mean; what the paper published is an open diamond,
and the legend says so where there is one.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from fedner.reproduce.reproduction import Estimate, Figure, Panel, Series

WIDTH, HEIGHT = 380.0, 296.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 14.0, 34.0, 78.0
COLUMNS = 3
LEAST_REPEATS = 3  # of a whisker: the interval of two repeats says nothing
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8c6d31")
STROKES = ("", "7 3", "2 3", "9 3 2 3", "1 2", "12 4", "5 2 1 2", "3 6")
SHAPES = ("circle", "square", "triangle", "cross", "diamond", "plus", "circle", "square")
LEGEND_LINE = 18.0
LETTER = 6.0  # about the width of a letter
PUBLISHED = "published by the paper"


def svg(figure: Figure) -> str:
    """Return a figure as one SVG file."""
    labels = _labels(figure)
    named = [*labels, PUBLISHED] if _has_published(figure) else labels
    columns = min(COLUMNS, len(figure.panels)) or 1
    width = columns * WIDTH
    room = 46 + LETTER * max((len(label) for label in named), default=0)
    per_line = max(1, int((width - LEFT) // room))
    legend = LEGEND_LINE * -(-len(named) // per_line) + 14
    num_rows = -(-len(figure.panels) // columns)
    height = legend + 24 + num_rows * HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="11" '
        f'role="img" aria-label="{escape(figure.title, quote=True)}">'
    )
    parts = [
        head,
        f"<title>{escape(figure.title)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        f'<text x="{LEFT}" y="16" font-weight="bold" font-size="13">{escape(figure.title)}</text>',
        *_legend(named, per_line, room, figure.kind),
    ]
    for number, panel in enumerate(figure.panels):
        x, y = (number % columns) * WIDTH, 24 + legend + (number // columns) * HEIGHT
        parts.append(f'<g transform="translate({x:.0f} {y:.0f})">')
        parts += _panel(panel, labels, figure.kind)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _labels(figure: Figure) -> list[str]:
    return list(dict.fromkeys(each.label for panel in figure.panels for each in panel.series))


def _has_published(figure: Figure) -> bool:
    series = (each for panel in figure.panels for each in panel.series)
    points = (point for each in series for point in each.points if point is not None)
    return any(point.published is not None for point in points)


def _legend(labels: Sequence[str], per_line: int, room: float, kind: str) -> Iterator[str]:
    for number, label in enumerate(labels):
        x = LEFT + (number % per_line) * room
        y = 34 + (number // per_line) * LEGEND_LINE
        if label == PUBLISHED:
            yield _open_diamond(x + 12, y - 3, "#000000")
        elif kind == "bars":
            yield f'<rect x="{x}" y="{y - 8}" width="20" height="11" {_fill(number)}/>'
        else:
            yield _line(x, y - 3, x + 24, y - 3, number)
            yield _shape(x + 12, y - 3, number)
        yield f'<text x="{x + 30}" y="{y}">{escape(label)}</text>'


@dataclass(frozen=True, slots=True)
class _Axes:
    """Where values stand in a panel."""

    low: float
    high: float
    step: float
    places: tuple[float, ...]

    @classmethod
    def of(cls, panel: Panel, kind: str) -> "_Axes":
        """Return axes between round numbers that hold all points and their intervals."""
        values = [value for series in panel.series for value in _reach(series)]
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        step = _round_step(max(high - low, abs(high) * 0.02, 1e-6) / 4)
        bottom = math.floor(low / step - 0.2) * step
        if kind == "bars" and low >= 0 and bottom < step:
            bottom = 0.0
        if panel.least is not None:
            bottom = max(bottom, panel.least)
        top = math.ceil(high / step + 0.1) * step
        return cls(bottom, max(top, bottom + step), step, _places(panel, kind))

    def y(self, value: float) -> float:
        """Return how far down a value stands; a whisker that reaches below the axes ends there."""
        share = (max(value, self.low) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _reach(series: Series) -> Iterator[float]:
    for point in series.points:
        if point is not None:
            ends = _interval(point) or (point.mean, point.mean)
            yield from (point.mean, *ends)
            if point.published is not None:
                yield point.published


def _interval(point: Estimate) -> tuple[float, float] | None:
    """Return the ends of a whisker; None where there are too few repeats for one."""
    if point.num < LEAST_REPEATS or point.low is None or point.high is None:
        return None
    return point.low, point.high


def _round_step(rough: float) -> float:
    base = 10.0 ** math.floor(math.log10(rough))
    return next(base * each for each in (1, 2, 2.5, 5, 10) if base * each >= rough)


def _places(panel: Panel, kind: str) -> tuple[float, ...]:
    inner = WIDTH - LEFT - RIGHT
    number = len(panel.marks)
    if kind == "bars":
        return tuple(LEFT + inner * (at + 0.5) / number for at in range(number))
    given = panel.places
    if given is None or max(given) == min(given):
        given = tuple(range(number))
    margin = 14.0
    span = (max(given) - min(given)) or 1.0
    room = inner - 2 * margin
    return tuple(LEFT + margin + room * (each - min(given)) / span for each in given)


def _panel(panel: Panel, labels: Sequence[str], kind: str) -> Iterator[str]:
    axes = _Axes.of(panel, kind)
    yield f'<text x="{LEFT}" y="{TOP - 14}" font-weight="bold">{escape(panel.title)}</text>'
    yield from _grid(panel, axes)
    yield from _axis_names(panel, axes, kind)
    for at, series in enumerate(panel.series):
        number = labels.index(series.label)
        if kind == "bars":
            yield from _bars(series, axes, number, at, len(panel.series))
        else:
            yield from _curve(series, axes, number, at, spans_gaps=panel.spans_gaps)


def _grid(panel: Panel, axes: _Axes) -> Iterator[str]:
    count = round((axes.high - axes.low) / axes.step)
    digits = max(0, -math.floor(math.log10(axes.step) + 1e-9)) if axes.step < 1 else 0
    if axes.step == 2.5:
        digits = 1
    for number in range(count + 1):
        value = axes.low + number * axes.step
        y = axes.y(value)
        yield (
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{value:.{digits}f}</text>'
        )
    below = HEIGHT - BOTTOM + 15
    slanted = _is_slanted(panel)
    for mark, x in zip(panel.marks, axes.places, strict=True):
        turn = f' transform="rotate(-32 {x:.1f} {below})" text-anchor="end"' if slanted else ""
        anchor = "" if slanted else ' text-anchor="middle"'
        yield f'<text x="{x:.1f}" y="{below}"{anchor}{turn}>{escape(mark)}</text>'


def _is_slanted(panel: Panel) -> bool:
    """Whether the marks are too long to stand beside each other."""
    return sum(len(mark) for mark in panel.marks) > 46


def _axis_names(panel: Panel, axes: _Axes, kind: str) -> Iterator[str]:
    x, below, anchor = LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - BOTTOM + 34, "middle"
    if _is_slanted(panel):  # to the right of all marks, which run down to the left
        x, below, anchor = WIDTH - RIGHT, HEIGHT - 8, "end"
    yield (
        f'<text x="{x:.1f}" y="{below:.1f}" text-anchor="{anchor}">{escape(panel.x_label)}</text>'
    )
    y = TOP + (HEIGHT - TOP - BOTTOM) / 2
    is_cut = kind == "bars" and axes.low > 0
    name = f"{panel.y_label} (axis begins at {axes.low:g})" if is_cut else panel.y_label
    yield (
        f'<text x="12" y="{y:.1f}" text-anchor="middle" transform="rotate(-90 12 {y:.1f})">'
        f"{escape(name)}</text>"
    )


def _curve(series: Series, axes: _Axes, number: int, at: int, *, spans_gaps: bool) -> Iterator[str]:
    shift = 1.6 * ((at + 1) // 2) * (-1 if at % 2 else 1)  # whiskers beside each other
    placed = [(x + shift, each) for x, each in zip(axes.places, series.points, strict=True)]
    held = [(x, point) for x, point in placed if point is not None]
    stroke = (
        f' stroke-dasharray="{_of_cycle(STROKES, number)}"' if _of_cycle(STROKES, number) else ""
    )
    colour = _of_cycle(COLOURS, number)
    for run in _unbroken(held if spans_gaps else placed):
        path = " ".join(f"{x:.1f},{axes.y(point.mean):.1f}" for x, point in run)
        drawn = f'fill="none" stroke="{colour}" stroke-width="1.8"{stroke}'
        yield f'<polyline points="{path}" {drawn}/>'
    for x, point in held:
        yield from _whisker(x, point, axes, colour)
        yield _shape(x, axes.y(point.mean), number)
        yield from _published(x, point, axes, colour)


def _unbroken(
    placed: Sequence[tuple[float, Estimate | None]],
) -> list[list[tuple[float, Estimate]]]:
    """Return the runs of neighbouring points: no line crosses a mark where nothing was run."""
    runs: list[list[tuple[float, Estimate]]] = [[]]
    for x, point in placed:
        if point is None:
            runs.append([])
        else:
            runs[-1].append((x, point))
    return [run for run in runs if len(run) > 1]


def _bars(series: Series, axes: _Axes, number: int, at: int, of: int) -> Iterator[str]:
    room = (WIDTH - LEFT - RIGHT) / max(1, len(axes.places)) * 0.8
    width = room / of
    for middle, point in zip(axes.places, series.points, strict=True):
        if point is None:
            continue
        x = middle - room / 2 + at * width
        top, base = axes.y(point.mean), axes.y(max(axes.low, min(0.0, axes.high)))
        y, height = min(top, base), abs(base - top)
        yield (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width * 0.92:.1f}" height="{height:.1f}" '
            f"{_fill(number)}/>"
        )
        yield from _whisker(x + width * 0.46, point, axes, "#000000")
        yield from _published(x + width * 0.46, point, axes, "#000000")


def _whisker(x: float, point: Estimate, axes: _Axes, colour: str) -> Iterator[str]:
    interval = _interval(point)
    if interval is None:
        return
    low, high = (axes.y(each) for each in interval)
    ends = "".join(
        f'<line x1="{x - 3:.1f}" y1="{y:.1f}" x2="{x + 3:.1f}" y2="{y:.1f}" stroke="{colour}"/>'
        for y in (low, high)
    )
    yield (
        f'<line x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}" stroke="{colour}"/>{ends}'
    )


def _published(x: float, point: Estimate, axes: _Axes, colour: str) -> Iterator[str]:
    if point.published is not None:
        yield _open_diamond(x, axes.y(point.published), colour)


def _open_diamond(x: float, y: float, colour: str) -> str:
    return (
        f'<path d="M{x:.1f} {y - 5:.1f} l5 5 l-5 5 l-5 -5 z" fill="none" stroke="{colour}">'
        "<title>published</title></path>"
    )


def _fill(number: int) -> str:
    """Return colour and shade of bars: they differ in grey print too."""
    opacity = (1.0, 0.55, 0.8)[number % 3]
    return f'fill="{_of_cycle(COLOURS, number)}" fill-opacity="{opacity}" stroke="#333"'


def _line(x1: float, y1: float, x2: float, y2: float, number: int) -> str:
    dash = _of_cycle(STROKES, number)
    stroke = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{_of_cycle(COLOURS, number)}" '
        f'stroke-width="1.8"{stroke}/>'
    )


def _shape(x: float, y: float, number: int) -> str:
    colour, shape = _of_cycle(COLOURS, number), _of_cycle(SHAPES, number)
    forms = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>',
        "square": f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6" fill="{colour}"/>',
        "triangle": f'<path d="M{x:.1f} {y - 4:.1f} l4 7 l-8 0 z" fill="{colour}"/>',
        "diamond": f'<path d="M{x:.1f} {y - 4:.1f} l4 4 l-4 4 l-4 -4 z" fill="{colour}"/>',
        "cross": f'<path d="M{x - 3:.1f} {y - 3:.1f} l6 6 m0 -6 l-6 6" stroke="{colour}" '
        'stroke-width="1.8"/>',
        "plus": f'<path d="M{x - 4:.1f} {y:.1f} l8 0 m-4 -4 l0 8" stroke="{colour}" '
        'stroke-width="1.8"/>',
    }
    return forms[shape]


def _of_cycle(held: Sequence[str], number: int) -> str:
    return held[number % len(held)]
