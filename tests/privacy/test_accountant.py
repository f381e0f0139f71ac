"""What releases cost: published figures, a second accountant, and the rules of composition."""

import math
import sys
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.privacy import accountant
from fedner.privacy.accountant import (
    discretisation,
    epsilon,
    noise_for,
    pld_epsilon,
    rdp_epsilon,
    tally,
    worst_cases,
)
from fedner.privacy.events import DeclaredUse, GaussianRelease, Slice

pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")

DELTA = 1e-5
STEP = GaussianRelease(1.0, 32 / 749, "sentence", 1.0, 749)


def dp_sgd(examples: int, **changes: Any) -> GaussianRelease:
    steps = 10 * math.ceil(examples / 32)
    return replace(
        STEP,
        sampling_probability=32 / examples,
        public_units=examples,
        steps=steps,
        **changes,
    )


@pytest.mark.parametrize(("examples", "rdp", "pld"), [(14_987, 1.04, 0.74), (749, 4.96, 4.40)])
def test_the_published_figures(examples: int, rdp: float, pld: float) -> None:
    spend = epsilon([dp_sgd(examples)], DELTA)
    # RDP takes the best of a list of orders: 1.032 here with order 11, 1.039 without it.
    assert spend.rdp == pytest.approx(rdp, abs=0.009)
    assert spend.pld == pytest.approx(pld, abs=0.005)


@pytest.mark.parametrize(
    ("noise", "probability", "steps"),
    [(1.0, 32 / 14_987, 4_690), (1.0, 32 / 749, 240), (7.6, 0.273, 366), (0.7, 0.01, 500)],
)
def test_a_second_accountant_agrees(noise: float, probability: float, steps: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accountants = pytest.importorskip(
            "opacus.accountants", reason="the second opinion needs Opacus"
        )
        theirs = {}
        for name, kind in (("rdp", "RDPAccountant"), ("pld", "PRVAccountant")):
            held = getattr(accountants, kind)()
            held.history = [(noise, probability, steps)]
            theirs[name] = held.get_epsilon(delta=DELTA)
    ours = {(noise, probability): steps}
    # Their list of orders is shorter (above); their PRV adds an error bound of 0.01.
    assert rdp_epsilon(ours, DELTA) == pytest.approx(theirs["rdp"], rel=0.01)
    assert theirs["pld"] - 0.012 - 0.005 * theirs["pld"] <= pld_epsilon(ours, DELTA)
    assert pld_epsilon(ours, DELTA) <= theirs["pld"] + 0.005 * theirs["pld"]


def exact_gaussian_delta(mu: float, eps: float) -> float:
    """Balle and Wang (2018), theorem 8: the Gaussian mechanism of sensitivity over sigma `mu`."""

    def phi(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    return phi(mu / 2 - eps / mu) - math.exp(eps) * phi(-mu / 2 - eps / mu)


@pytest.mark.parametrize(("noise", "steps"), [(5.0, 10), (1.0, 1), (20.0, 1_000)])
def test_full_batches_match_the_closed_form(noise: float, steps: int) -> None:
    found = pld_epsilon({(noise, 1.0): steps}, DELTA)
    mu = math.sqrt(steps) / noise
    assert exact_gaussian_delta(mu, found) <= DELTA * (1 + 1e-6)  # never below the truth
    assert exact_gaussian_delta(mu, found * 0.995) > DELTA
    assert rdp_epsilon({(noise, 1.0): steps}, DELTA) >= found


@pytest.mark.parametrize(
    ("noise", "probability", "steps"), [(1.0, 0.0021, 4_690), (5.0, 0.002, 4_690), (2.0, 0.05, 100)]
)
def test_a_finer_grid_gains_less_than_half_a_percent(
    monkeypatch: pytest.MonkeyPatch, noise: float, probability: float, steps: int
) -> None:
    composition = {(noise, probability): steps}
    chosen = pld_epsilon(composition, DELTA)
    finer = discretisation(composition) / 10
    monkeypatch.setattr("fedner.privacy.accountant.discretisation", lambda _: finer)
    assert pld_epsilon(composition, DELTA) <= chosen <= 1.005 * pld_epsilon(composition, DELTA)


def test_splitting_steps_over_events_changes_nothing() -> None:
    whole = epsilon([replace(STEP, steps=40)], DELTA)
    parts = epsilon([replace(STEP, steps=10), *[STEP] * 30], DELTA)
    assert (whole.rdp, whole.pld, whole.steps) == (parts.rdp, parts.pld, parts.steps)


def test_equal_platforms_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {(3.125, 0.03125): 7, (4.125, 0.0625): 3}
    first = pld_epsilon(steps, DELTA)
    monkeypatch.setattr(accountant, "composed_pld", lambda *_: pytest.fail("computed again"))
    assert pld_epsilon(dict(reversed(steps.items())), DELTA) == first


def test_different_steps_add_up() -> None:
    other = replace(STEP, noise_multiplier=2.0, sampling_probability=0.2, steps=5)
    first, second = epsilon([STEP], DELTA), epsilon([other], DELTA)
    both = epsilon([STEP, other], DELTA)
    assert max(first.pld, second.pld) < both.pld < first.pld + second.pld
    assert both == replace(epsilon([other, STEP], DELTA))


def test_disjoint_slices_cost_the_worst_of_them() -> None:
    few = replace(STEP, slice=Slice("tenths", "0"), steps=10)
    many = replace(STEP, slice=Slice("tenths", "1"), steps=30)
    assert epsilon([few, many], DELTA).pld == epsilon([many], DELTA).pld
    assert epsilon([few, many, STEP], DELTA).pld == epsilon([replace(STEP, steps=31)], DELTA).pld
    other = replace(few, slice=Slice("halves", "0"))
    assert epsilon([many, other], DELTA).pld == epsilon([replace(STEP, steps=40)], DELTA).pld


counts = st.integers(1, 4)
sliced = st.builds(
    lambda noise, slicing, name, steps: replace(
        STEP, noise_multiplier=noise, slice=Slice(slicing, name) if slicing else None, steps=steps
    ),
    st.sampled_from([1.0, 2.0]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["0", "1", "2"]),
    counts,
)


@given(st.lists(sliced, max_size=12))
def test_worst_cases_cover_every_unit(releases: list[GaussianRelease]) -> None:
    """Reference: go through the units, one for each combination of slices."""
    found = [Counter(case) for case in worst_cases(tally(releases))]
    for in_a in "012":
        for in_b in "012":
            mine = [
                release
                for release in releases
                if release.slice in (None, Slice("a", in_a), Slice("b", in_b))
            ]
            steps: Counter[Any] = Counter()
            for release in mine:
                steps[release.noise_multiplier, release.sampling_probability] += release.steps
            assert any(steps <= case for case in found)


def test_many_combinations_are_covered_by_one() -> None:
    releases = [
        replace(STEP, slice=Slice(slicing, str(at)), noise_multiplier=1.0 + at, steps=1 + at)
        for slicing in "abc"
        for at in range(5)
    ]
    [case] = worst_cases(tally(releases))
    assert case == {(1.0 + at, 32 / 749): 3 * (1 + at) for at in range(5)}


def test_nothing_costs_nothing_and_no_noise_costs_everything() -> None:
    assert epsilon([], DELTA).pld == epsilon([], DELTA).rdp == 0
    spend = epsilon([STEP, replace(STEP, noise_multiplier=0.0)], DELTA)
    assert math.isinf(spend.pld)
    assert math.isinf(spend.rdp)


def test_a_report_says_what_is_protected() -> None:
    seeded = replace(STEP, is_simulation=True)
    spend = epsilon([STEP, seeded, DeclaredUse("rate chosen on these data")], DELTA)
    assert (spend.unit, spend.adjacency) == ("sentence", "add_or_remove_one")
    assert spend.public_units == (749,)
    assert spend.is_simulation
    assert spend.declared == ("rate chosen on these data",)
    assert not epsilon([STEP], DELTA).is_simulation


def test_units_do_not_mix() -> None:
    with pytest.raises(FednerError, match="protect different things"):
        epsilon([STEP, replace(STEP, unit="patient")], DELTA)


def test_replacing_costs_more_than_removing() -> None:
    whole = replace(STEP, sampling_probability=1.0, noise_multiplier=4.0, unit="platform")
    replaced = epsilon([replace(whole, adjacency="replace_one")], DELTA)
    assert replaced.pld == epsilon([replace(whole, noise_multiplier=2.0)], DELTA).pld


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, float("nan")])
def test_delta_must_make_sense(delta: float) -> None:
    with pytest.raises(FednerError, match="Delta"):
        epsilon([STEP], delta)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize(
    ("target", "probability", "steps"),
    [(1.0, 0.01, 300), (8.0, 0.1, 30), (0.3, 1.0, 300), (12.0, 1.0, 1), (3.0, 0.3, 100)],
)
def test_noise_for_a_target_is_enough_and_not_much_more(
    accountant: Any, target: float, probability: float, steps: int
) -> None:
    noise = noise_for(
        target, sampling_probability=probability, steps=steps, delta=DELTA, accountant=accountant
    )
    spend = pld_epsilon if accountant == "pld" else rdp_epsilon
    assert spend({(noise, probability): steps}, DELTA) <= target
    assert spend({(noise * 0.99, probability): steps}, DELTA) > target


def test_impossible_targets_are_refused() -> None:
    with pytest.raises(FednerError, match="target epsilon"):
        noise_for(0.0, sampling_probability=0.1, steps=10, delta=DELTA)
    with pytest.raises(FednerError, match="probability"):
        noise_for(1.0, sampling_probability=0.0, steps=10, delta=DELTA)


def test_without_the_package_the_hint_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.rdp", None)
    with pytest.raises(FednerError, match=r"fedner\[privacy\]"):
        rdp_epsilon({(1.2345, 0.5): 1}, DELTA)


def test_hardly_any_noise_is_counted_by_the_bound_that_fits_into_memory() -> None:
    steps = {(1e-6, 0.1): 10}
    assert pld_epsilon(steps, 1e-5) == rdp_epsilon(steps, 1e-5) > 1e6


def test_noise_for_a_target_leaves_room_for_what_is_released_besides() -> None:
    """Ten releases of scores with noise 20 beside 240 steps: epsilon by dp-accounting itself."""
    steps, scores = {(1.0, 32 / 749): 240}, {(20.0, 1.0): 10}
    assert pld_epsilon(scores, 1e-5) == pytest.approx(0.56128, abs=1e-4)
    assert rdp_epsilon({**steps, **scores}, 1e-5) == pytest.approx(5.01163, abs=1e-4)
    target = pld_epsilon({**steps, **scores}, 1e-5)
    assert target == pytest.approx(4.4541, abs=1e-3)
    plain, beside = (
        noise_for(target, sampling_probability=32 / 749, steps=240, delta=1e-5, besides=besides)
        for besides in (None, scores)
    )
    assert plain < beside == pytest.approx(1.0, abs=2e-4)
    with pytest.raises(FednerError, match="No noise multiplier"):
        noise_for(0.5, sampling_probability=0.1, steps=10, delta=1e-5, besides=scores)
