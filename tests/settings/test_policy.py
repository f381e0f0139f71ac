"""What a platform's policy refuses: every reason at once, and nothing that it accepts."""

from typing import Any

import pytest
from study_examples import own, study

from fedner.settings import SettingsError, mechanism_name, policy_problems

DEPLOYED: dict[str, Any] = {"mechanism": "unit-local", "epsilon": 3.0}
SIMULATED = DEPLOYED | {"simulation": True}


def keys(a_study: Any, settings: Any, rounds: int | None = None) -> list[str]:
    return [each.key for each in policy_problems(a_study, settings, rounds)]


def by(**policy: Any) -> Any:
    return own(policy=policy)


def test_without_a_policy_everything_is_accepted() -> None:
    assert keys(study(), own()) == []
    assert keys(study(privacy=DEPLOYED), own()) == []


def test_every_reason_is_reported_at_once() -> None:
    strict = own(
        "clinique",
        policy={
            "studies": ["0" * 64],
            "algorithms": ["fedavg"],
            "models": ["ELMoNER"],
            "mechanisms": ["unit-local"],
            "secure_sum": True,
            "min_others": 2,
            "max_rounds": 2,
            "epsilon": 1.0,
            "epsilon_in_all": 1.0,
        },
    )
    wide = study(release={"to": "public", "newcomers": ["annex"]})
    problems = policy_problems(wide, strict)
    assert [each.key for each in problems] == [
        "name",
        "policy.studies",
        "policy.algorithms",
        "policy.models",
        "policy.mechanisms",
        "policy.secure_sum",
        "policy.min_others",
        "policy.max_rounds",
        "policy.epsilon",
        "policy.epsilon_in_all",
        "policy.release",
        "policy.newcomers",
    ]
    assert "'clinic'" in problems[0].hint
    assert problems[1].expected == wide.digest


def test_a_study_is_accepted_by_its_digest_alone() -> None:
    named = by(studies=[study().digest])
    assert keys(study(), named) == []
    assert keys(study(seed=2), named) == ["policy.studies"]
    assert keys(study(seed=2), by(studies=["any"])) == []


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
    assert keys(made, by(mechanisms=[name])) == []
    assert keys(made, by(mechanisms=["another"])) == ["policy.mechanisms"]


def test_a_simulation_protects_nobody() -> None:
    problems = policy_problems(study(privacy=SIMULATED), by(mechanisms=["unit-local"]))
    assert "protects nobody" in problems[0].found


def test_algorithms_and_models_go_by_name_in_any_case() -> None:
    assert keys(study(), by(algorithms=["fedavg", "FedNER"], models=["cnn-clstm-crf"])) == []
    assert keys(study(), by(algorithms=["fedavg"])) == ["policy.algorithms"]
    assert keys(study(), by(models=["ELMoNER"])) == ["policy.models"]


def test_types_are_those_that_the_study_declares_for_this_platform() -> None:
    assert keys(study(), by(types=["ADE", "Drug"])) == []
    assert keys(study(), by(types=[])) == ["policy.types"]
    assert keys(study(), own("ward", policy={"types": []})) == [], "it declares none"


@pytest.mark.parametrize(
    ("participation", "others"), [({}, 1), ({"sample": 1}, 0), ({"quorum": 1}, 0)]
)
def test_other_platforms_are_those_that_a_sum_has_for_certain(
    participation: dict[str, Any], others: int
) -> None:
    asked = study(participation=participation)
    assert keys(asked, by(min_others=others)) == []
    assert keys(asked, by(min_others=others + 1)) == ["policy.min_others"]


def test_rounds_are_bounded_also_where_they_are_counted_in_epochs() -> None:
    bounded = by(max_rounds=3)
    assert keys(study(), bounded) == []
    assert keys(study(training={"rounds": 4}), bounded) == ["policy.max_rounds"]
    by_epochs = study(training={"epochs": 1})
    assert keys(by_epochs, bounded, 3) == []
    assert keys(by_epochs, bounded, 4) == ["policy.max_rounds"]
    assert keys(by_epochs, bounded) == ["policy.max_rounds"], "uncounted is not accepted"


@pytest.mark.parametrize("key", ["epsilon", "epsilon_in_all"])
def test_epsilon_is_bounded_and_asked_for(key: str) -> None:
    assert keys(study(privacy=DEPLOYED), by(**{key: 3.0})) == []
    assert keys(study(privacy=DEPLOYED), by(**{key: 2.9})) == [f"policy.{key}"]
    assert keys(study(), by(**{key: 9.0})) == [f"policy.{key}"]
    assert keys(study(privacy=SIMULATED), by(**{key: 9.0})) == [f"policy.{key}"]
    by_noise = study(privacy={"mechanism": "unit-local", "noise_multiplier": 1.0})
    assert keys(by_noise, by(**{key: 0.1})) == [], "the ledger counts what it comes to"


def test_a_model_is_released_to_those_whom_the_platform_names() -> None:
    to_annex = study(release={"newcomers": ["annex", "ward"]})
    assert keys(to_annex, own()) == ["policy.newcomers"], "participants alone by default"
    assert keys(to_annex, by(newcomers=["annex"])) == []
    assert keys(study(release={"to": "public"}), by(newcomers=["annex"])) == ["policy.release"]
    everything = study(release={"to": "public", "newcomers": ["annex"]})
    assert keys(everything, by(release="public")) == []


@pytest.mark.parametrize(
    "policy",
    [
        {"algorithms": [" fedavg"]},
        {"types": [""]},
        {"shared": ["embeddings."]},
        {"unit": "platform"},
        {"noise_places": ["server"]},
        {"epsilon": 0},
        {"epsilon": float("inf")},
        {"min_others": -1},
        {"max_hours": 0},
        {"release": "all"},
        {"newcomers": ["../x"]},
        {"max_round": 3},
    ],
)
def test_a_policy_with_a_mistake_is_no_policy(policy: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="policy"):
        by(**policy)


def test_a_policy_is_not_printed() -> None:
    assert "0.123" not in repr(by(epsilon=0.123).policy)
