"""The gate: exact at the border, however it gets there."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.privacy.accountant import epsilon
from fedner.privacy.budget import Budget, BudgetGate
from fedner.privacy.events import DeclaredUse, GaussianRelease, Slice

pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")

STEP = GaussianRelease(2.0, 0.1, "patient", 1.0, 500)


def admitted(gate: BudgetGate, event: GaussianRelease, limit: int = 10_000) -> int:
    """Admit the same event until the gate refuses; return how often it did not."""
    for count in range(limit):
        try:
            gate.require(event)
        except FednerError:
            return count
        gate.admit(event)
    return limit


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("limit", [0.9, 2.0])
def test_one_step_more_would_exceed_the_budget(accountant: Any, limit: float) -> None:
    gate = BudgetGate(Budget(limit, 1e-5, "patient", accountant=accountant))
    count = admitted(gate, STEP)
    assert count > 3
    assert epsilon([replace(STEP, steps=count)], 1e-5).by(accountant) <= limit
    assert epsilon([replace(STEP, steps=count + 1)], 1e-5).by(accountant) > limit


def test_a_budget_of_exactly_the_spend_is_enough_and_a_hair_less_is_not() -> None:
    spend = epsilon([replace(STEP, steps=20)], 1e-5).pld
    assert admitted(BudgetGate(Budget(spend, 1e-5, "patient")), STEP) == 20
    assert admitted(BudgetGate(Budget(spend * (1 - 1e-9), 1e-5, "patient")), STEP) == 19


def test_a_refusal_changes_nothing() -> None:
    gate = BudgetGate(Budget(1.0, 1e-5, "patient"))
    huge = replace(STEP, steps=10**5)
    for _ in range(2):
        with pytest.raises(FednerError, match=r"budget of this platform is 1\b"):
            gate.require(huge)
    gate.require(STEP)


def test_what_was_released_before_counts() -> None:
    budget = Budget(1.0, 1e-5, "patient")
    count = admitted(BudgetGate(budget), STEP)
    assert admitted(BudgetGate(budget, [replace(STEP, steps=count - 2)]), STEP) == 2
    assert admitted(BudgetGate(budget, [DeclaredUse("a look")]), STEP) == count


def test_slices_share_the_budget_in_parallel() -> None:
    budget = Budget(1.0, 1e-5, "patient")
    count = admitted(BudgetGate(budget), STEP)
    gate = BudgetGate(budget)
    for name in ("0", "1"):
        assert admitted(gate, replace(STEP, slice=Slice("halves", name))) == count
    assert admitted(gate, STEP) == 0


@settings(max_examples=8, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1.5, 3.0]), st.sampled_from([None, "0", "1"]), st.integers(1, 9)
        ),
        max_size=12,
    )
)
def test_the_gate_decides_as_the_accountant_does(kinds: list[tuple[float, Any, int]]) -> None:
    budget = Budget(1.2, 1e-5, "patient")
    gate, past = BudgetGate(budget), []
    for noise, part, steps in kinds:
        where = None if part is None else Slice("halves", part)
        event = replace(STEP, noise_multiplier=noise, slice=where, steps=steps)
        # Both accountants are upper bounds, so either may let a release through.
        spend = epsilon([*past, event], 1e-5)
        if min(spend.pld, spend.rdp) <= budget.epsilon:
            gate.require(event)
            gate.admit(event)
            past.append(event)
        else:
            with pytest.raises(FednerError, match="Refused"):
                gate.require(event)


@pytest.mark.parametrize(
    "change", [{"unit": "sentence"}, {"adjacency": "replace_one", "sampling_probability": 1.0}]
)
def test_a_budget_is_for_one_unit_and_adjacency(change: dict[str, Any]) -> None:
    other = replace(STEP, **change)
    with pytest.raises(FednerError, match="the budget is for patient"):
        BudgetGate(Budget(1.0, 1e-5, "patient")).require(other)
    with pytest.raises(FednerError, match="the budget is for patient"):
        BudgetGate(Budget(1.0, 1e-5, "patient"), [other])


def test_no_noise_never_fits() -> None:
    with pytest.raises(FednerError, match="inf"):
        BudgetGate(Budget(1e6, 1e-5, "patient")).require(replace(STEP, noise_multiplier=0.0))


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 0.0}, {"epsilon": float("inf")}, {"delta": 0.0}, {"unit": "x"}, {"accountant": 1}],
)
def test_a_senseless_budget_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(FednerError, match="budget"):
        Budget(**{"epsilon": 1.0, "delta": 1e-5, "unit": "patient", **change})
