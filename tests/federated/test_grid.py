"""The grid: exact sums modulo a power of two, with a stated range and error."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.federated.grid import Grid, OutOfRangeError
from fedner.federated.tensor_bytes import NotFiniteError

BITS = st.sampled_from([32, 64])


@st.composite
def summands(draw: st.DrawFn) -> tuple[Grid, list[list[float]]]:
    grid = Grid(2.0 ** draw(st.integers(-30, 10)), draw(BITS))
    number = draw(st.integers(1, 20))
    most = grid.largest(number)
    row = st.lists(st.floats(-most, most), min_size=3, max_size=3)
    return grid, draw(st.lists(row, min_size=number, max_size=number))


@given(summands())
def test_the_sum_of_words_is_the_sum_of_the_numbers_within_the_stated_error(
    drawn: tuple[Grid, list[list[float]]],
) -> None:
    grid, rows = drawn
    words = [grid.encode(np.array(row), len(rows)) for row in rows]
    total = np.zeros(3, grid.dtype)
    for each in words:
        total += each
    exact = [sum(Fraction(row[place]) for row in rows) for place in range(3)]
    slack = Fraction(grid.largest_error(len(rows)))
    for found, expected in zip(grid.decode(total), exact, strict=True):
        # Beyond 53 bits float64 itself rounds.
        assert abs(Fraction(float(found)) - expected) <= slack + abs(expected) * Fraction(2) ** -52


@given(BITS, st.data())
def test_multiples_of_the_step_are_exact(bits: int, data: st.DataObject) -> None:
    grid = Grid(2.0**-7, bits)
    most = min(grid.largest_count(3), 2**53)
    counts = np.array(data.draw(st.lists(st.integers(-most, most), min_size=1)), np.int64)
    words = grid.encode(counts * grid.step, 3)
    assert (words == grid.encode_counts(counts, 3)).all()
    assert (grid.decode_counts(words) == counts).all()
    assert (grid.decode(words) == counts * 2.0**-7).all()


def test_words_are_those_of_two_s_complement() -> None:
    grid = Grid(0.5, 32)
    assert grid.encode(np.float32([0, 0.5, -0.5, 1.2, -63.5]), 1).tolist() == [
        0, 1, 2**32 - 1, 2, 2**32 - 127,
    ]  # fmt: skip
    words = np.uint32([0, 1, 2**32 - 1, 2**31])
    assert grid.decode(words).tolist() == [0.0, 0.5, -0.5, -(2.0**30)]
    assert (Grid(1.0, 32).dtype.itemsize, Grid(1.0, 64).dtype.itemsize) == (4, 8)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("number", [1, 3, 20])
def test_what_could_wrap_around_is_refused(bits: int, number: int) -> None:
    grid = Grid(1.0, bits)
    most = grid.largest_count(number)
    assert most * number < 2 ** (bits - 1) <= (most + 1) * number + number
    edge = np.array([most, -most], np.int64)
    total = sum((grid.encode_counts(edge, number) for _ in range(number)), np.zeros(2, grid.dtype))
    assert grid.decode_counts(total).tolist() == [most * number, -most * number]
    if most < 2**53:  # beyond, float64 has no next whole number
        for beyond in (most + 1.0, -most - 1.0):
            with pytest.raises(OutOfRangeError, match="larger than"):
                grid.encode(np.array([0.0, beyond]), number)
    for over in (most + 1, -most - 1):
        if abs(over) < 2**63:
            with pytest.raises(OutOfRangeError):
                grid.encode_counts(np.array([over], np.int64), number)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(wrong: float) -> None:
    with pytest.raises(NotFiniteError):
        Grid(1.0).encode(np.array([0.0, wrong]), 2)
    with pytest.raises((NotFiniteError, OutOfRangeError)):
        Grid(2.0**-40).encode(np.array([1e300]), 2)


@pytest.mark.parametrize("step", [0.0, -1.0, 0.3, np.nan, np.inf, 2.0**-600])
def test_a_step_is_a_power_of_two(step: float) -> None:
    with pytest.raises(FednerError, match="power of two"):
        Grid(step)


def test_a_word_is_exactly_as_wide_as_the_modulus() -> None:
    """In a wider one the sum would tell how many numbers are below 0."""
    for bits in (8, 33, 65):
        with pytest.raises(FednerError, match="expected 32 or 64"):
            Grid(1.0, bits)
    with pytest.raises(FednerError, match="summands"):
        Grid(1.0).largest(0)


def test_inputs_are_not_changed_and_may_be_empty() -> None:
    values = np.float32([1.5, -2.5])
    Grid(1.0).encode(values, 2)
    assert values.tolist() == [1.5, -2.5]
    assert Grid(1.0).encode(np.empty(0), 2).shape == (0,)
    with pytest.raises(FednerError, match="expected uint64"):
        Grid(1.0).decode(np.zeros(1, np.uint32))
