"""Every mechanism: how much noise, on what, at what cost; what it refuses; nobody asks its name."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from noised_steps import BATCH, BOUND, MULTIPLIER, SOURCES, UNITS, WIDE, clipped_step

from fedner.errors import FednerError
from fedner.privacy.entropy import Source, SystemEntropy
from fedner.privacy.mechanisms import (
    DISTRIBUTED,
    MECHANISMS,
    PLATFORM,
    PLATFORM_CENTRAL,
    UNIT_CENTRAL,
    UNIT_LOCAL,
    Asked,
    Mechanism,
    PlatformPrivacy,
    require_fitting,
)
from fedner.privacy.noise_shares import JointSum
from fedner.privacy.sum_terms import SumTerms
from fedner.settings.sections import MechanismName
from fedner.tensors import SharedState
from sigmas import only


def terms(mechanism: Mechanism, source: Source, **changes: object) -> PlatformPrivacy:
    joint = JointSum(SumTerms(4), WIDE) if mechanism.shares_noise else None
    plain = PlatformPrivacy(mechanism, BOUND, MULTIPLIER, UNITS, source=source, joint=joint)
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", SOURCES)
def test_a_unit_local_step_is_noised_whole(kind: str) -> None:
    release = UNIT_LOCAL.on_gradient
    assert release is not None
    value = release(terms(UNIT_LOCAL, SOURCES[kind]), clipped_step(SOURCES[kind]))
    for name in ("shared", "private"):
        assert only(value[name], MULTIPLIER * BOUND / BATCH)
        assert value[name].dtype == torch.float32


@pytest.mark.parametrize("kind", SOURCES)
def test_a_unit_central_step_keeps_its_noise_for_the_server(kind: str) -> None:
    release = UNIT_CENTRAL.on_gradient
    assert release is not None
    value = release(terms(UNIT_CENTRAL, SOURCES[kind]), clipped_step(SOURCES[kind]))
    assert not value["shared"].any()
    assert value["shared"].dtype == torch.float64
    assert only(value["private"], MULTIPLIER * BOUND / BATCH)


@pytest.mark.parametrize("kind", SOURCES)
def test_an_update_of_a_platform_is_clipped_and_noised_whole(kind: str) -> None:
    huge = SharedState({"shared": torch.full((WIDE,), 1e4)})
    release = PLATFORM.on_update
    assert release is not None
    value = release(terms(PLATFORM, SOURCES[kind]), huge, SOURCES[kind])["shared"]
    assert only(value - BOUND / WIDE**0.5, MULTIPLIER * BOUND)


def test_an_update_for_a_central_sum_is_clipped_alone() -> None:
    huge = SharedState({"shared": torch.full((WIDE,), 1e4)})
    release = PLATFORM_CENTRAL.on_update
    assert release is not None
    value = release(terms(PLATFORM_CENTRAL, SystemEntropy()), huge, SystemEntropy())["shared"]
    assert torch.allclose(value, torch.full((WIDE,), BOUND / WIDE**0.5))


@pytest.mark.parametrize("mechanism", [UNIT_CENTRAL, PLATFORM_CENTRAL], ids=lambda each: each.name)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_central_sum_is_noised_once(mechanism: Mechanism, kind: str) -> None:
    release, source = mechanism.on_sum, SOURCES[kind]
    assert release is not None
    total = release.received({"shared": torch.zeros(WIDE, dtype=torch.float64)}, BOUND)
    divisors = release.divisors({"a": 3, "b": 5}, {"a": 30, "b": 2, "c": 9}, 1)
    assert divisors == (
        {"a": 3.0, "b": 2.0, "c": 1.0} if mechanism is UNIT_CENTRAL else dict.fromkeys("abc", 1.0)
    )
    weights = {"shared": torch.zeros(WIDE)}
    value = release.noised(terms(mechanism, source).terms, total, 5.0, weights, source)["shared"]
    assert only(value, MULTIPLIER * BOUND / 5.0)


def test_the_server_clips_whole_updates_itself_and_believes_sums() -> None:
    huge = {"shared": torch.full((WIDE,), 1e4, dtype=torch.float64)}
    for mechanism, norm in ((PLATFORM_CENTRAL, BOUND), (UNIT_CENTRAL, 1e4 * WIDE**0.5)):
        assert mechanism.on_sum is not None
        received = mechanism.on_sum.received(huge, BOUND)
        assert received.bound == BOUND
        assert float(received.value["shared"].norm()) == pytest.approx(norm)


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=lambda each: each.name)
def test_the_event_is_that_of_what_is_done(mechanism: Mechanism) -> None:
    event = terms(mechanism, SystemEntropy()).event(BATCH, 3)
    assert (event.noise_multiplier, event.max_norm) == (MULTIPLIER, BOUND)
    assert event.adjacency == mechanism.adjacency
    if mechanism.samples_units:
        found = (event.unit, event.sampling_probability, event.steps, event.public_units)
        assert found == ("sentence", BATCH / UNITS, 3, UNITS)
    else:
        found = (event.unit, event.sampling_probability, event.steps, event.public_units)
        assert found == ("platform", 1.0, 1, 1)


def test_only_strict_local_privacy_replaces_a_platform() -> None:
    found = {name: each.adjacency for name, each in MECHANISMS.items()}
    assert found == {
        "unit-local": "add_or_remove_one",
        "unit-central": "add_or_remove_one",
        "distributed": "add_or_remove_one",
        "platform": "replace_one",
        "platform-central": "add_or_remove_one",
    }


def test_rows_that_are_never_trained_get_no_noise() -> None:
    rows = {"shared": 1}
    for mechanism in (UNIT_LOCAL, UNIT_CENTRAL, DISTRIBUTED):
        given = terms(mechanism, SystemEntropy(), padding_rows={"private": 1})
        assert mechanism.on_gradient is not None
        assert mechanism.on_gradient(given, clipped_step(SystemEntropy()))["private"][1] == 0
    seeded = SOURCES["simulated"]  # else one of the eight is rounded to 0 once in 40,000 times
    given = terms(PLATFORM, seeded, padding_rows=rows)
    assert PLATFORM.on_update is not None
    noised = PLATFORM.on_update(given, SharedState({"shared": torch.ones(9)}), seeded)
    assert noised["shared"][1] == 0
    assert noised["shared"].count_nonzero() == 8


# What each refuses, by the key of the problem: one fact changed at a time.
CHANGES: dict[str, dict[str, object]] = {
    "differences": {"sends": "differences"},
    "weights": {"sends": "weights"},
    "extra": {"has_extra": True},
    "sum": {"loss_reading": "sum"},
    "steps": {"steps": 2},
    "frozen": {"private_part": "frozen"},
    "median": {"aggregation": "median"},
    "marginal": {"is_marginal": True},
    "scores": {"has_scores": True},
    "unit": {"names_unit": True},
    "rooted": {"weighting": "sqrt-size"},
    "equal": {"weighting": "equal"},
}
REFUSES: dict[str, set[str]] = {
    "unit-local": {"marginal"},
    "unit-central": {"differences", "weights", "sum", "steps", "median", "marginal", "scores"},
    "distributed": {
        "differences",
        "weights",
        "sum",
        "steps",
        "median",
        "marginal",
        "rooted",
        "equal",
    },
    "platform": {"weights", "extra", "frozen", "scores", "unit"},
    "platform-central": {"weights", "extra", "frozen", "median", "scores", "unit", "rooted"},
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_study_that_it_would_prove_nothing_for_is_refused(name: str) -> None:
    mechanism = MECHANISMS[name]
    assert list(mechanism.problems(Asked())) == []
    found = {
        case
        for case, changed in CHANGES.items()
        if list(mechanism.problems(replace(Asked(), **changed)))  # type: ignore[arg-type]
    }
    assert found == REFUSES[name]


def test_all_problems_are_told_together() -> None:
    asked = Asked(steps=2, loss_reading="sum", aggregation="median")
    with pytest.raises(FednerError, match=r"who: .*aggregation.*local_steps.*algorithm\.loss"):
        require_fitting(UNIT_CENTRAL, asked, "who")
    require_fitting(UNIT_LOCAL, asked, "who")


def test_who_adds_the_noise() -> None:
    assert {name: each.noise_place for name, each in MECHANISMS.items()} == {
        "unit-local": "local",
        "unit-central": "central",
        "distributed": "distributed",
        "platform": "local",
        "platform-central": "central",
    }
    assert {name for name, each in MECHANISMS.items() if each.facts.samples_units} == {
        "unit-local", "unit-central", "distributed",
    }  # fmt: skip


def test_settings_and_records_have_the_same_names() -> None:
    assert set(MECHANISMS) == set(get_args(MechanismName)) - {"none"}


def compared() -> Iterator[str]:
    source = Path(__file__).resolve().parents[2] / "src" / "fedner"
    room = source / "privacy" / "mechanisms"
    asked = re.compile(
        r"[!=]= *[\"'](unit-local|unit-central|platform|platform-central)[\"']"
        r"|\b(UNIT_LOCAL|UNIT_CENTRAL|PLATFORM_CENTRAL|DISTRIBUTED)\b"
    )
    for path in source.rglob("*.py"):
        if room not in path.parents:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if asked.search(line):
                    yield f"{path.relative_to(source)}:{number}"


def test_nobody_asks_which_mechanism_it_is() -> None:
    assert list(compared()) == []
