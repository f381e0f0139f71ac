"""Curves stay small, and do not depend on how they were read."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.runs.watch.thinned import Point, Thinned


def curve_of(values: list[float], most: int = 8) -> Thinned:
    curve = Thinned(most)
    for number, value in enumerate(values, start=1):
        curve.add(number, value)
    return curve


def test_few_values_are_kept_as_they_are() -> None:
    assert curve_of([3.0, 1.0]).points == (Point(1, 1, 3.0, 3.0, 3.0), Point(2, 2, 1.0, 1.0, 1.0))


def test_neighbours_are_taken_together_with_mean_and_extremes() -> None:
    curve = curve_of([1.0, 3.0, 5.0, 7.0, 9.0], most=4)
    assert curve.stride == 2
    assert curve.points == (
        Point(1, 2, 2.0, 1.0, 3.0),
        Point(3, 4, 6.0, 5.0, 7.0),
        Point(5, 5, 9.0, 9.0, 9.0),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=200), st.sampled_from([2, 4, 6, 8]))
def test_a_thinned_curve_covers_every_round_once_and_is_small(
    values: list[float], most: int
) -> None:
    curve = curve_of(values, most)
    points = curve.points
    assert len(points) <= most
    assert [points[0].first, points[-1].last] == [1, len(values)]
    assert all(one.last + 1 == other.first for one, other in pairwise(points))
    for each in points:
        held = values[each.first - 1 : each.last]
        assert (each.low, each.high) == (min(held), max(held))
        assert abs(each.mean - sum(held) / len(held)) < 1e-9
    full = points[:-1]
    assert all(each.last - each.first + 1 == curve.stride for each in full)


def test_a_hundred_thousand_rounds_are_a_few_hundred_points() -> None:
    curve = curve_of([float(number) for number in range(100_000)], most=400)
    assert 200 <= len(curve.points) <= 400
    assert curve.points[-1].last == 100_000
