"""Discrete Gaussian draws: their law, number by number, and the words that they are made of."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from fedner.errors import FednerError
from fedner.privacy import discrete_noise
from fedner.privacy.discrete_noise import (
    MOST_DEVIATION,
    border,
    discrete_gaussian,
    resolved_cell,
)
from fedner.privacy.entropy import SeededSimulation, Source, SystemEntropy

CPU = torch.device("cpu")
SOURCES = {"system": SystemEntropy, "seed": lambda: SeededSimulation(7, ("noise",))}
# The system's entropy is another in every run: a right sampler fails one of these checks, of which
# there are about twenty, once in a hundred million runs.
LEVEL = 1e-10


def law(deviation: int, reach: int) -> np.ndarray:
    """The probabilities of -reach .. reach, by their definition."""
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * deviation**2))
    return weights / weights.sum()


def words_of(*given: int) -> Callable[[int], torch.Tensor]:
    """Words in the order given; an error if they run out."""
    left = list(given)

    def take(count: int) -> torch.Tensor:
        taken = [left.pop(0) for _ in range(count)]
        return torch.tensor(taken, dtype=torch.int64)

    return take


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("deviation", [1, 2, 3, 7])
def test_every_number_is_as_frequent_as_its_law_says(source: str, deviation: int) -> None:
    reach, count = 4 * deviation, 150_000
    drawn = discrete_gaussian(count, deviation, SOURCES[source](), CPU).numpy()
    assert abs(drawn).max() < 12 * deviation
    found = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)
    expected = law(deviation, 12 * deviation)
    middle = expected[8 * deviation : -8 * deviation].copy()
    middle[0] += expected[: 8 * deviation].sum()
    middle[-1] += expected[-8 * deviation :].sum()
    assert stats.chisquare(found, middle / middle.sum() * count).pvalue > LEVEL
    wrong = law(deviation + 1, 12 * deviation)[8 * deviation : -8 * deviation]
    assert stats.chisquare(found, wrong / wrong.sum() * count).pvalue < LEVEL


@pytest.mark.parametrize("deviation", [1_000, 2**20 + 1, MOST_DEVIATION])
def test_large_deviations_are_normal_in_shape(deviation: int) -> None:
    drawn = discrete_gaussian(100_000, deviation, SystemEntropy(), CPU).double() / deviation
    assert stats.kstest(drawn.numpy(), "norm").pvalue > LEVEL
    # Low bits are uniform: no grid within the grid.
    low = discrete_gaussian(100_000, deviation, SystemEntropy(), CPU).numpy() % 8
    assert stats.chisquare(np.bincount(low, minlength=8)).pvalue > LEVEL


def test_the_table_is_that_of_the_law() -> None:
    total = sum(math.exp(-k * k / 2) for k in range(30))
    for k in range(6):
        expected = sum(math.exp(-n * n / 2) for n in range(k + 1)) / total
        assert border(k, 63) / 2**63 == pytest.approx(expected, rel=1e-14)
        # More bits only add digits.
        assert border(k, 95) >> 32 == border(k, 63)


@pytest.mark.parametrize(("more", "cell"), [(0, 0), (2**32 - 1, 1)])
def test_a_word_on_a_border_is_resolved_by_more_bits(more: int, cell: int) -> None:
    on = border(0, 63)
    assert resolved_cell(on, 63, lambda: more) == cell
    assert resolved_cell(on - 1, 63, lambda: 1 // 0) == 0
    assert resolved_cell(on + 1, 63, lambda: 1 // 0) == 1
    high, low = on >> 32, on & 0xFFFFFFFF
    assert discrete_noise._cells(1, words_of(high << 1, low, more)).tolist() == [cell]


def test_a_second_border_needs_bits_once_more() -> None:
    more = iter([border(0, 95) & 0xFFFFFFFF, 2**32 - 1])
    assert resolved_cell(border(0, 63), 63, lambda: next(more)) == 1
    assert not list(more)


def test_the_far_tail_is_reached_by_more_bits() -> None:
    ones = iter([2**32 - 1] * 3)
    found = resolved_cell(2**63 - 1, 63, lambda: next(ones, 0))
    assert 13 <= found <= 17  # 1 - 2^-159: exp(-k^2 / 2) is about 2^-159 at 14.8


def test_uniform_integers_below_a_limit_are_exact() -> None:
    # Of 2^32 words 2^32 mod 3 = 1 is refused: word 0, which is drawn again.
    assert discrete_noise._below(2, 3, words_of(0, 2**31, 5)).tolist() == [0, 1]
    with pytest.raises(IndexError):
        discrete_noise._below(1, 3, words_of(0))
    assert discrete_noise._below(1, 4, words_of(0)).tolist() == [0]


def test_each_uniform_integer_has_as_many_words() -> None:
    """With words of 8 bits in place of 32, every integer below 5 comes from 51 of 255 words."""
    products = [5 * word for word in range(256)]
    kept = [each >> 8 for each in products if each & 255 >= 256 % 5]
    assert [kept.count(number) for number in range(5)] == [51] * 5


@pytest.mark.parametrize("j", [0, 1, 3, 4])
def test_coins_have_the_probability_of_an_exponential(j: int) -> None:
    count, deviation = 100_000, 5
    words = discrete_noise._words_of(SystemEntropy(), CPU)
    several = torch.full((count,), j)
    for toss, power in (
        (discrete_noise._survive, j / deviation),
        (discrete_noise._survive_half_square, (j / deviation) ** 2 / 2),
    ):
        heads = int(toss(several, deviation, words).sum())
        assert stats.binomtest(heads, count, math.exp(-power)).pvalue > LEVEL


def test_von_neumanns_coins_add_up_to_the_series() -> None:
    """The n-th toss has p / n: the first tails is odd with probability 1 - p + p^2 / 2 - ..."""
    p, odd, still = Fraction(3, 5), Fraction(0), Fraction(1)
    for n in range(1, 30):
        odd += still * (1 - p / n) * (n % 2)
        still *= p / n
    assert float(odd) == pytest.approx(math.exp(-0.6), rel=1e-15)


@pytest.mark.parametrize("deviation", [-1, MOST_DEVIATION + 1])
def test_a_deviation_that_cannot_be_drawn_is_refused(deviation: int) -> None:
    with pytest.raises(FednerError, match=f"deviation of discrete noise is {deviation}"):
        discrete_gaussian(1, deviation, SystemEntropy(), CPU)


def test_no_deviation_draws_zeros_and_none_draws_nothing() -> None:
    assert not discrete_gaussian(100, 0, SystemEntropy(), CPU).any()
    assert len(discrete_gaussian(0, 5, SystemEntropy(), CPU)) == 0


def test_the_system_never_repeats_and_a_simulation_does() -> None:
    def draws(source: Source) -> list[int]:
        torch.manual_seed(0)
        return discrete_gaussian(50, 1_000, source, CPU).tolist()

    assert draws(SystemEntropy()) != draws(SystemEntropy())
    seeded = SeededSimulation(1)
    assert draws(seeded.at("a")) == draws(seeded.at("a")) != draws(seeded.at("b"))


def test_blocks_join_seamlessly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrete_noise, "_CPU_BLOCK", 97)
    drawn = discrete_gaussian(20_000, 50, SystemEntropy(), CPU)
    assert len(drawn) == 20_000
    assert stats.kstest((drawn.double() / 50).numpy(), "norm").pvalue > LEVEL
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.05


def test_known_draws_of_a_seed() -> None:
    """The same seed gives the same noise in every release of fedner, on a CPU."""
    found = discrete_gaussian(8, 10, SeededSimulation(1, ("known",)), CPU)
    assert found.tolist() == [6, 3, 10, 11, 11, 6, 3, 16]
