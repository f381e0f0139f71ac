"""The study in one picture: own sentences against F1, alone and joined, one panel a newcomer."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from fedner.durable import write_text
from fedner.experiments.joining.report import JOINED, LOCAL, NAMES
from fedner.experiments.joining.statistics import cells
from fedner.experiments.joining.study import ALL, MIDDLE, NEWCOMERS, Point

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 250.0, 220.0, 44.0, 44.0, 40.0
_COLUMNS = 3
_COLOURS = {LOCAL: "#7a7a7a", JOINED: "#0b6e4f"}
_LEGEND = {
    JOINED: "with a received model (nothing is sent)",
    LOCAL: "alone, tuned by cross-validation",
}
_PLACES = {0: 0.0, 25: 1.0, 50: 2.0, 100: 3.0, 200: 4.0, 400: 5.0, ALL: 6.5}


def draw(points: Sequence[Point], path: Path) -> None:
    """Draw all newcomers that have points of local-only or joined."""
    panels = []
    for newcomer in NEWCOMERS:
        own = [each for each in points if each.newcomer == newcomer and each.arm in _COLOURS]
        if own:
            panels.append((NAMES[newcomer], own))
    write_text(path, _svg(panels))


def _svg(panels: Sequence[tuple[str, Sequence[Point]]]) -> str:
    num_rows = -(-len(panels) // _COLUMNS)
    width, height = f"{_COLUMNS * _WIDTH:.0f}", f"{num_rows * _HEIGHT + 50:.0f}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11" '
        'role="img" aria-label="Strict F1 by own annotated sentences, alone and joined">'
    )
    parts = [head, f'<rect width="{width}" height="{height}" fill="white"/>', *_legend()]
    for number, (title, own) in enumerate(panels):
        x, y = (number % _COLUMNS) * _WIDTH, 40 + (number // _COLUMNS) * _HEIGHT
        parts.append(f'<g transform="translate({x:.0f} {y:.0f})">')
        parts += _panel(title, own)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> Iterator[str]:
    x = _LEFT
    for arm, text in _LEGEND.items():
        colour = _COLOURS[arm]
        yield f'<line x1="{x}" y1="20" x2="{x + 24}" y2="20" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{x + 30}" y="24" fill="{colour}">{text}</text>'
        x += 300


@dataclass(frozen=True, slots=True)
class _Axes:
    """Where a score of a size stands in a panel; scores from `low` to `high` have room."""

    low: int
    high: int

    @classmethod
    def of(cls, scores: Sequence[float]) -> "_Axes":
        """Return axes between round numbers."""
        low = 10 * math.floor(min(scores) / 10)
        return cls(low, max(low + 10, 10 * math.ceil(max(scores) / 10)))

    def x(self, size: int) -> float:
        """Return how far right a size is."""
        return _LEFT + _PLACES[size] / _PLACES[ALL] * (_WIDTH - _LEFT - 14)

    def y(self, score: float) -> float:
        """Return how far down a score is."""
        share = (score - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _panel(title: str, own: Sequence[Point]) -> Iterator[str]:
    axes = _Axes.of([each.f1 for each in own])
    yield f'<text x="{_LEFT}" y="{_TOP - 14}" font-weight="bold" font-size="13">{title}</text>'
    yield f'<text x="{_LEFT - 6}" y="{_TOP - 14}" text-anchor="end">F1</text>'
    yield from _grid(axes, [size for size in _PLACES if size in {each.size for each in own}])
    for arm, colour in _COLOURS.items():
        held = {size: list(cells(own, size, arm).values()) for size in _PLACES}
        yield from _curve({size: each for size, each in held.items() if each}, axes, colour)


def _grid(axes: _Axes, sizes: Sequence[int]) -> Iterator[str]:
    """Yield a line for every ten points of F1, and the sizes below."""
    left, right = axes.x(0), axes.x(ALL)
    for score in range(axes.low, axes.high + 1, 10):
        y = axes.y(score)
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#e4e4e4"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{score}</text>'
    below = axes.y(axes.low) + 16
    for size in sizes:
        text = "all" if size == ALL else str(size)
        yield f'<text x="{axes.x(size):.1f}" y="{below:.1f}" text-anchor="middle">{text}</text>'
    middle = axes.x(MIDDLE)
    yield f'<text x="{middle:.1f}" y="{below + 16:.1f}" text-anchor="middle">own sentences</text>'


def _curve(held: Mapping[int, Sequence[float]], axes: _Axes, colour: str) -> Iterator[str]:
    """Yield the line through the means, with a stroke from the lowest to the highest seed."""
    places = [(axes.x(size), axes.y(fmean(scores))) for size, scores in held.items()]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
    for (x, y), scores in zip(places, held.values(), strict=True):
        top, bottom = axes.y(max(scores)), axes.y(min(scores))
        yield (
            f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" '
            f'stroke="{colour}" stroke-opacity="0.4"/>'
        )
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
