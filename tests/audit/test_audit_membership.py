"""Membership in the training data of a shared model, by loss, by LiRA and by querying types."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from audited import PROTECTION, tags, target

from fedner.audit import membership
from fedner.audit.finding import Finding
from fedner.audit.membership import BY_LIRA, BY_LOSS, BY_TYPES, audit_membership, by_lira
from fedner.audit.observation import Target
from fedner.audit.shadow_models import Pool, ShadowBudget, as_received, drawn_pool, mention_probes
from fedner.audit.statistics import auc
from fedner.models.tagger import Tagger
from fedner.training import trainable

BUDGET = ShadowBudget(models=8, pool=48, planted=12, epochs=15, batch_size=8, learning_rate=0.02)
Rows = dict[tuple[str, str], Finding]


def rows(shared: str = "everything") -> Rows:
    protection = replace(PROTECTION, noise_multiplier=2.0)
    held = target("LSTM-CRF", head="described", shared=shared, num=60)
    found = audit_membership(held, tags(), protection, 1, BUDGET)
    return {(each.attack, each.defence): each for each in found}


def untrained(held: Target, pool: Pool, *_: object) -> list[Tagger]:
    return [held.tagger.eval()] * len(pool.is_in)


@pytest.fixture(scope="module")
def attacked() -> Rows:
    return rows()


def test_lira_finds_members_in_the_clear_and_noise_hides_them(attacked: Rows) -> None:
    clear, noised = attacked[BY_LIRA, "none"], attacked[BY_LIRA, "local"]
    assert clear.power_on_planted_leak is not None
    assert clear.power_on_planted_leak > 0.8
    assert clear.verdict == "leak"
    assert clear.result is not None
    assert clear.result > 0.7
    assert "at 1 % false alarms" in clear.note
    assert noised.result is not None
    assert noised.result < 0.6
    by_loss = attacked[BY_LOSS, "none"]
    assert by_loss.result is not None
    assert 0.5 < by_loss.result <= clear.result


def test_entities_are_told_by_querying_types(attacked: Rows) -> None:
    clear = attacked[BY_TYPES, "none"]
    assert clear.result is not None
    assert clear.result > 0.6
    assert clear.verdict == "leak"


def test_cells_that_a_defence_cannot_change_are_marked_not_run(attacked: Rows) -> None:
    for attack in (BY_LOSS, BY_LIRA, BY_TYPES):
        marks = {"secure-sum": "as none", "encryption": "as none",
                 "central": "as local", "distributed": "as local"}  # fmt: skip
        assert {each: attacked[attack, each].verdict for each in marks} == marks


def test_a_broken_attack_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(5)
    monkeypatch.setattr(membership, "by_lira", lambda losses, _in: draw.random(losses.shape))
    monkeypatch.setattr(membership, "trained_models", untrained)
    found = rows()
    for attack in (BY_LIRA, BY_LOSS, BY_TYPES):  # models that learned nothing tell nothing
        assert found[attack, "none"].verdict == "inconclusive"
        assert found[attack, "local"].verdict == "inconclusive"


def test_a_private_head_answers_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "trained_models", untrained)
    assert rows("encoder")[BY_TYPES, "none"].verdict == "nothing to attack"


def test_what_is_private_is_not_the_attackers() -> None:
    held = target("LSTM-CRF", head="described", shared="encoder", num=110)
    pool = drawn_pool(held, tags(), BUDGET, 1)
    models = [replace_weights(held.tagger, 0.5), replace_weights(held.tagger, 0.25)]
    received = as_received(held, pool, models, BUDGET, 1)
    first = dict(held.tagger.named_parameters())
    private = [name for name in trainable(held.tagger) if name not in held.shared]
    assert private
    for model, other in zip(models, received, strict=True):
        own, got = dict(model.named_parameters()), dict(other.named_parameters())
        assert all(torch.equal(own[name], got[name]) for name in held.shared)
        # A head of the attacker's own, trained from the first weights.
        assert not any(torch.equal(own[name], got[name]) for name in private)
        assert not any(torch.equal(first[name], got[name]) for name in private)
    whole = replace(held, shared=tuple(trainable(held.tagger)))
    assert as_received(whole, pool, models, BUDGET, 1) == models


def replace_weights(tagger: Tagger, value: float) -> Tagger:
    changed = copy.deepcopy(tagger)
    with torch.no_grad():
        for weight in trainable(changed).values():
            weight.add_(value)
    return changed


def test_the_attackers_sentences_are_not_asked_about() -> None:
    held = target("LSTM-CRF", num=110)
    pool = drawn_pool(held, tags(), BUDGET, 1)
    assert len(pool.attackers) == BUDGET.pool
    assert not set(pool.attackers.starts.tolist()) & set(pool.corpus.starts.tolist())


def test_lira_knows_each_probe_by_its_own_models() -> None:
    """Hard and easy probes differ by far more than membership does: a threshold sees nothing."""
    draw = np.random.default_rng(2)
    is_in = np.stack([draw.permutation(16) < 8 for _ in range(60)], axis=1)
    level = draw.uniform(0.1, 3.0, 60)
    losses = level * np.exp(-0.3 * is_in + 0.05 * draw.standard_normal((16, 60)))
    scores = by_lira(losses, is_in)
    assert auc(scores[is_in], scores[~is_in]) > 0.95
    assert auc(-losses[is_in], -losses[~is_in]) < 0.75


def test_mentions_are_members_where_any_sentence_has_them() -> None:
    held = target("LSTM-CRF", head="described", num=60)
    pool = drawn_pool(held, tags(), BUDGET, 1)
    assert pool.is_in.sum(axis=0).tolist() == [4] * len(pool.corpus)
    probes = mention_probes(pool, tags())
    assert probes is not None
    assert probes.corpus.lengths.min() >= 1
    seen = probes.is_in.sum(axis=0)
    assert seen.min() >= 2
    assert seen.max() <= 6
