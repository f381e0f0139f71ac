"""What a platform's policy refuses: every reason at once, and nothing that it accepts."""

from typing import Any

import pytest
from study_examples import own, study

from fedner.settings import mechanism_name, policy_problems

DEPLOYED: dict[str, Any] = {"mechanism": "unit-local", "epsilon": 3.0}
SIMULATED = DEPLOYED | {"simulation": True}


def keys(a_study: Any, settings: Any, rounds: int | None = None) -> list[str]:
    return [each.key for each in policy_problems(a_study, settings, rounds)]


def test_without_a_policy_everything_is_accepted() -> None:
    assert keys(study(), own()) == []
    assert keys(study(privacy=DEPLOYED), own()) == []


def test_every_reason_is_reported_at_once() -> None:
    strict = own(
        "clinique",
        budget=1.0,
        policy={"studies": ["0" * 64], "mechanisms": ["unit-local"], "max_rounds": 2},
    )
    problems = policy_problems(study(), strict)
    assert [each.key for each in problems] == [
        "name",
        "policy.studies",
        "policy.mechanisms",
        "policy.max_rounds",
        "budget",
    ]
    assert "'clinic'" in problems[0].hint
    assert problems[1].expected == study().digest


def test_a_study_is_accepted_by_its_digest_alone() -> None:
    named = own(policy={"studies": [study().digest]})
    assert keys(study(), named) == []
    assert keys(study(seed=2), named) == ["policy.studies"]


@pytest.mark.parametrize(
    ("privacy", "name"),
    [
        ({}, "none"),
        (SIMULATED, "none"),
        (DEPLOYED, "unit-local"),
        (DEPLOYED | {"mechanism": "unit-central"}, "unit-central"),
        (DEPLOYED | {"mechanism": "platform"}, "platform"),
        (DEPLOYED | {"mechanism": "platform-central"}, "platform-central"),
    ],
)
def test_a_mechanism_is_accepted_by_its_name(privacy: dict[str, Any], name: str) -> None:
    made = study(privacy=privacy)
    assert mechanism_name(made) == name
    assert keys(made, own(policy={"mechanisms": [name]})) == []
    assert keys(made, own(policy={"mechanisms": ["another"]})) == ["policy.mechanisms"]


def test_a_simulation_protects_nobody() -> None:
    problems = policy_problems(study(privacy=SIMULATED), own(policy={"mechanisms": ["unit-local"]}))
    assert "protects nobody" in problems[0].found


def test_rounds_are_bounded_also_where_they_are_counted_in_epochs() -> None:
    bounded = own(policy={"max_rounds": 3})
    assert keys(study(), bounded) == []
    assert keys(study(training={"rounds": 4}), bounded) == ["policy.max_rounds"]
    by_epochs = study(training={"epochs": 1})
    assert keys(by_epochs, bounded, 3) == []
    assert keys(by_epochs, bounded, 4) == ["policy.max_rounds"]
    assert keys(by_epochs, bounded) == ["policy.max_rounds"], "uncounted is not accepted"


def test_a_budget_bounds_epsilon_and_asks_for_one() -> None:
    assert keys(study(privacy=DEPLOYED), own(budget=3.0)) == []
    assert keys(study(privacy=DEPLOYED), own(budget=2.9)) == ["budget"]
    assert keys(study(), own(budget=9.0)) == ["budget"]
    assert keys(study(privacy=SIMULATED), own(budget=9.0)) == ["budget"]
    by_noise = study(privacy={"mechanism": "unit-local", "noise_multiplier": 1.0})
    assert keys(by_noise, own(budget=0.1)) == [], "the ledger counts what it comes to"
