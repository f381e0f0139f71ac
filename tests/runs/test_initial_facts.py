"""What is told of the model that a run began with: carried facts, words, warnings."""

from typing import Any

import pytest

from fedner.runs.initial_facts import (
    NO_PRIVACY,
    began_with,
    carried_facts,
    initial_warnings,
    is_protected,
)
from fedner.runs.records import InitialFacts
from fedner.settings import Study, parse_as

SPENT = {
    "mechanism": "unit-local",
    "unit": "sentence",
    "epsilon": 2.0,
    "delta": 1e-5,
    "accountant": "pld",
    "simulation": False,
    "trust": "nobody",
}
NOISED: dict[str, Any] = carried_facts({"run": "x", "privacy": SPENT})
OPEN: dict[str, Any] = carried_facts({"run": "x", "privacy": NO_PRIVACY})


def chained(facts: dict[str, Any]) -> dict[str, Any]:
    first = {"name": "older", "digest": "ab" * 32, "facts": facts}
    return carried_facts({"privacy": SPENT, "initial": first})


def study(**privacy: Any) -> Study:
    platforms = [{"name": name, "public_size": 100} for name in ("clinic", "ward")]
    tables = {"training": {"rounds": 1}, "privacy": privacy, "platforms": platforms}
    return parse_as(Study, tables, "study.toml")


PROTECTED = {"mechanism": "unit-local", "noise_multiplier": 1.0, "simulation": True}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (NOISED, True),
        (OPEN, False),
        (None, False),
        (carried_facts({}), False),
        (carried_facts({"privacy": {**SPENT, "simulation": True}}), False),
        (carried_facts({"privacy": {**SPENT, "epsilon": None}}), False),
        (chained(NOISED), True),
        (chained(OPEN), False),
    ],
)
def test_a_model_is_protected_if_all_that_it_began_with_is(
    facts: dict[str, Any] | None, expected: bool
) -> None:
    assert is_protected(facts) is expected


def test_nothing_but_run_and_privacy_is_carried_along() -> None:
    found = carried_facts({"run": "x", "rounds": 3, "labels": ["CANARY"], "privacy": SPENT})
    assert found == {
        "run": "x",
        "rounds": 3,
        "privacy": {key: value for key, value in SPENT.items() if key != "trust"},
        "initial": None,
    }
    for wrong in ("some", 3, {"epsilon": 1.0}, {**SPENT, "epsilon": "small"}):
        assert carried_facts({"privacy": wrong})["privacy"] is None


@pytest.mark.parametrize(
    ("facts", "makers", "words"),
    [
        (NOISED, ("ward", "x"), "epsilon 2 at delta 1e-05 on ward, which take part in this run"),
        (NOISED, None, "the epsilons of both runs add up; the run cannot know it"),
        (OPEN, ("ward", "x"), "without differential privacy on ward, which take part"),
        (OPEN, ("x",), "without differential privacy. If it saw texts that this run protects"),
        (chained(OPEN), None, "and began with older, which was not protected throughout. If it"),
        (carried_facts({}), None, "with unstated privacy. If it saw texts"),
    ],
)
def test_what_a_run_under_differential_privacy_is_warned_of(
    facts: dict[str, Any], makers: tuple[str, ...] | None, words: str
) -> None:
    [warning] = initial_warnings(study(**PROTECTED), "public", facts, makers)
    assert words in warning
    assert list(initial_warnings(study(), "public", facts, makers)) == [], "there is no epsilon"


def test_other_platforms_with_noise_need_no_warning() -> None:
    assert list(initial_warnings(study(**PROTECTED), "public", NOISED, ("x",))) == []


def test_the_words_say_what_was_simulated_and_what_is_not_known() -> None:
    simulated = carried_facts({"privacy": {**SPENT, "simulation": True}})
    told = began_with(InitialFacts("public", "cd" * 32, simulated))
    assert "simulated differential privacy (epsilon 2 at delta 1e-05" in told
    assert "protects nobody" in told
    assert "the coordinator's record says" in began_with(InitialFacts("public", "cd" * 32))
    assert "it began with older (digest abab" in began_with(InitialFacts("p", "c", chained(OPEN)))
