from collections import Counter

import pytest

from fedner.errors import FednerError
from fedner.federated.participation import Participation, check_participation, choose

NAMES = ["c", "a", "b", "d"]


def test_all_are_asked_by_name() -> None:
    assert choose(Participation(), NAMES, seed=1, round_=5) == ["a", "b", "c", "d"]


def test_a_sample_is_drawn_anew_in_every_round() -> None:
    rule = Participation(sample=2)
    drawn = [choose(rule, NAMES, 1, number) for number in range(1, 401)]
    assert all(len(set(each)) == 2 and each == sorted(each) for each in drawn)
    counts = Counter(name for each in drawn for name in each)
    # Each is drawn in half of the rounds; 60 is six deviations of 10.
    assert all(abs(count - 200) < 60 for count in counts.values())
    assert drawn == [choose(rule, NAMES[::-1], 1, number) for number in range(1, 401)]
    assert drawn != [choose(rule, NAMES, 2, number) for number in range(1, 401)]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Participation(sample=0), "a sample of 0 of 4"),
        (Participation(sample=5), "a sample of 5 of 4"),
        (Participation(quorum=5), "a quorum of 5 of 4"),
        (Participation(sample=2, quorum=3), "a quorum of 3 of 2"),
        (Participation(quorum=0), "a quorum of 0"),
    ],
)
def test_rules_that_nobody_can_meet_are_refused(rule: Participation, message: str) -> None:
    with pytest.raises(FednerError, match=message):
        check_participation(rule, 4)
