"""Curves that stay small: neighbours are taken together when there are too many points to draw."""

from collections.abc import Sequence
from typing import NamedTuple

MOST_POINTS = 400


class Point(NamedTuple):
    """Some neighbouring rounds of a curve, taken together; often one alone.

    Attributes:
        first: The first round.
        last: The last round.
        mean: The mean of their values.
        low: The lowest of these.
        high: The highest of these.
    """

    first: int
    last: int
    mean: float
    low: float
    high: float


class Thinned:
    """A curve of at most `most` points, whatever it was given; a value costs constant work.

    Which rounds are taken together depends on how many values there are, and on nothing else: a
    curve that grew line by line is that of one which was read at once.
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most + most % 2
        self._stride = 1
        self._in_last = 0
        self._points: list[Point] = []

    @property
    def points(self) -> Sequence[Point]:
        """The points, by round."""
        return tuple(self._points)

    @property
    def stride(self) -> int:
        """How many values a point stands for; the last may have fewer."""
        return self._stride

    def add(self, round_: int, value: float) -> None:
        """Add the value of a round after all others."""
        single = Point(round_, round_, value, value, value)
        if self._points and self._in_last < self._stride:
            self._points[-1] = _together(self._points[-1], self._in_last, single, 1)
            self._in_last += 1
            return
        if len(self._points) == self._most:
            self._halve()
        self._points.append(single)
        self._in_last = 1

    def _halve(self) -> None:
        """Take pairs of points together; all are full, and their number is even."""
        pairs = zip(self._points[::2], self._points[1::2], strict=True)
        self._points = [_together(one, 1, other, 1) for one, other in pairs]
        self._stride *= 2


def _together(one: Point, weight: int, other: Point, other_weight: int) -> Point:
    mean = (one.mean * weight + other.mean * other_weight) / (weight + other_weight)
    return Point(one.first, other.last, mean, min(one.low, other.low), max(one.high, other.high))
