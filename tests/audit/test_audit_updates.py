"""Members of a round, told by the update."""

import numpy as np
import pytest
import torch
from audited import PROTECTION, target

from fedner.audit import update_membership
from fedner.audit.update_membership import UpdateBudget, audit_update_membership, estimated
from fedner.errors import FednerError

BUDGET = UpdateBudget(candidates=24, rounds=1)


def test_members_are_told_in_the_clear_and_hidden_by_noise() -> None:
    row = {each.defence: each for each in audit_update_membership(target(), PROTECTION, 1, BUDGET)}
    assert row["none"].result == pytest.approx(1.0, abs=0.02)
    assert row["none"].verdict == "leak"
    assert row["none"].power_on_planted_leak == pytest.approx(1.0, abs=0.05)
    assert row["central"].verdict == "leak"
    assert row["local"].result is not None
    assert row["local"].result < 0.85
    assert row["secure-sum"].verdict == row["encryption"].verdict == "as none"


def test_dropout_does_not_hide_members() -> None:
    """The attacker does not know the masks: the gradient without them is close enough."""
    held = target(dropout=0.3)
    budget = UpdateBudget(candidates=24, rounds=4)
    row = {each.defence: each for each in audit_update_membership(held, PROTECTION, 1, budget)}
    assert row["none"].power_on_planted_leak is not None
    assert row["none"].power_on_planted_leak > 0.8
    assert row["none"].verdict == "leak"
    assert row["local"].promised is not None
    assert 0.9 < row["local"].promised < 1.0  # as epsilon allows: the cell can be broken
    assert row["none"].promised is row["central"].promised is None


def test_a_broken_attack_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(11)
    monkeypatch.setattr(update_membership, "estimated", lambda known, *_: draw.random(len(known)))
    row = {each.defence: each for each in audit_update_membership(target(), PROTECTION, 1, BUDGET)}
    assert row["none"].verdict == row["local"].verdict == "inconclusive"


def test_too_few_sentences_are_refused() -> None:
    held = target(num=8)
    with pytest.raises(FednerError, match="the attack needs at least"):
        audit_update_membership(held, PROTECTION, 1, BUDGET)


def test_parts_of_a_sum_are_estimated_and_noise_draws_them_to_a_half() -> None:
    known = torch.randn(5, 40, generator=torch.Generator().manual_seed(1))
    truth = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0])
    products = (known @ (truth @ known)).double()
    np.testing.assert_allclose(estimated(known, products, 0.0), truth.numpy(), atol=1e-5)
    np.testing.assert_allclose(estimated(known, products, 1e6), 0.5, atol=1e-5)
