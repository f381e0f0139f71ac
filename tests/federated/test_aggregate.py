import itertools
import weakref
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.federated.aggregate import (
    RULES,
    CoordinateMedian,
    NormBounded,
    Reply,
    Rule,
    WeightedMean,
    combine,
    in_canonical_order,
    norm_bounded,
    shared_norm,
)
from fedner.federated.messages import Failure, Update
from fedner.models.partition import Partition
from fedner.tensors import SharedState, norm, weighted_sum

ONLY = Partition(("w",), ())


def shared(*numbers: float) -> SharedState:
    return ONLY.shared_state({"w": torch.tensor(numbers, dtype=torch.float32)})


def update(platform: str, *numbers: float) -> Update:
    return Update(platform, 1, shared(*numbers))


def result(rule: Rule, *states: tuple[SharedState, float]) -> list[float]:
    fold = rule()
    for state, weight in states:
        fold.add(state, weight)
    return [round(float(number), 6) for number in fold.result()["w"]]


def test_the_weighted_mean() -> None:
    assert result(WeightedMean, (shared(1, 2), 3.0), (shared(5, -2), 1.0)) == [2.0, 1.0]


def test_the_median_of_odd_and_even_counts() -> None:
    states = [(shared(1, 9), 1.0), (shared(3, -5), 100.0), (shared(2, 0), 1.0)]
    assert result(CoordinateMedian, *states) == [2.0, 0.0]
    assert result(CoordinateMedian, *states[:2]) == [2.0, 2.0]


def test_norms_are_bounded_by_a_number() -> None:
    # (30, 40) has norm 50 and becomes (3, 4); (0, 1) stays.
    assert result(norm_bounded(5.0), (shared(30, 40), 1.0), (shared(0, 1), 1.0)) == [1.5, 2.5]


def test_norms_are_bounded_by_their_median() -> None:
    states = [(shared(30, 40), 1.0), (shared(3, 4), 1.0), (shared(0, 1), 2.0)]
    assert result(NormBounded, *states) == [1.5, 2.5]


def test_a_bound_must_be_positive() -> None:
    with pytest.raises(FednerError, match="norm bound: found 0"):
        norm_bounded(0)


def test_the_mean_of_one_state_is_that_state_bit_for_bit() -> None:
    state = ONLY.shared_state({"w": torch.randn(1000)})
    for weight in (1.0, 3.0, 7919.0, 123457.0):
        fold = WeightedMean()
        fold.add(state, weight)
        assert torch.equal(fold.result()["w"], state["w"])


def test_the_mean_is_that_of_the_weighted_sum() -> None:
    states = [ONLY.shared_state({"w": torch.randn(50)}) for _ in range(4)]
    fold = WeightedMean()
    for state, weight in zip(states, (1.0, 2.0, 3.0, 4.0), strict=True):
        fold.add(state, weight)
    expected = weighted_sum(states, [0.1, 0.2, 0.3, 0.4])["w"]
    torch.testing.assert_close(fold.result()["w"], expected)


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_the_order_of_arrival_changes_no_bit(rule: Rule) -> None:
    torch.manual_seed(0)
    updates = [
        Update(name, 1, ONLY.shared_state({"w": torch.randn(200) * 10.0**exponent}))
        for name, exponent in zip("abcde", (-6, 3, 0, 5, -2), strict=True)
    ]
    weights = {"a": 3.0, "b": 7.0, "c": 1.0, "d": 11.0, "e": 5.0}
    results = []
    for order in itertools.permutations(updates):
        combined = combine(_updates(in_canonical_order(order, "abcde")), weights, rule)
        results.append(combined.tensors["w"])
    assert all(torch.equal(each, results[0]) for each in results)


def _updates(replies: Iterator[Reply]) -> Iterator[Update]:
    return (reply for reply in replies if isinstance(reply, Update))


@given(st.permutations(["a", "b", "c", "d"]), st.integers(0, 4))
def test_replies_are_put_in_order_and_the_silent_become_failures(
    order: list[str], answered: int
) -> None:
    arrived = [update(name, 1.0) for name in order[:answered]]
    replies = list(in_canonical_order(arrived, ["a", "b", "c", "d"]))
    assert [reply.platform for reply in replies] == ["a", "b", "c", "d"]
    silent = [reply for reply in replies if isinstance(reply, Failure)]
    assert {reply.platform for reply in silent} == set(order[answered:])
    assert all((reply.round, reply.code) == (0, "no-reply") for reply in silent)


def test_unasked_and_second_replies_come_last() -> None:
    arrived = [update("x", 1.0), update("b", 1.0), update("b", 2.0), update("a", 1.0)]
    order = [reply.platform for reply in in_canonical_order(arrived, ["a", "b"])]
    assert order == ["a", "b", "x", "b"]


def test_replies_in_order_are_let_go_at_once() -> None:
    names = [f"{number:03d}" for number in range(50)]
    born: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []

    def replies() -> Iterator[Update]:
        for name in names:
            tensor = torch.ones(10)
            born.append(weakref.ref(tensor))
            alive.append(sum(each() is not None for each in born))
            yield Update(name, 1, ONLY.shared_state({"w": tensor}))

    combined = combine(_updates(in_canonical_order(replies(), names)), dict.fromkeys(names, 1.0))
    assert len(combined.platforms) == 50
    assert max(alive) <= 3


def test_combining_needs_updates_in_order() -> None:
    with pytest.raises(FednerError, match="update of 'a' after that of 'b'"):
        combine([update("b", 1.0), update("a", 1.0)], {"a": 1.0, "b": 1.0})
    with pytest.raises(FednerError, match="no update"):
        combine([], {"a": 1.0})


def test_the_share_counts_those_that_took_no_part() -> None:
    combined = combine([update("a", 2.0)], {"a": 1.0, "b": 3.0}, joint_batch=5)
    assert (combined.share, combined.platforms, combined.joint_batch) == (0.25, ("a",), 5)


@given(st.lists(st.floats(-1e3, 1e3, width=32), max_size=5))
def test_the_norm_is_that_of_all_tensors(numbers: list[float]) -> None:
    state = {"a": torch.tensor(numbers), "b": torch.tensor([[1.0, 2.0]])}
    both = Partition(("a", "b"), ()).shared_state(state)
    assert shared_norm(both) == pytest.approx(norm(both))


def test_nothing_shared_has_no_norm() -> None:
    assert shared_norm(Partition((), ()).shared_state({})) == 0.0
