from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.federated.sizes import batch_sizes, rounds_per_epoch

SIZES = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=4), st.integers(1, 100_000), min_size=1, max_size=12
)


def test_the_papers_batch_of_64() -> None:
    # 7,597 CADEC, 4,271 ADE and 4,000 tweets: exact shares 30.64, 17.23 and 16.13.
    assert batch_sizes({"cadec": 7597, "ade": 4271, "smm4h": 4000}, 64) == {
        "ade": 17,
        "cadec": 31,
        "smm4h": 16,
    }


def test_everybody_draws_at_least_one_sentence() -> None:
    assert batch_sizes({"big": 1000, "tiny": 1, "small": 2}, 10) == {
        "big": 8,
        "small": 1,
        "tiny": 1,
    }


def test_of_equal_remainders_the_first_name_is_rounded_up() -> None:
    assert batch_sizes({"c": 1, "a": 1, "b": 1}, 4) == {"a": 2, "b": 1, "c": 1}


@given(SIZES, st.integers(0, 500))
def test_batches_add_up_and_follow_the_shares(sizes: dict[str, int], spare: int) -> None:
    total = len(sizes) + spare
    batches = batch_sizes(sizes, total)
    assert sum(batches.values()) == total
    assert list(batches) == sorted(sizes)
    assert min(batches.values()) >= 1
    whole = sum(sizes.values())
    exact = {name: total * size / whole for name, size in sizes.items()}
    # Nobody is rounded up by a sentence or more, except to the one sentence that all have.
    assert all(batches[name] == 1 or batches[name] < exact[name] + 1 for name in sizes)
    if min(exact.values()) >= 1:
        assert all(abs(batches[name] - exact[name]) < 1 for name in sizes)


@given(SIZES, st.integers(0, 500))
def test_larger_platforms_never_draw_less(sizes: dict[str, int], spare: int) -> None:
    batches = batch_sizes(sizes, len(sizes) + spare)
    ordered = sorted(sizes, key=lambda name: sizes[name])
    pairs = pairwise(ordered)
    assert all(batches[a] <= batches[b] for a, b in pairs if sizes[a] < sizes[b])


def test_a_batch_below_the_number_of_platforms_is_an_error() -> None:
    with pytest.raises(FednerError, match="found 2 sentences for 3 platforms"):
        batch_sizes({"a": 5, "b": 5, "c": 5}, 2)


def test_a_public_size_of_nothing_is_an_error() -> None:
    with pytest.raises(FednerError, match=r"found \{'b': 0\}"):
        batch_sizes({"a": 5, "b": 0}, 4)
    with pytest.raises(FednerError, match="no platform"):
        batch_sizes({}, 4)


def test_rounds_of_an_epoch() -> None:
    assert rounds_per_epoch({"a": 30, "b": 10}, 8) == 5
    assert rounds_per_epoch({"a": 31, "b": 10}, 8) == 6
    assert rounds_per_epoch({"a": 30, "b": 10}, 8, local_steps=2) == 3
