"""Groups that stay together: dealing, apportioning and the nearest subset against brute force."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.groups import (
    apportion,
    check_share,
    deal,
    deal_evenly,
    gather,
    groups_of,
    nearest_subset,
    shuffled,
)
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError


def owned(*owners: tuple[str, str | None]) -> list[Sentence]:
    return [
        Sentence(document, at, (str(at),), (0,), (1,), patient=patient)
        for at, (document, patient) in enumerate(owners)
    ]


def groups_with(sizes: list[int]) -> list[tuple[int, ...]]:
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    return [tuple(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]


def test_groups_follow_the_unit_in_order_of_first_occurrence():
    sentences = owned(("b", "p"), ("a", "q"), ("b", "p"), ("c", "q"))
    assert groups_of(sentences, "sentence") == ((0,), (1,), (2,), (3,))
    assert groups_of(sentences, "document") == ((0, 2), (1,), (3,))
    assert groups_of(sentences, "patient") == ((0, 2), (1, 3))


def test_missing_owners_are_counted_and_a_remedy_is_named():
    sentences = owned(("a", "p"), ("", None), ("b", None))
    with pytest.raises(FednerError, match=r"2 of 3 sentences have no patient id") as caught:
        groups_of(sentences, "patient")
    assert "go by document" in caught.value.hint
    with pytest.raises(FednerError, match=r"1 of 3 sentences have no document id"):
        groups_of(sentences, "document")
    with pytest.raises(FednerError, match="found 'hospital'"):
        groups_of(sentences, "hospital")


def test_shuffling_is_seeded_and_loses_nothing():
    groups = groups_with([1, 2, 3] * 20)
    assert shuffled(groups, 1, "x") == shuffled(groups, 1, "x")
    assert shuffled(groups, 1, "x") != shuffled(groups, 1, "y")
    assert shuffled(groups, 1, "x") != shuffled(groups, 2, "x")
    assert sorted(shuffled(groups, 1, "x")) == groups


def test_gathering_keeps_the_original_order():
    assert gather([(4, 1), (3,)]) == (1, 3, 4)


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=9),
    st.floats(0.01, 0.99),
)
def test_nearest_subset_is_as_near_as_the_best_of_all_subsets(sizes, share):
    target = min(max(round(share * sum(sizes)), 1), sum(sizes) - 1)
    sums = {
        sum(subset) for length in range(1, len(sizes)) for subset in combinations(sizes, length)
    }
    best = min(sums, key=lambda total: (abs(total - target), total))
    chosen = nearest_subset(sizes, target)
    assert len(set(chosen)) == len(chosen) < len(sizes)
    assert sum(sizes[at] for at in chosen) == best


def test_nearest_subset_takes_from_the_head_of_the_order():
    assert nearest_subset([3, 2, 5, 5, 5], 10) == [0, 1, 2]
    assert nearest_subset([50, 60], 1) == [0]
    assert nearest_subset([10, 10, 10], 15) == [0], "a tie goes to the sum below"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(sum), st.integers(0, 10_000))
def test_apportioning_is_exact_in_total_and_off_by_less_than_one(weights, total):
    quotas = apportion(weights, total)
    assert sum(quotas) == total
    for quota, weight in zip(quotas, weights, strict=True):
        assert abs(quota - total * weight / sum(weights)) < 1 + 1e-6


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8))
def test_single_sentences_meet_every_quota_exactly(quotas):
    groups = [(at,) for at in range(sum(quotas))]
    parts = deal(groups, quotas)
    assert [len(part) for part in parts] == quotas
    assert sorted(group for part in parts for group in part) == groups


@given(st.lists(st.integers(1, 20), min_size=1, max_size=40), st.integers(1, 8))
def test_even_dealing_is_total_and_balanced_to_within_the_largest_group(sizes, num_parts):
    groups = groups_with(sizes)
    parts = deal_evenly(groups, num_parts)
    assert sorted(group for part in parts for group in part) == groups
    loads = [sum(map(len, part)) for part in parts]
    assert max(loads) - min(loads) <= max(sizes)
    assert all(parts) or len(groups) < num_parts


def test_even_dealing_weighs_sentences_and_takes_the_largest_groups_first():
    parts = deal_evenly(groups_with([3, 5, 3, 4, 5]), 2)
    assert [[len(group) for group in part] for part in parts] == [[5, 4], [5, 3, 3]]


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.1, float("nan"), float("inf"), 20])
def test_shares_outside_the_open_interval_are_refused(share):
    with pytest.raises(FednerError, match=r"found .*; expected a share between 0 and 1"):
        check_share("The share of the test side", share)


def test_a_whole_share_is_fine_where_it_makes_sense():
    check_share("sample", 1, whole=True)
    with pytest.raises(FednerError, match="above 0 and at most 1"):
        check_share("sample", 1.01, whole=True)
