import json

import pytest
import torch
from linear_platform import initial

from fedner.errors import FednerError
from fedner.federated.messages import Failure, Order, Update
from fedner.federated.screening import NormRule, Screen, malformed
from fedner.models.partition import Partition
from fedner.tensors import SharedState

BROADCAST = Order("run", 4, initial(), batches=dict.fromkeys("abcdefghijkl", 1))


def shared(a: float = 1.0, b: float = 1.0) -> SharedState:
    return initial(a, b)


def update(platform: str, a: float = 1.0, b: float = 0.0) -> Update:
    return Update(platform, 4, shared(a, b), loss=1.0)


def screened(screen: Screen, *replies: Update | Failure) -> list[str]:
    return [each.platform for each in screen.accepted_updates(replies, BROADCAST)]


def other(**tensors: torch.Tensor) -> SharedState:
    named = {f"shared.{name}": tensor for name, tensor in tensors.items()}
    return Partition(tuple(named), ()).shared_state(named)


ONE = torch.ones(1)


@pytest.mark.parametrize(
    ("spoilt", "code"),
    [
        (Update("zz", 4, shared()), "platform"),
        (Update("a", 3, shared()), "round"),
        (Update("a", 4, other(a=ONE)), "names"),
        (Update("a", 4, other(a=ONE, b=ONE, c=ONE)), "names"),
        (Update("a", 4, other(a=ONE, b=torch.ones(2))), "shape"),
        (Update("a", 4, other(a=ONE, b=ONE.double())), "dtype"),
        (Update("a", 4, shared(), extra=shared()), "names"),
        (Update("a", 4, shared(a=float("nan"))), "not-finite"),
        (Update("a", 4, shared(b=float("inf"))), "not-finite"),
        (Update("a", 4, shared(), loss=float("nan")), "not-finite"),
        (Update("a", 4, shared(), loss=1.7e308), "not-finite"),
    ],
)
def test_unsound_updates_are_refused_by_name(spoilt: Update, code: str) -> None:
    screen = Screen(NormRule())
    assert screened(screen, spoilt, update("b")) == ["b"]
    assert [(each.platform, each.code) for each in screen.refusals] == [(spoilt.platform, code)]
    assert list(screen.accepted) == ["b"]


def test_extras_must_be_those_of_the_broadcast() -> None:
    broadcast = Order("run", 4, shared(), extra=shared(), batches={"a": 1, "b": 1})
    screen = Screen(NormRule())
    replies = [Update("a", 4, shared(), extra=shared()), Update("b", 4, shared())]
    assert [each.platform for each in screen.accepted_updates(replies, broadcast)] == ["a"]
    bad = Update("a", 4, shared(), extra=shared(a=float("inf")))
    assert [each.platform for each in screen.accepted_updates([bad], broadcast)] == []


def test_whoever_answers_twice_is_heard_once() -> None:
    screen = Screen(NormRule())
    assert screened(screen, update("a"), update("a", 2.0)) == ["a"]
    assert screen.refusals[0].message == "it answered twice"


def test_absurd_norms_are_judged_by_the_past() -> None:
    screen = Screen(NormRule(factor=10.0))
    assert screened(screen, *(update(name, 2.0) for name in "abcd")) == ["a", "b", "c", "d"]
    # The median is 2: a norm of 20 is allowed, more is not.
    assert screened(screen, update("a", 20.0), update("b", 20.1)) == ["a"]
    assert screen.refusals[0].message == "its norm is 20.1; expected at most 20"
    assert screened(screen, update("a", -19.0)) == ["a"]


def test_what_was_usual_once_stays_allowed_when_gradients_have_vanished() -> None:
    """A small corpus learned by heart: one hard sentence must not end the run."""
    screen = Screen(NormRule(factor=100.0))
    assert screened(screen, *(update(name, 2.0) for name in "abcd")) == ["a", "b", "c", "d"]
    for _ in range(20):  # more than are remembered
        screened(screen, *(update(name, 0.001) for name in "abcd"))
    assert max(screen.norms) == pytest.approx(0.001)
    assert screened(screen, update("a", 3.0), update("b", 4.0)) == ["a", "b"]
    assert screened(screen, update("a", 200.1), update("b", 0.001)) == ["b"]
    assert screen.refusals[0].message == "its norm is 200.1; expected at most 200"


def test_a_checkpoint_keeps_what_was_usual() -> None:
    screen = Screen(NormRule(factor=100.0))
    screened(screen, *(update(name, 2.0) for name in "abcd"))
    for _ in range(20):
        screened(screen, *(update(name, 0.001) for name in "abcd"))
    again = Screen(NormRule(factor=100.0))
    again.restore(json.loads(json.dumps(screen.stored(with_norms=True))))
    assert (again.norms, again.usual_norm) == (screen.norms, screen.usual_norm)
    assert screened(again, update("a", 3.0), update("b", 200.1)) == ["a"]


def test_one_platform_of_two_does_not_make_the_absurd_usual() -> None:
    """Nothing can be refused in the first rounds of two; what came then is forgotten in time."""
    screen = Screen(NormRule(factor=100.0))
    for _ in range(2):
        assert screened(screen, update("a"), update("b", 1e6)) == ["a", "b"]
    for _ in range(32):
        screened(screen, update("a"), update("b"))
    assert screen.usual_norm == 1.0
    assert screened(screen, update("a"), update("b", 101.0)) == ["a"]


def with_extra(platform: str, extra: float) -> Update:
    return Update(platform, 4, shared(), extra=shared(extra, 0.0))


def test_extra_tensors_are_judged_by_their_own_past() -> None:
    """A control variate that is absurd reaches every platform with the next order."""
    broadcast = Order("run", 4, shared(), extra=shared(), batches=dict.fromkeys("abcd", 1))
    screen = Screen(NormRule(factor=100.0))

    def taken(*replies: Update) -> list[str]:
        return [each.platform for each in screen.accepted_updates(replies, broadcast)]

    assert taken(*(with_extra(name, 2.0) for name in "bcd"), with_extra("a", 1e5)) == [*"bcd"]
    assert screen.refusals[0].message == (
        "the norm of its extra tensors is 1e+05; expected at most 200"
    )
    for _ in range(30):  # more than are remembered
        taken(*(with_extra(name, 0.001) for name in "abcd"))
    assert taken(with_extra("a", 199.0), with_extra("b", 201.0)) == ["a"]
    again = Screen(NormRule(factor=100.0))
    again.restore(json.loads(json.dumps(screen.stored(with_norms=True))))
    assert (again.extra_norms, again.usual_extra_norm) == (screen.extra_norms, 2.0)
    screen = Screen(NormRule(factor=None, bound=5.0))
    assert taken(with_extra("a", 1e9), *(with_extra(name, 1.0) for name in "bcd")) == [*"abcd"]


def test_extra_tensors_that_were_zero_say_nothing() -> None:
    broadcast = Order("run", 4, shared(), extra=shared(), batches=dict.fromkeys("abc", 1))
    screen = Screen(NormRule(factor=100.0))
    for value in (0.0, 0.0, 3.0):
        replies = [with_extra(name, value) for name in "abc"]
        assert len(list(screen.accepted_updates(replies, broadcast))) == 3


def test_a_checkpoint_of_a_noised_sum_keeps_no_norms() -> None:
    screen = Screen(NormRule(None, None))
    screened(screen, *(update(name, 2.0) for name in "abcd"))
    assert screen.stored(with_norms=False) == {"norms": [], "marks": {}}


def test_a_checkpoint_of_an_earlier_version_is_read() -> None:
    screen = Screen(NormRule())
    screen.restore({"norms": [1.0, 2.0, 5.0]})
    assert (screen.norms, screen.usual_norm) == ([1.0, 2.0, 5.0], 2.0)


def test_the_first_updates_are_judged_by_each_other() -> None:
    screen = Screen(NormRule(factor=10.0))
    assert screened(screen, update("a", 1e9), *(update(name) for name in "bcd")) == ["b", "c", "d"]
    assert screen.refusals[0].platform == "a"
    assert screen.norms == [1.0, 1.0, 1.0]


def test_two_alone_cannot_judge_each_other() -> None:
    screen = Screen(NormRule(factor=10.0))
    assert screened(screen, update("a", 1e9), update("b")) == ["a", "b"]


def test_a_stated_bound_holds_from_the_first_update_on() -> None:
    screen = Screen(NormRule(factor=None, bound=5.0))
    assert screened(screen, update("a", 3.0, 4.0), update("b", 3.0, 4.1)) == ["a"]


def test_failures_are_noted_and_not_refused() -> None:
    screen = Screen(NormRule())
    assert screened(screen, Failure("a", 4, "no-reply"), update("b")) == ["b"]
    assert [each.platform for each in screen.failures] == ["a"]
    assert screened(screen, update("b")) == ["b"]
    assert screen.failures == []


def test_the_rule_may_be_to_stop() -> None:
    screen = Screen(NormRule(), on_refusal="stop")
    with pytest.raises(FednerError, match="the update of platform 'a' was refused: it answers"):
        screened(screen, Update("a", 3, shared()), update("b"))


def test_only_the_latest_norms_are_remembered() -> None:
    screen = Screen(NormRule())
    for _ in range(50):
        screened(screen, update("a"), update("b"))
    assert len(screen.norms) == 64


def test_right_extra_tensors_excuse_no_wrong_ones() -> None:
    """SCAFFOLD sends both: each is judged by itself."""
    order = Order("run", 4, shared(), extra=shared(), batches={"a": 1})
    assert malformed(Update("a", 4, shared(), extra=shared()), order) is None
    wrong = Update("a", 4, other(a=ONE, b=torch.ones(2)), extra=shared())
    found = malformed(wrong, order)
    assert found is not None
    assert found[0] == "shape"
    found = malformed(Update("a", 4, shared(), extra=other(a=ONE)), order)
    assert found is not None
    assert found[0] == "names"
