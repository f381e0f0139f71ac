"""Counts, averages and the record of scores."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.sentence import Entity
from fedner.errors import FednerError
from fedner.scoring import Counts, Measures, RelaxedCounts, Scores, TokenCounts, macro, score

small = st.integers(0, 50)
strict_counts = st.builds(Counts, small, small, small)


@st.composite
def relaxed_counts(draw: st.DrawFn) -> RelaxedCounts:
    predicted, gold = draw(small), draw(small)
    return RelaxedCounts(
        predicted, draw(st.integers(0, predicted)), gold, draw(st.integers(0, gold))
    )


def test_measures_of_known_counts() -> None:
    counts = Counts(tp=6, fp=2, fn=4)
    assert counts.measures == pytest.approx((0.75, 0.6, 2 * 0.75 * 0.6 / 1.35))
    relaxed = RelaxedCounts(predicted=4, predicted_touching=1, gold=10, gold_touched=3)
    assert relaxed.measures == pytest.approx((0.25, 0.3, 2 * 0.25 * 0.3 / 0.55))


def test_nothing_divided_by_nothing_is_zero() -> None:
    assert Counts().measures == (0, 0, 0)
    assert Counts(fp=3).measures == (0, 0, 0)
    assert Counts(fn=3).measures == (0, 0, 0)
    assert RelaxedCounts().measures == (0, 0, 0)
    assert RelaxedCounts(predicted=2, gold=2).measures == (0, 0, 0)
    assert TokenCounts().weighted == TokenCounts().always_o == (0, 0, 0)
    assert TokenCounts(gold={"B-Drug": 2}).always_o == (0, 0, 0), "no token is outside"
    assert macro([]) == (0, 0, 0)


def test_macro_leaves_out_labels_without_gold_and_prediction() -> None:
    right, missed, absent = Counts(tp=2), Counts(fn=5), Counts()
    assert macro([right, absent]) == (1, 1, 1)
    assert macro([right, missed]) == (0.5, 0.5, 0.5)
    assert macro([right, Counts(fp=1)]) == (0.5, 0.5, 0.5)


@given(st.lists(strict_counts), st.lists(relaxed_counts()))
def test_sums_add_every_field(strict: list[Counts], relaxed: list[RelaxedCounts]) -> None:
    merged = sum(strict, Counts())
    assert merged == Counts(
        sum(each.tp for each in strict),
        sum(each.fp for each in strict),
        sum(each.fn for each in strict),
    )
    total = sum(relaxed, RelaxedCounts())
    assert total.predicted == sum(each.predicted for each in relaxed)
    assert total.predicted_touching == sum(each.predicted_touching for each in relaxed)
    assert total.gold == sum(each.gold for each in relaxed)
    assert total.gold_touched == sum(each.gold_touched for each in relaxed)
    assert all(0 <= value <= 1 for value in (*merged.measures, *total.measures))


def test_always_o_at_the_share_of_o_measured_on_conll_2003() -> None:
    # An O share of 0.825 is recall 0.825; the precision and F measured there follow from it.
    tokens = TokenCounts({"O": 825, "B-PER": 175}, {"O": 1_000}, {"O": 825})
    assert tokens.always_o == pytest.approx((0.68, 0.825, 0.746), abs=1e-3)
    assert tokens.weighted == pytest.approx(tokens.always_o)


def example_scores() -> Scores:
    gold = [[Entity(0, 2, "Drug")], [Entity(1, 2, "ADE"), Entity(2, 3, "Drug")]]
    predicted = [[Entity(1, 2, "Drug"), Entity(2, 3, "Rare")], [Entity(1, 2, "Drug")]]
    return score(gold, predicted, labels=("Drug", "ADE"), lengths=[4, 3])


def test_record_survives_json() -> None:
    scores = example_scores()
    record = json.loads(json.dumps(scores.as_dict()))
    assert Scores.from_dict(record) == scores
    assert record["strict"]["micro"]["f1"] == scores.strict_micro.f1
    assert record["relaxed"]["labels"]["Drug"]["gold_touched"] == 1
    assert record["relaxed_any_type"]["micro"]["predicted_touching"] == 2
    assert record["tokens"]["num_tokens"] == 7
    assert record["ignored"] == {"predicted": {"Rare": 1}, "gold": {}}
    assert Measures(**record["tokens"]["weighted"]) == scores.tokens.weighted


@pytest.mark.parametrize("wrong", [-1, 1.5, "3", None, True])
def test_record_with_a_wrong_count_is_refused(wrong: object) -> None:
    record = example_scores().as_dict()
    record["strict"]["labels"]["Drug"]["tp"] = wrong
    with pytest.raises(FednerError, match=r"tp is .* whole number"):
        Scores.from_dict(record)


@pytest.mark.parametrize("record", [{}, {"strict": 3}, {"strict": {"labels": []}}])
def test_other_records_are_refused(record: dict[str, object]) -> None:
    with pytest.raises(FednerError, match="not a record of scores"):
        Scores.from_dict(record)


def test_importing_the_scores_imports_no_numpy() -> None:
    code = "import sys, fedner.scoring; sys.exit('numpy' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
