"""A mechanism and a summation of one's own through `fedner.simulate`."""

from dataclasses import replace

import pytest

import fedner
from fedner.privacy.mechanisms import MECHANISMS

NAMES = ("case-reports", "forum-posts")
SMALL = {"hidden": 6, "filters": 6, "character_filters": 6}


def study_of(corpora: dict[str, fedner.Corpus], **sections: object) -> fedner.Study:
    table = {"training": {"rounds": 2, "evaluate_every": 0}, "model": SMALL, **sections}
    return fedner.study_for(corpora, **table)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def corpora() -> dict[str, fedner.Corpus]:
    return {name: fedner.synthetic_corpus(name, 40, seed=1) for name in NAMES}


def test_a_mechanism_of_ones_own_is_the_one_that_is_used(
    corpora: dict[str, fedner.Corpus],
) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    asked = []
    named = MECHANISMS["unit-local"]

    def event(*given: object) -> object:
        asked.append(given)
        return named.event(*given)  # type: ignore[arg-type]

    own = replace(named, name="counted", event=event)  # type: ignore[arg-type]
    dp = {"mechanism": "unit-local", "noise_multiplier": 1.0, "simulation": True, "delta": 1e-3}
    result = fedner.simulate(study_of(corpora, privacy=dp), corpora, mechanism=own)
    assert asked
    assert set(result.taggers) == set(NAMES)


def test_a_summation_of_ones_own_is_the_one_that_is_used(
    corpora: dict[str, fedner.Corpus],
) -> None:
    from fedner.federated.summation import PLAIN

    made = []

    def at_platform(name: str) -> object:
        made.append(name)
        return PLAIN.at_platform(name)

    own = replace(PLAIN, name="watched", at_platform=at_platform)  # type: ignore[arg-type]
    fedner.simulate(study_of(corpora), corpora, summation=own)
    assert sorted(set(made)) == sorted(NAMES)
