"""The one-run bound of epsilon: far above zero in the clear, below the accountant's with DP."""

from dataclasses import replace

import numpy as np
import pytest
from audited import PROTECTION, target

from fedner.audit import canaries, observation
from fedner.audit.canaries import CanaryBudget, audit_canaries
from fedner.audit.finding import Finding

BUDGET = CanaryBudget(canaries=1_000, releases=2, batch_size=4)


def row(multiplier: float = 1.0) -> dict[str, Finding]:
    held = replace(PROTECTION, noise_multiplier=multiplier)
    return {each.defence: each for each in audit_canaries(target(), held, 1, BUDGET)}


def test_the_bound_is_far_above_zero_in_the_clear_and_below_epsilon_with_noise() -> None:
    found = row()
    assert found["none"].result is not None
    assert found["none"].result > 4.0
    assert found["none"].verdict == "leak"
    assert found["none"].power_on_planted_leak == 1.0
    assert found["central"].verdict == "leak"
    for defence in ("local", "distributed"):
        cell = found[defence]
        assert cell.result is not None
        assert cell.promised is not None
        assert cell.result < cell.promised
        assert cell.verdict == "within epsilon"
        assert "the accountant allows" in cell.note
    # Noise of one deviation over two releases is no perfect hiding place: the attack is no dummy.
    assert found["local"].result is not None
    assert found["local"].result > 1.0
    assert found["secure-sum"].verdict == found["encryption"].verdict == "as none"


def test_noise_that_was_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = observation.gaussian
    monkeypatch.setattr(observation, "gaussian", lambda c, _m, source: real(c, 1e-3, source))
    found = row(multiplier=4.0)
    assert found["local"].verdict == "leak"
    assert found["distributed"].verdict != "leak"


def test_a_broken_attack_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(3)
    monkeypatch.setattr(canaries, "scores", lambda run, _defence: draw.random(len(run.places)))
    found = row()
    assert {found[each].verdict for each in ("none", "local", "central")} == {"inconclusive"}
