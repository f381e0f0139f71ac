"""The study for people: its tables in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from fedner.experiments.joining.statistics import RESAMPLES, Gain, cells, gain, holm, worth
from fedner.experiments.joining.study import ALL, MIDDLE, NEWCOMERS, SIZES, Point
from fedner.experiments.joining.zero_shot import UnseenType
from fedner.seeds import seeded

LOCAL, JOINED = "local-only", "joined"
NAMES = {
    "ade": "ADE Corpus",
    "psytar": "PsyTAR",
    "twimed": "TwiMed",
    "bc5cdr": "BC5CDR",
    "btc-e": "BTC-e",
}
_RESAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class Lines:
    """A table in words.

    Attributes:
        name: Names it.
        title: What it shows.
        head: The heads of its columns.
        rows: Its rows.
    """

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(
    points: Sequence[Point],
    unseen: Sequence[UnseenType] = (),
    resamples: int = RESAMPLES,
) -> list[Lines]:
    """Return all tables that have rows.

    Args:
        points: Of newcomers.
        unseen: Of types that nobody annotated.
        resamples: How often intervals resample newcomers and seeds.
    """
    found = (
        _by_size(points, resamples),
        _by_newcomer(points),
        _other_arms(points, resamples),
        _worth(points, min(resamples, _RESAMPLES)),
        _unseen(unseen),
    )
    return [each for each in found if each.rows]


def _lines(name: str, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Lines:
    return Lines(name, title, tuple(head), tuple(tuple(row) for row in rows))


def _said(size: int) -> str:
    return "all" if size == ALL else str(size)


def _interval(found: Gain) -> str:
    return f"{found.value:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


def _sizes(points: Sequence[Point]) -> list[int]:
    present = {each.size for each in points}
    return [size for size in (*SIZES, ALL) if size in present]


def _by_size(points: Sequence[Point], resamples: int) -> Lines:
    """Return gains by size: joined and what would be kept, against local-only."""
    found = {
        size: gain(cells(points, size, LOCAL), cells(points, size, JOINED), resamples)
        for size in _sizes(points)
    }
    gains = {size: each for size, each in found.items() if each is not None}
    corrected = holm({size: each.p for size, each in gains.items()})
    rows = [
        _size_row(points, size, each, corrected[size], resamples) for size, each in gains.items()
    ]
    head = ("own sentences", "alone", "joined", "gain", "p (Holm)", "gain of what is kept", "lost")
    return _lines(
        "joining-gains", "What joining gains over being alone, by own sentences", head, rows
    )


def _size_row(
    points: Sequence[Point], size: int, found: Gain, p: float, resamples: int
) -> list[str]:
    kept = gain(cells(points, size, LOCAL), cells(points, size, "kept"), resamples)
    worst = f", worst {min(found.losses.values()):+.1f}" if found.losses else ""
    return [
        _said(size),
        f"{_mean(points, size, LOCAL):.1f}",
        f"{_mean(points, size, JOINED):.1f}",
        _interval(found),
        f"{p:.4f}",
        "" if kept is None else _interval(kept),
        f"{len(found.losses)} of {found.num_cells}{worst}",
    ]


def _mean(points: Sequence[Point], size: int, arm: str) -> float:
    """Return the mean over newcomers of the mean over seeds."""
    held = cells(points, size, arm)
    names = sorted({name for name, _ in held})
    return fmean(fmean(v for (name, _), v in held.items() if name == each) for each in names)


def _by_newcomer(points: Sequence[Point]) -> Lines:
    """Return the scores of each newcomer at each size, alone and joined."""
    rows = []
    for newcomer in NEWCOMERS:
        own = [each for each in points if each.newcomer == newcomer]
        if own:
            scores = [_scores_in_words(own, size) for size in (0, *SIZES, ALL)]
            rows.append([NAMES[newcomer], *scores])
    head = ("newcomer", "0", *map(str, SIZES), "all")
    return _lines(
        "joining-newcomers", "Strict F1 alone -> joined, by newcomer and own sentences", head, rows
    )


def _scores_in_words(own: Sequence[Point], size: int) -> str:
    """Return one newcomer's mean scores at one size."""
    alone, joined = cells(own, size, LOCAL), cells(own, size, JOINED)
    if not joined:
        return ""
    after = f"{fmean(joined.values()):.1f}"
    return f"{fmean(alone.values()):.1f} -> {after}" if alone else after


def _other_arms(points: Sequence[Point], resamples: int) -> Lines:
    """Return every arm against local-only at the middle size, and its scores without sentences."""
    alone = cells(points, MIDDLE, LOCAL)
    rows = []
    for arm in dict.fromkeys(each.arm for each in points if each.size == MIDDLE):
        found = gain(alone, cells(points, MIDDLE, arm), resamples)
        if found is None or arm == LOCAL:
            continue
        zero = cells(points, 0, arm)
        by_newcomer = [
            f"{found.by_newcomer[each]:+.1f}" if each in found.by_newcomer else ""
            for each in NEWCOMERS
        ]
        without = f"{fmean(zero.values()):.1f}" if zero else ""
        rows.append([arm, _interval(found), *by_newcomer, without, str(found.num_cells)])
    head = ("arm", f"gain at {MIDDLE}", *NAMES.values(), "F1 at 0", "cells")
    return _lines(
        "joining-arms", f"Every arm against being alone, with {MIDDLE} own sentences", head, rows
    )


def _worth(points: Sequence[Point], resamples: int) -> Lines:
    """Return what joining is worth in own sentences, by newcomer and size."""
    sizes = (0, 25, 50, MIDDLE)
    rows = []
    for newcomer in NEWCOMERS:
        own = [each for each in points if each.newcomer == newcomer]
        words = [_worth_in_words(own, size, resamples) for size in sizes]
        if any(words):
            rows.append([NAMES[newcomer], *words])
    head = ("joined with ... is worth", *map(str, sizes))
    return _lines("joining-worth", "How many own sentences a received model is worth", head, rows)


def _worth_in_words(own: Sequence[Point], size: int, resamples: int) -> str:
    """Return the median and the 95 % interval over resampled seeds."""
    joined = list(cells(own, size, JOINED).values())
    curve = _curve(own)
    if not joined or len(curve) < 2:
        return ""
    generator = seeded(0, "joining", "worth")
    # What the curve never reaches is worth more than all there is; what it begins above, less than
    # the fewest sentences that anybody was trained on alone.
    least, most = min(curve), max(curve)
    numbers = []
    for _ in range(resamples):
        drawn = {
            count: fmean(generator.choice(scores, len(scores))) for count, scores in curve.items()
        }
        value = worth(drawn, fmean(generator.choice(joined, len(joined))))
        numbers.append(most + 1.0 if value is None else value)

    def said(value: float) -> str:
        if value <= least:
            return f"under {least}"
        return f"over {most}" if value > most else f"{value:.0f}"

    low, middle, high = np.percentile(numbers, (2.5, 50, 97.5))
    if low > most or high <= least:
        return said(middle)
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


def _unseen(unseen: Sequence[UnseenType]) -> Lines:
    """Return the scores of types that no partner annotated."""
    held: dict[tuple[str, str, str], list[float]] = {}
    for each in unseen:
        held.setdefault((each.group, each.platform, each.type), []).append(each.f1)
    rows = [
        [group, platform, label, f"{fmean(scores):.1f}"]
        for (group, platform, label), scores in held.items()
    ]
    if rows:
        mean = fmean(fmean(scores) for scores in held.values())
        rows.append(["mean", "", "", f"{mean:.1f}"])
    head = ("left out everywhere", "platform", "type", "F1")
    return _lines("joining-unseen", "Types that no partner annotated", head, rows)
