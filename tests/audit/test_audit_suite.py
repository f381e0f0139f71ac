"""All attacks together: every cell is there, and what cannot be made says so."""

import pytest
from audited import PROTECTION, tags, target

from fedner.audit import suite
from fedner.audit.canaries import CanaryBudget
from fedner.audit.described_types import TypesBudget
from fedner.audit.finding import DEFENCES, Finding
from fedner.audit.gradient_matching import SentenceBudget
from fedner.audit.hostile_weights import HostileBudget
from fedner.audit.membership import ATTACKS
from fedner.audit.shadow_models import ShadowBudget
from fedner.audit.suite import AuditBudget, Audited, audit
from fedner.audit.update_membership import UpdateBudget
from fedner.audit.words import WordsBudget
from fedner.errors import FednerError

TINY = AuditBudget(
    WordsBudget(batch_size=2, trials=2),
    SentenceBudget(longest=4, steps=2, restarts=1, trials=2, tries=2),
    UpdateBudget(candidates=10, rounds=1),
    ShadowBudget(models=4, pool=32, planted=8, epochs=1, batch_size=8),
    TypesBudget(batch_size=2, rounds=1, trials=2),
    CanaryBudget(canaries=20, releases=1, batch_size=2),
    HostileBudget(tries=2, batch_size=2),
)


def test_every_attack_has_a_cell_for_every_defence() -> None:
    said: list[str] = []
    found = audit(Audited(target(num=60), tags()), PROTECTION, 1, TINY, said.append)
    assert len(said) == 8
    names = list(dict.fromkeys(each.attack for each in found))
    assert len(names) == 10
    for name in names:
        assert tuple(each.defence for each in found if each.attack == name) == DEFENCES
    assert not any("safe" in each.verdict for each in found)


def test_an_attack_that_cannot_be_made_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> list[Finding]:
        raise FednerError("no per-unit gradient")

    monkeypatch.setattr(suite.membership, "audit_membership", refused)
    found = audit(Audited(target(num=60), tags()), PROTECTION, 1, TINY)
    rows = [each for each in found if each.attack in ATTACKS]
    assert len(rows) == len(ATTACKS) * len(DEFENCES)
    assert {each.verdict for each in rows} == {"inconclusive"}
    assert {each.note for each in rows} == {"not made: no per-unit gradient"}
