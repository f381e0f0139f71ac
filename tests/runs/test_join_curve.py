"""What joining is worth in own sentences: the curve, its interval, and how it is said."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.runs.joining.choice import best_method
from fedner.runs.joining.curve import Worth, reached, worth_of
from fedner.scoring import Counts

RIGHT, WRONG = Counts(1, 0, 0), Counts(0, 0, 1)


def units(num_right: int, total: int = 100) -> list[Counts]:
    """Return units of a mention each: F1 is that of the recall."""
    return [RIGHT] * num_right + [WRONG] * (total - num_right)


def test_a_curve_is_followed_over_the_logarithm_of_the_size() -> None:
    assert reached([10, 1000], [0.2, 0.8], 0.5) == pytest.approx(100)
    assert reached([10, 100, 1000], [0.2, 0.3, 0.8], 0.8) == pytest.approx(1000)
    assert reached([10, 100, 1000], [0.2, 0.6, 0.4], 0.6) == pytest.approx(100)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.floats(0, 1))
def test_what_a_curve_reaches_lies_within_its_sizes(scores: list[float], target: float) -> None:
    found = reached([25, 50, 100], scores, target)
    assert 25 <= found <= 100 or math.isinf(found)
    assert math.isinf(found) == (max(scores) < target)


def test_worth_at_every_size() -> None:
    local = [units(20), units(40), units(60)]
    joined = [units(50), units(55), units(80)]
    small, middle, large = worth_of([25, 50, 100], local, joined, seed=1)
    # F1 of 20 right of 100 is 1/3, of 40 4/7, of 50 2/3, of 60 3/4: between 50 and 100 sentences.
    share = (2 / 3 - 4 / 7) / (3 / 4 - 4 / 7)
    assert small.worth == pytest.approx(50 * 2**share)
    assert small.low <= small.worth <= small.high
    assert middle.worth > small.worth
    assert math.isinf(large.worth)
    assert large.words().startswith("more than you have (100), interval ")
    assert (small.sentences, small.most) == (25, 100)


def test_an_interval_covers_what_the_draw_of_units_moves() -> None:
    """The interval holds the truth in about 95 of 100 samples, and is no wider than it must be."""
    generator = np.random.default_rng(3)
    truth = [0.25, 0.5, 0.75]
    target, sizes = 0.6, [25, 50, 100]
    f1 = [2 * p / (1 + p) for p in (*truth, target)]
    exact = reached(sizes, f1[:3], f1[3])
    covered, narrow = 0, 0
    for seed in range(40):
        drawn = [
            [RIGHT if x < p else WRONG for x in generator.random(200)] for p in (*truth, target)
        ]
        (found, *_) = worth_of(sizes, drawn[:3], [drawn[3]] * 3, seed)
        covered += found.low <= exact <= found.high
        middle = found.worth if math.isfinite(found.worth) else 100.0
        third = (min(found.high, 100.0) - found.low) / 6
        narrow += middle - third <= exact <= middle + third
    assert covered >= 35
    assert narrow < 35, "a third of the interval would not do"


def test_it_is_said_in_plain_words_and_plain_json() -> None:
    worth = Worth(100, 0.6, 0.7, math.inf, 25.0, math.inf, 100, 25)
    assert worth.words() == "more than you have (100), interval at most 25 to above 100"
    stated = json.loads(json.dumps(worth.as_dict(), allow_nan=False))
    assert (stated["worth"], stated["worth_low"]) == (None, 25.0)
    assert Worth(25, 0.5, 0.6, 61.7, 40.0, 90.0, 100, 25).words() == "62, interval 40 to 90"


def test_of_equals_joined_is_kept_then_local_only() -> None:
    assert best_method({"joined": 0.5, "local-only": 0.5, "average": 0.5}) == "joined"
    assert best_method({"joined": 0.4, "local-only": 0.5, "average": 0.5}) == "local-only"
    assert best_method({"joined": 0.4, "local-only": 0.5, "average": 0.6}) == "average"
