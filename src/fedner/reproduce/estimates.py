"""Means over repeats, and the rows that they are taken of."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import stdev

from fedner.reproduce.reproduction import Estimate, Factor, Row, Series
from fedner.scoring import mean_interval


def chosen(rows: Sequence[Row], **factors: Factor) -> list[Row]:
    """Return the rows that have all these factors."""
    return [
        row
        for row in rows
        if all(row.factors.get(name) == value for name, value in factors.items())
    ]


def values_of(rows: Sequence[Row], measure: str, **factors: Factor) -> list[float]:
    """Return a measure of the rows that have all these factors, in the order of the repeats."""
    held = sorted(chosen(rows, **factors), key=lambda row: row.factors.get("repeat", 0))
    found = (row.measures.get(measure) for row in held)
    return [value for value in found if value is not None]


def estimate(values: Sequence[float], published: float | None = None) -> Estimate | None:
    """Return the mean of some repeats with deviation and interval; None of none."""
    if not values:
        return None
    mean = sum(values) / len(values)
    if len(values) == 1:
        return Estimate(mean, None, None, None, 1, published)
    interval = mean_interval(values)
    return Estimate(mean, stdev(values), interval.low, interval.high, len(values), published)


def estimated(
    rows: Sequence[Row], measure: str, published: float | None = None, **factors: Factor
) -> Estimate | None:
    """Return the mean of a measure over the rows that have all these factors."""
    return estimate(values_of(rows, measure, **factors), published)


def paired_gain(
    rows: Sequence[Row], measure: str, before: dict[str, Factor], after: dict[str, Factor]
) -> Estimate | None:
    """Return the mean difference of two ways over the repeats that both have.

    Args:
        rows: All rows.
        measure: What is compared.
        before: The factors of the first way.
        after: Those of the second.
    """
    first, second = (_by_repeat(rows, measure, each) for each in (before, after))
    return estimate([second[repeat] - first[repeat] for repeat in sorted(first.keys() & second)])


def gain_between(
    rows: Sequence[Row], place: Mapping[str, Factor], factor: str, before: Factor, after: Factor
) -> Estimate | None:
    """Return the paired gain in strict F1, at one place, from one value of a factor to another."""
    return paired_gain(rows, "strict_f1", {**place, factor: before}, {**place, factor: after})


def series_along(
    rows: Sequence[Row],
    label: str,
    places: Iterable[Mapping[str, Factor]],
    measure: str = "strict_f1",
) -> Series:
    """Return a curve, or the bars of one colour: the mean of a measure at each place."""
    return Series(label, tuple(estimated(rows, measure, None, **place) for place in places))


def _by_repeat(
    rows: Sequence[Row], measure: str, factors: dict[str, Factor]
) -> dict[Factor, float]:
    found = {}
    for row in chosen(rows, **factors):
        value = row.measures.get(measure)
        if value is not None:
            found[row.factors.get("repeat", 0)] = value
    return found
