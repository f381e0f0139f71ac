"""Was this sentence, or this entity, in the training data? Asked of the shared model.

Loss threshold: Yeom et al. (2018), "Privacy risk in machine learning". LiRA: Carlini et al. (2022),
"Membership inference attacks from first principles": the confidence of a model on a probe against
the Gaussians of models that saw it and that did not, with one variance for all (their form for few
models). Each model is the attacked one once, the others are its shadows.

The attacker has what is shared of the model. Where a part of it is private he trains one of his own
on other sentences of the platform: better ones than anybody else has.

Shapes: N models, S probes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedner.audit.finding import Defence, Finding, absent, in_order, unchanged
from fedner.audit.observation import Protection, Target
from fedner.audit.shadow_models import (
    Bools,
    Floats,
    Pool,
    Probes,
    ShadowBudget,
    as_received,
    drawn_pool,
    losses,
    mention_probes,
    sentence_probes,
    trained_models,
    training_epsilon,
)
from fedner.audit.statistics import allowed_auc, auc, bootstrap_interval, tpr_at_fpr
from fedner.models.features import TagSpace
from fedner.models.partition import HEAD, lies_under
from fedner.seeds import derive

BY_LOSS = "membership by loss"
BY_LIRA = "membership by LiRA"
BY_TYPES = "entities by querying types"
ATTACKS = (BY_LOSS, BY_LIRA, BY_TYPES)
MEASURE = "AUC of members against others"
_LEAST_LOSS = 1e-6
DELTA = 1e-5
_SAME_MODEL = "the model that comes out is the same"
_SAME_NOISE = "whoever knows the other platforms' updates is left with one noise on one sum"
_NO_HEAD = "the head stays private: nobody else can ask the model for a type"
_NO_MENTION = "no mention is seen by some models and not by others"

Scorer = Callable[[Floats, Bools], Floats]


@dataclass(frozen=True, slots=True)
class _Shadows:
    """What the models of one defence said.

    Attributes:
        defence: The defence.
        sentences: Their losses on the sentences of the pool.
        mentions: Their losses on mentions; None where there are none to ask about.
        epsilon: What the accountant says of their training; None without DP.
    """

    defence: Defence
    sentences: Floats
    mentions: Floats | None
    epsilon: float | None


def audit_membership(
    target: Target,
    space: TagSpace,
    protection: Protection,
    seed: int,
    budget: ShadowBudget | None = None,
) -> list[Finding]:
    """Return three rows of the table: by loss, by LiRA, and entities by querying types.

    Args:
        target: The attacked platform, with the weights that training begins with.
        space: The tags of its tagger.
        protection: How strong the defences are.
        seed: Of pool, trainings and noise.
        budget: How much may be trained.
    """
    chosen = ShadowBudget() if budget is None else budget
    pool = drawn_pool(target, space, chosen, seed)
    mentions = mention_probes(pool, space) if _shares_head(target) else None
    shadows = []
    tried: tuple[tuple[Defence, Protection | None], ...] = (("none", None), ("local", protection))
    for defence, held in tried:
        models = trained_models(target, pool, chosen, derive(seed, defence), held)
        models = as_received(target, pool, models, chosen, derive(seed, defence))
        asked = None if mentions is None else losses(models, mentions.corpus)
        epsilon = None if held is None else training_epsilon(chosen, held, DELTA)
        shadows.append(_Shadows(defence, losses(models, pool.corpus), asked, epsilon))
    rows = _sentence_row(BY_LOSS, by_loss, pool, shadows, seed)
    rows += _sentence_row(BY_LIRA, by_lira, pool, shadows, seed)
    return rows + _mention_row(target, pool, mentions, shadows, seed)


def _shares_head(target: Target) -> bool:
    return any(lies_under(name, HEAD) for name in target.shared)


def by_loss(losses_NS: Floats, is_in: Bools) -> Floats:  # noqa: ARG001 - one form for both
    """Return how sure each model is of each probe."""
    return -losses_NS


def by_lira(losses_NS: Floats, is_in: Bools) -> Floats:
    """Return the logarithm of the likelihood ratio of having been seen, by the other models."""
    confidence_NS = _confidence(losses_NS)
    scores_NS = np.zeros_like(confidence_NS)
    others = ~np.eye(len(is_in), dtype=bool)
    spread_in, spread_out = (_spread(confidence_NS, mask) for mask in (is_in, ~is_in))
    for model, shadows in enumerate(others):
        seen = _mean(confidence_NS, is_in & shadows[:, None])
        unseen = _mean(confidence_NS, ~is_in & shadows[:, None])
        own = confidence_NS[model]
        scores_NS[model] = _log_normal(own, seen, spread_in) - _log_normal(own, unseen, spread_out)
    return scores_NS


def _confidence(losses_NS: Floats) -> Floats:
    """Return log(p / (1 - p)) of the probability of a token's tag, as the mean over its probe."""
    bounded = np.maximum(losses_NS, _LEAST_LOSS)
    scaled: Floats = -bounded - np.log(-np.expm1(-bounded))
    return scaled


def _mean(values_NS: Floats, mask_NS: Bools) -> Floats:
    number_S = np.maximum(mask_NS.sum(axis=0), 1)
    mean: Floats = np.where(mask_NS, values_NS, 0.0).sum(axis=0) / number_S
    return mean


def _spread(values_NS: Floats, mask_NS: Bools) -> float:
    """Return the deviation of the models about their mean, one number for all probes."""
    centred = np.where(mask_NS, values_NS - _mean(values_NS, mask_NS), 0.0)
    freedom = max(1, int(mask_NS.sum()) - mask_NS.shape[1])
    return float(np.sqrt((centred**2).sum() / freedom)) + 1e-12


def _log_normal(values: Floats, mean: Floats, deviation: float) -> Floats:
    density: Floats = -0.5 * ((values - mean) / deviation) ** 2 - np.log(deviation)
    return density


def _sentence_row(
    attack: str, scorer: Scorer, pool: Pool, shadows: list[_Shadows], seed: int
) -> list[Finding]:
    probes, planted = sentence_probes(pool), np.arange(pool.num_planted)
    natural = np.arange(pool.num_planted, len(pool.corpus))
    clear = scorer(shadows[0].sentences, probes.is_in)
    power = 2.0 * _area(clear, probes.is_in, planted) - 1.0
    cells = [
        _cell(attack, each.defence, scorer(each.sentences, probes.is_in), probes, natural, power,
              seed, each.epsilon)
        for each in shadows
    ]  # fmt: skip
    return _with_marked(attack, cells)


def _mention_row(
    target: Target, pool: Pool, mentions: Probes | None, shadows: list[_Shadows], seed: int
) -> list[Finding]:
    if not _shares_head(target):
        return absent(BY_TYPES, MEASURE, _NO_HEAD)
    if mentions is None:
        return absent(BY_TYPES, MEASURE, _NO_MENTION)
    # The planted sentences are the leak that the same likelihood ratio must find.
    clear = by_lira(shadows[0].sentences, pool.is_in)
    power = 2.0 * _area(clear, pool.is_in, np.arange(pool.num_planted)) - 1.0
    every = np.arange(len(mentions.corpus))
    cells = [
        _cell(BY_TYPES, each.defence, by_lira(each.mentions, mentions.is_in), mentions, every,
              power, seed, each.epsilon)
        for each in shadows
        if each.mentions is not None
    ]  # fmt: skip
    return _with_marked(BY_TYPES, cells)


def _with_marked(attack: str, cells: list[Finding]) -> list[Finding]:
    hidden: tuple[Defence, ...] = ("secure-sum", "encryption")
    noised: tuple[Defence, ...] = ("central", "distributed")
    marked = [unchanged(attack, each, MEASURE, "none", _SAME_MODEL) for each in hidden]
    marked += [unchanged(attack, each, MEASURE, "local", _SAME_NOISE) for each in noised]
    return in_order([*cells, *marked])


def _cell(
    attack: str,
    defence: Defence,
    scores_NS: Floats,
    probes: Probes,
    columns: NDArray[np.int64],
    power: float,
    seed: int,
    epsilon: float | None,
) -> Finding:
    is_in = probes.is_in
    area = _area(scores_NS, is_in, columns)
    promised = None if epsilon is None else allowed_auc(epsilon, DELTA)

    def resampled(drawn: NDArray[np.int64]) -> float:
        return _area(scores_NS, is_in, columns[drawn])

    lower, upper = bootstrap_interval(resampled, len(columns), seed)
    chosen, truth = scores_NS[:, columns], is_in[:, columns]
    rate = tpr_at_fpr(chosen[truth], chosen[~truth])
    note = f"{rate:.1%} of members found at 1 % false alarms"
    return Finding(
        attack, defence, MEASURE, "run", area, lower, upper, 0.5, power, promised, note=note
    )  # fmt: skip


def _area(scores_NS: Floats, is_in: Bools, columns: NDArray[np.int64]) -> float:
    chosen, truth = scores_NS[:, columns], is_in[:, columns]
    return auc(chosen[truth], chosen[~truth])
