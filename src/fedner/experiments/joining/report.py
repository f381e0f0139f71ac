"""The study for people: tables in Markdown, and one picture that says it all."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from fedner.durable import write_text
from fedner.experiments.joining.statistics import Gain, cells, gain, holm, worth
from fedner.experiments.joining.study import ALL, MIDDLE, NEWCOMERS, SIZES, Point
from fedner.experiments.joining.zero_shot import UnseenType
from fedner.seeds import seeded

LOCAL, JOINED = "local-only", "joined"
_NAMES = {
    "ade": "ADE Corpus",
    "psytar": "PsyTAR",
    "twimed": "TwiMed",
    "bc5cdr": "BC5CDR",
    "btc-e": "BTC-e",
}
_RESAMPLES = 1_000


def tables(points: Sequence[Point], unseen: Sequence[UnseenType] = ()) -> str:
    """Return all tables in Markdown."""
    parts = [
        _by_size(points),
        _by_newcomer(points),
        _other_arms(points),
        _worth(points),
        _unseen(unseen),
    ]
    return "\n\n".join(part for part in parts if part)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _said(size: int) -> str:
    return "all" if size == ALL else str(size)


def _interval(found: Gain) -> str:
    return f"{found.value:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


def _sizes(points: Sequence[Point]) -> list[int]:
    present = {each.size for each in points}
    return [size for size in (*SIZES, ALL) if size in present]


def _by_size(points: Sequence[Point]) -> str:
    """Return gains by size: joined and what would be kept, against local-only."""
    found = {size: gain(cells(points, size, LOCAL), cells(points, size, JOINED)) for size in _sizes(points)}
    corrected = holm({size: each.p for size, each in found.items() if each is not None})
    rows = []
    for size, each in found.items():
        if each is None:
            continue
        kept = gain(cells(points, size, LOCAL), cells(points, size, "kept"))
        worst = min(each.losses.values(), default=0.0)
        rows.append(
            [
                _said(size),
                f"{_mean(points, size, LOCAL):.1f}",
                f"{_mean(points, size, JOINED):.1f}",
                _interval(each),
                f"{corrected[size]:.4f}",
                "" if kept is None else _interval(kept),
                f"{len(each.losses)} of {each.num_cells}, worst {worst:+.1f}",
            ]
        )
    head = ("own sentences", "alone", "joined", "gain", "p (Holm)", "gain of what is kept", "lost")
    return _table(head, rows) if rows else ""


def _mean(points: Sequence[Point], size: int, arm: str) -> float:
    """Return the mean over newcomers of the mean over seeds."""
    held = cells(points, size, arm)
    names = sorted({name for name, _ in held})
    return fmean(fmean(v for (name, _), v in held.items() if name == each) for each in names)


def _by_newcomer(points: Sequence[Point]) -> str:
    rows = []
    for newcomer in NEWCOMERS:
        own = [each for each in points if each.newcomer == newcomer]
        if not own:
            continue
        row = [_NAMES[newcomer]]
        for size in (0, *SIZES, ALL):
            alone, joined = cells(own, size, LOCAL), cells(own, size, JOINED)
            if not joined:
                row.append("")
            elif not alone:
                row.append(f"{fmean(joined.values()):.1f}")
            else:
                row.append(f"{fmean(alone.values()):.1f} -> {fmean(joined.values()):.1f}")
        rows.append(row)
    head = ("newcomer", "0", *map(str, SIZES), "all")
    return _table(head, rows) if rows else ""


def _other_arms(points: Sequence[Point]) -> str:
    """Return every arm against local-only at the middle size, and its scores without sentences."""
    alone = cells(points, MIDDLE, LOCAL)
    arms = dict.fromkeys(each.arm for each in points if each.size == MIDDLE)
    rows = []
    for arm in arms:
        found = gain(alone, cells(points, MIDDLE, arm))
        if found is None or arm == LOCAL:
            continue
        zero = cells(points, 0, arm)
        rows.append(
            [
                arm,
                _interval(found),
                *(f"{found.by_newcomer[each]:+.1f}" if each in found.by_newcomer else "" for each in NEWCOMERS),
                f"{fmean(zero.values()):.1f}" if zero else "",
                str(found.num_cells),
            ]
        )
    head = ("arm", f"gain at {MIDDLE}", *_NAMES.values(), "F1 at 0", "cells")
    return _table(head, rows) if rows else ""


def _worth(points: Sequence[Point]) -> str:
    """Return what joining is worth in own sentences, by newcomer and size."""
    rows = []
    for newcomer in NEWCOMERS:
        own = [each for each in points if each.newcomer == newcomer]
        row = [_NAMES[newcomer]]
        for size in (0, 25, 50, MIDDLE):
            row.append(_worth_words(own, size))
        if any(row[1:]):
            rows.append(row)
    head = ("joined with ... is worth", "0", "25", "50", str(MIDDLE))
    return _table(head, rows) if rows else ""


def _worth_words(own: Sequence[Point], size: int) -> str:
    joined = list(cells(own, size, JOINED).items())
    curve = _curve(own)
    if not joined or len(curve) < 2:
        return ""
    generator = seeded(0, "joining", "worth")
    values = []
    for _ in range(_RESAMPLES):
        drawn = {
            count: fmean(generator.choice(scores, len(scores))) for count, scores in curve.items()
        }
        scores = [value for _, value in joined]
        values.append(worth(drawn, fmean(generator.choice(scores, len(scores)))))
    # What the curve never reaches is worth more than all there is.
    most = max(curve)
    numbers = [most + 1.0 if value is None else value for value in values]
    low, middle, high = np.percentile(numbers, (2.5, 50, 97.5))

    def said(value: float) -> str:
        return f"over {most}" if value > most else f"{value:.0f}"

    return f"{said(middle)} ({said(low)} to {said(high)})"


def _curve(own: Sequence[Point]) -> dict[int, list[float]]:
    """Return the scores of local-only by the number of own sentences."""
    found: dict[int, list[float]] = {}
    for each in own:
        if each.arm == LOCAL:
            found.setdefault(each.sentences, []).append(each.f1)
    # Splits by document differ by a few sentences from seed to seed: all of them are one size.
    whole = [each.sentences for each in own if each.arm == LOCAL and each.size == ALL]
    if whole:
        merged = [score for count in set(whole) for score in found.pop(count)]
        found[round(fmean(whole))] = merged
    return found


def _unseen(unseen: Sequence[UnseenType]) -> str:
    """Return the scores of types that no partner annotated."""
    if not unseen:
        return ""
    held: dict[tuple[str, str, str], list[float]] = {}
    for each in unseen:
        held.setdefault((each.group, each.platform, each.type), []).append(each.f1)
    rows = [
        [group, platform, label, f"{fmean(scores):.1f}"]
        for (group, platform, label), scores in held.items()
    ]
    mean = fmean(fmean(scores) for scores in held.values())
    rows.append(["mean", "", "", f"{mean:.1f}"])
    return _table(("left out everywhere", "platform", "type", "F1"), rows)


def picture(points: Sequence[Point], path: Path) -> None:
    """Draw own sentences against F1, alone and joined, one panel a newcomer and one for all."""
    panels = [(name, [each for each in points if each.newcomer == name]) for name in NEWCOMERS]
    drawn = [(_NAMES[name], own) for name, own in panels if own]
    write_text(path, _svg(drawn))


_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 250.0, 220.0, 44.0, 44.0, 40.0
_COLOURS = {LOCAL: "#7a7a7a", JOINED: "#0b6e4f"}
_PLACES = {0: 0.0, 25: 1.0, 50: 2.0, 100: 3.0, 200: 4.0, 400: 5.0, ALL: 6.5}


def _svg(panels: Sequence[tuple[str, Sequence[Point]]]) -> str:
    columns = 3
    num_rows = -(-len(panels) // columns)
    width, height = columns * _WIDTH, num_rows * _HEIGHT + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="11" '
        'role="img" aria-label="Strict F1 by own annotated sentences, alone and joined">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        *_legend(),
    ]
    for number, (title, own) in enumerate(panels):
        x, y = (number % columns) * _WIDTH, 40 + (number // columns) * _HEIGHT
        parts.append(f'<g transform="translate({x:.0f} {y:.0f})">')
        parts += _panel(title, own)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> Iterator[str]:
    words = {
        JOINED: "with a received model (nothing is sent)",
        LOCAL: "alone, tuned by cross-validation",
    }
    x = _LEFT
    for arm, text in words.items():
        colour = _COLOURS[arm]
        yield f'<line x1="{x}" y1="20" x2="{x + 24}" y2="20" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{x + 30}" y="24" fill="{colour}">{text}</text>'
        x += 300


def _panel(title: str, own: Sequence[Point]) -> Iterator[str]:
    scores = [each.f1 for each in own if each.arm in (LOCAL, JOINED)]
    low, high = 10 * np.floor(min(scores) / 10), 10 * np.ceil(max(scores) / 10)

    def at(size: int, score: float) -> tuple[float, float]:
        x = _LEFT + _PLACES[size] / _PLACES[ALL] * (_WIDTH - _LEFT - 14)
        y = _HEIGHT - _BOTTOM - (score - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)
        return x, y

    yield f'<text x="{_LEFT}" y="{_TOP - 14}" font-weight="bold" font-size="13">{title}</text>'
    for score in np.arange(low, high + 1, 10):
        left, y = at(0, float(score))
        right, _ = at(ALL, float(score))
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#e4e4e4"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{score:.0f}</text>'
    for size in (0, *_sizes(own)):
        x, y = at(size, low)
        yield f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{_said(size)}</text>'
    middle, y = at(100, low)
    yield f'<text x="{middle:.1f}" y="{y + 32:.1f}" text-anchor="middle">own sentences</text>'
    for arm, colour in _COLOURS.items():
        held = {size: cells(own, size, arm) for size in _PLACES}
        yield from _curve_of({size: list(each.values()) for size, each in held.items() if each}, at, colour)


def _curve_of(held: Mapping[int, list[float]], at, colour: str) -> Iterator[str]:  # type: ignore[no-untyped-def]
    places = [at(size, fmean(scores)) for size, scores in held.items()]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
    for (size, scores), (x, y) in zip(held.items(), places, strict=True):
        (_, top), (_, bottom) = at(size, max(scores)), at(size, min(scores))
        yield (
            f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" '
            f'stroke="{colour}" stroke-opacity="0.4"/>'
        )
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
