"""A malicious server's weights: the clipping holds, a naive one does not."""

import pytest
from audited import PROTECTION, target

from fedner.audit import hostile_weights
from fedner.audit.hostile_weights import HostileBudget, audit_hostile_weights

BUDGET = HostileBudget(tries=28, batch_size=3)


def test_our_clipping_holds_and_a_naive_one_is_found_out() -> None:
    row = {each.defence: each for each in audit_hostile_weights(target(), PROTECTION, 1, BUDGET)}
    local = row["local"]
    assert local.result is not None
    assert 0.0 < local.result <= 1.0 + 1e-6
    assert local.power_on_planted_leak == 1.0
    assert local.verdict == "no leak found"
    assert "worst of 28" in local.note
    assert row["central"].verdict == row["distributed"].verdict == "as local"
    assert row["none"].verdict == "nothing to attack"
    assert "nothing bounds" in row["none"].note


def test_a_clipping_that_is_broken_is_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_weights, "clipped_sum", hostile_weights.naively_clipped)
    row = {each.defence: each for each in audit_hostile_weights(target(), PROTECTION, 1, BUDGET)}
    assert row["local"].verdict == "leak"


def test_without_a_hostile_kind_the_suite_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_weights, "poison", lambda *_: None)
    row = {each.defence: each for each in audit_hostile_weights(target(), PROTECTION, 1, BUDGET)}
    assert row["local"].verdict == "inconclusive"
