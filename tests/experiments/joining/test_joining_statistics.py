"""Gains with intervals, Holm's correction, what joining is worth; tables and picture."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fedner.experiments.joining import report, statistics
from fedner.experiments.joining.statistics import cells, gain, holm, worth
from fedner.experiments.joining.study import ALL, MIDDLE, NEWCOMERS, SIZES, Point
from fedner.experiments.joining.zero_shot import UnseenType
from fedner.seeds import seeded

GAINS = {
    ("ade", 1): 4.0, ("ade", 2): 6.0, ("ade", 3): 5.0,
    ("btc-e", 1): -1.0, ("btc-e", 2): 2.0,
}  # fmt: skip
ALONE = {cell: 50.0 + place for place, cell in enumerate(GAINS)}
JOINED = {cell: ALONE[cell] + value for cell, value in GAINS.items()}


def test_a_gain_is_the_mean_over_newcomers_of_their_means() -> None:
    found = gain({**ALONE, ("twimed", 1): 3.0}, {**JOINED, ("psytar", 1): 9.0})
    assert found is not None
    assert found.value == pytest.approx((5.0 + 0.5) / 2)
    assert found.by_newcomer == {"ade": pytest.approx(5.0), "btc-e": pytest.approx(0.5)}
    assert found.losses == {("btc-e", 1): pytest.approx(-1.0)}
    assert found.num_cells == 5
    assert gain({("ade", 1): 1.0}, {("ade", 2): 1.0}) is None


def test_the_interval_is_that_of_a_slow_bootstrap() -> None:
    """Newcomers are drawn, then seeds of each drawn one; other draws, the same interval."""
    found = gain(ALONE, JOINED)
    assert found is not None
    draw = np.random.default_rng(5)
    means = []
    for _ in range(8000):
        total = 0.0
        for name in draw.choice(["ade", "btc-e"], 2):
            own = [value for cell, value in GAINS.items() if cell[0] == name]
            total += np.mean([draw.choice(own) for _ in own]) / 2
        means.append(total)
    assert found.low == pytest.approx(np.percentile(means, 2.5), abs=0.15)
    assert found.high == pytest.approx(np.percentile(means, 97.5), abs=0.15)
    below = np.mean(np.asarray(means) <= 0)
    assert found.p == pytest.approx(2 * below, abs=0.02)
    assert 0.05 < found.p < 0.3


def test_a_gain_everywhere_has_the_smallest_probability() -> None:
    found = gain(ALONE, {cell: value + 3.0 for cell, value in ALONE.items()})
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(3.0), pytest.approx(3.0))
    assert found.p == pytest.approx(2 / (1 + statistics.RESAMPLES))
    nothing = gain(ALONE, ALONE)
    assert nothing is not None
    assert nothing.p == 1.0


def test_holm_on_a_worked_example() -> None:
    """Four tests: 0.005 x 4, 0.01 x 3, 0.03 x 2, and 0.04 x 1 raised to the one before."""
    found = holm({1: 0.01, 2: 0.04, 3: 0.03, 4: 0.005})
    expected = {4: 0.02, 1: 0.03, 3: 0.06, 2: 0.06}
    assert found == {key: pytest.approx(value) for key, value in expected.items()}
    assert holm({1: 0.9, 2: 0.8}) == {1: 1.0, 2: 1.0}
    assert holm({}) == {}


def test_worth_in_sentences_of_ones_own() -> None:
    curve = {25: 40.0, 100: 60.0, 400: 80.0}
    assert worth(curve, 60.0) == pytest.approx(100)
    assert worth(curve, 50.0) == pytest.approx(50), "half way in the logarithm"
    assert worth(curve, 30.0) == 25, "no less than the smallest size"
    assert worth(curve, 80.0) == pytest.approx(400)
    assert worth(curve, 80.1) is None, "never reached"


def test_worth_where_the_curve_falls() -> None:
    curve = {25: 40.0, 50: 35.0, 100: 60.0, 200: 55.0}
    assert worth(curve, 40.0) == 25
    assert worth(curve, 50.0) == pytest.approx(np.sqrt(50 * 100)), "flat at 40 up to 50"
    assert worth(curve, 58.0) < 100, "not at the far side of the fall"
    assert worth(curve, 61.0) is None


def made_up() -> list[Point]:
    """Return points of all newcomers: joined is worth about twice the sentences."""
    points = []
    for place, newcomer in enumerate(NEWCOMERS):
        for size in (0, *SIZES, ALL):
            if newcomer == "btc-e" and size > MIDDLE:
                continue
            count = 160 if newcomer == "btc-e" and size == ALL else 2000 if size == ALL else size
            for seed in (1, 2, 3):
                noise = float(seeded(seed, newcomer, size).normal())
                alone = 8.0 * np.log2(max(1, count)) + place + noise
                joined = alone + (9 if size else 40) * (1 - max(count, 0) / 2500)
                scores = {"joined": joined}
                if size:
                    scores |= {"local-only": alone, "described alone": alone, "kept": joined}
                if size == MIDDLE:
                    scores["placebo"] = alone - 2
                points += [
                    Point(newcomer, size, seed, arm, value, 1.0, "", count)
                    for arm, value in scores.items()
                ]
    return points


def test_the_tables_hold_what_the_points_say() -> None:
    points = made_up()
    unseen = [
        UnseenType("drug", "ade", "Drug", 1, 40.0, 9),
        UnseenType("drug", "ade", "Drug", 2, 50.0, 9),
        UnseenType("dosage", "ade", "Dosage", 1, 10.0, 9),
    ]
    by_size, by_newcomer, other, worths, not_seen = report.tables(points, unseen, 300)
    row = next(line for line in by_size.rows if line[0] == "25")
    found = gain(cells(points, 25, "local-only"), cells(points, 25, "joined"), 300)
    assert found is not None
    assert row[3] == f"{found.value:+.2f} ({found.low:+.2f} to {found.high:+.2f})"
    assert row[6] == "0 of 15"
    assert [line[0] for line in by_size.rows] == ["25", "50", "100", "200", "400", "all"]
    ade = next(line for line in by_newcomer.rows if line[0] == "ADE Corpus")
    assert re.fullmatch(r"\d+\.\d", ade[1])
    assert re.fullmatch(r"\d+\.\d -> \d+\.\d", ade[2])
    placebo = next(line for line in other.rows if line[0] == "placebo")
    assert placebo[1:3] == ("-2.00 (-2.00 to -2.00)", "-2.0")
    assert "local-only" not in [line[0] for line in other.rows]
    assert re.fullmatch(r"\d+ \(\d+ to \d+\)", worths.rows[0][2])
    assert worths.rows[-1][-1] == "over 160"
    assert not_seen.rows == (
        ("drug", "ade", "Drug", "45.0"),
        ("dosage", "ade", "Dosage", "10.0"),
        ("mean", "", "", "27.5"),
    )


def test_a_received_model_that_is_worse_than_any_of_ones_own_is_worth_less() -> None:
    points = [
        replace(each, f1=-1.0) if each.newcomer == "psytar" and each.size == 0 else each
        for each in made_up()
    ]
    worths = report.tables(points, [], 300)[3]
    psytar = next(line for line in worths.rows if line[0] == "PsyTAR")
    assert psytar[1] == "under 25"


def test_splits_by_document_are_one_point_of_the_curve() -> None:
    points = [
        Point("ade", ALL, seed, "local-only", 70.0 + seed, 1.0, "", 1000 + seed)
        for seed in (1, 2, 3)
    ]
    points += [Point("ade", 25, 1, "local-only", 40.0, 1.0, "", 25)]
    curve = report._curve(points)
    assert set(curve) == {25, 1002}
    assert sorted(curve[1002]) == [71.0, 72.0, 73.0]


def test_nothing_at_all_is_no_table() -> None:
    assert report.tables([]) == []
