"""Models that were trained with and without each sentence: what membership attacks learn from.

Each of N models is trained on its own half of a pool of the platform's sentences. Some sentences
are planted: their tags are drawn at random, so that only a model that saw them can know them.

Shapes: N models, S probes.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from fedner.audit.observation import Protection, Target
from fedner.corpus.schemes import decode, encode
from fedner.corpus.sentence import Entity
from fedner.errors import FednerError
from fedner.federated.learner import TaggerLearner
from fedner.models.features import EncodedCorpus, TagSpace, collate, select
from fedner.models.tagger import Tagger
from fedner.optimizers import Optimizer, OptimizerSettings
from fedner.privacy.accountant import pld_epsilon
from fedner.privacy.entropy import SeededSimulation
from fedner.privacy.noise import divide, gaussian, rounded_like
from fedner.privacy.sampling import PoissonSample, poisson_sample
from fedner.seeds import derive
from fedner.training import TrainingSettings, train, trainable

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
_CELLS = 64  # sentences in a batch that is only read


@dataclass(frozen=True, slots=True)
class ShadowBudget:
    """How much may be trained.

    Attributes:
        models: N.
        pool: Sentences that each model sees half of.
        planted: How many of them have random tags.
        epochs: Of each training.
        batch_size: Sentences in a batch; the expected number under DP.
        learning_rate: Of Adam.
    """

    models: int = 12
    pool: int = 128
    planted: int = 32
    epochs: int = 16
    batch_size: int = 16
    learning_rate: float = 5e-3

    @property
    def probability(self) -> float:
        """How likely a sentence is in a Poisson sample: by public sizes, not by who is in."""
        return min(1.0, self.batch_size / (self.pool / 2))

    @property
    def steps(self) -> int:
        """How many steps a training under DP takes: as many as one without."""
        return self.epochs * max(1, round(self.pool / 2 / self.batch_size))


@dataclass(frozen=True, slots=True)
class Pool:
    """The sentences that models are trained on, and who sees what.

    Attributes:
        corpus: The sentences, planted tags in place; the planted ones come first.
        is_in: Which model is trained on which sentence (N, S).
        num_planted: How many sentences are planted.
        attackers: Other sentences of the same kind, which an attacker is supposed to have.
    """

    corpus: EncodedCorpus
    is_in: Bools
    num_planted: int
    attackers: EncodedCorpus


@dataclass(frozen=True, slots=True)
class Probes:
    """What models are asked about.

    Attributes:
        corpus: Sentences, or parts of them, with their tags.
        is_in: Which model saw which of them in training (N, S).
    """

    corpus: EncodedCorpus
    is_in: Bools


def drawn_pool(target: Target, space: TagSpace, budget: ShadowBudget, seed: int) -> Pool:
    """Return the pool; each sentence is seen by half of the models.

    Raises:
        FednerError: The platform has too few sentences.
    """
    held = target.sentences
    if len(held) < 2 * budget.batch_size:
        raise FednerError(
            f"{len(held):,} sentences; shadow models need at least {2 * budget.batch_size:,}",
            "Audit a larger platform, or take a smaller batch.",
        )
    draw = np.random.default_rng(derive(seed, "shadow pool"))
    order = draw.permutation(held)
    chosen, others = order[: budget.pool], order[budget.pool : 2 * budget.pool]
    num_planted = min(budget.planted, len(chosen) // 2)
    corpus = _with_random_tags(target.corpus, chosen[:num_planted], space, draw)
    halves = [draw.permutation(budget.models) < budget.models // 2 for _ in chosen]
    is_in = np.stack(halves, axis=1)
    return Pool(select(corpus, chosen), is_in, num_planted, select(target.corpus, others))


def _with_random_tags(
    corpus: EncodedCorpus,
    sentences: Sequence[int] | NDArray[np.int64],
    space: TagSpace,
    draw: np.random.Generator,
) -> EncodedCorpus:
    """Return the corpus with random entities of one token each in some sentences."""
    if corpus.tags_T is None:
        raise FednerError("the sentences have no gold tags", "Encode them with a tag space.")
    index = {tag: place for place, tag in enumerate(space.tags)}
    tags_T = corpus.tags_T.clone()
    for sentence in sentences:
        start, length = int(corpus.starts[sentence]), int(corpus.lengths[sentence])
        places = np.flatnonzero(draw.random(length) < 0.5)
        labels = draw.integers(len(space.labels), size=len(places))
        drawn = [
            Entity(int(at), int(at) + 1, space.labels[label])
            for at, label in zip(places, labels, strict=True)
        ]
        tags = [index[tag] for tag in encode(drawn, length, space.scheme)]
        tags_T[start : start + length] = torch.tensor(tags, dtype=tags_T.dtype)
    return replace(corpus, tags_T=tags_T)


def trained_models(
    target: Target, pool: Pool, budget: ShadowBudget, seed: int, protection: Protection | None
) -> list[Tagger]:
    """Return the trained models; under DP where a protection is given."""
    models = []
    for number, is_in in enumerate(pool.is_in):
        tagger = copy.deepcopy(target.tagger)
        own, path = select(pool.corpus, np.flatnonzero(is_in)), derive(seed, "shadow", number)
        if protection is None:
            _train(tagger, own, budget, path)
        else:
            _train_dp(tagger, own, budget, path, protection)
        models.append(tagger.eval())
    return models


def _train(tagger: Tagger, corpus: EncodedCorpus, budget: ShadowBudget, seed: int) -> None:
    optimizer = OptimizerSettings(learning_rate=budget.learning_rate)
    train(tagger, corpus, TrainingSettings(budget.epochs, budget.batch_size, optimizer), seed)


def _train_dp(
    tagger: Tagger, corpus: EncodedCorpus, budget: ShadowBudget, seed: int, protection: Protection
) -> None:
    """Train by noised sums of clipped gradients over Poisson samples, sentence by sentence."""
    learner, weights = TaggerLearner(tagger, corpus), trainable(tagger)
    optimizer = Optimizer(OptimizerSettings(learning_rate=budget.learning_rate))
    bound = protection.max_grad_norm
    for step in range(budget.steps):
        source = SeededSimulation(derive(seed, "step", step))
        drawn = poisson_sample(len(corpus), budget.probability, source.at("sample")).tolist()
        sample = PoissonSample(tuple(drawn), tuple(range(len(drawn))), len(drawn))
        clipped = learner.clipped(sample, bound, tuple(weights), protection.loss, seed + step)
        noised = gaussian(clipped, protection.noise_multiplier, source.at("noise"))
        gradient = rounded_like(divide(noised, budget.batch_size), weights)
        optimizer.step(weights, gradient)


def as_received(
    target: Target, pool: Pool, models: Sequence[Tagger], budget: ShadowBudget, seed: int
) -> list[Tagger]:
    """Return the models as somebody has them who receives the shared part alone.

    What is private is replaced by a part of the attacker's own, trained on other sentences of the
    same kind. Where there are none the models are returned whole, which is more than is shared.
    """
    private = [name for name in trainable(target.tagger) if name not in target.shared]
    if not private or len(pool.attackers) < budget.batch_size:
        return list(models)
    first = dict(target.tagger.named_parameters())
    received = []
    for number, model in enumerate(models):
        tagger = copy.deepcopy(model)
        for name, weight in tagger.named_parameters():
            weight.requires_grad_(name in private)
            if name in private:
                weight.data.copy_(first[name].detach())
        _train(tagger, pool.attackers, budget, derive(seed, "received", number))
        received.append(tagger.eval())
    return received


def training_epsilon(budget: ShadowBudget, protection: Protection, delta: float) -> float | None:
    """Return the accountant's epsilon of a shadow model's training under DP."""
    epsilon = pld_epsilon({(protection.noise_multiplier, budget.probability): budget.steps}, delta)
    return epsilon if math.isfinite(epsilon) else None


def sentence_probes(pool: Pool) -> Probes:
    """Return the sentences of the pool as what is asked about."""
    return Probes(pool.corpus, pool.is_in)


def mention_probes(pool: Pool, space: TagSpace) -> Probes | None:
    """Return the distinct mentions of the pool, each alone; None where no model lacks any.

    A model has seen a mention if a sentence that it was trained on has the same words with the same
    type. Planted sentences are left out: their mentions are nobody's.
    """
    corpus, seen = pool.corpus, dict[tuple[object, ...], list[tuple[int, int, int]]]()
    if corpus.tags_T is None:
        return None
    for sentence in range(pool.num_planted, len(corpus)):
        start, length = int(corpus.starts[sentence]), int(corpus.lengths[sentence])
        tags = [space.tags[tag] for tag in corpus.tags_T[start : start + length].tolist()]
        for first, last, label in decode(tags, space.scheme):
            words = tuple(corpus.word_T[start + first : start + last].tolist())
            seen.setdefault((label, *words), []).append((sentence, start + first, last - first))
    is_in: list[Bools] = [
        np.logical_or.reduce(pool.is_in[:, [sentence for sentence, _, _ in places]], axis=1)
        for places in seen.values()
    ]
    # Of a mention that all models saw, or none, nothing can be told.
    kept = [at for at, each in enumerate(is_in) if 2 <= each.sum() <= len(each) - 2]
    if not kept:
        return None
    first_places = [next(iter(places)) for places in seen.values()]
    starts = np.array([first_places[at][1] for at in kept], dtype=np.int64)
    lengths = np.array([first_places[at][2] for at in kept], dtype=np.int64)
    parts = replace(corpus, starts=starts, lengths=lengths)
    return Probes(parts, np.stack([is_in[at] for at in kept], axis=1))


@torch.no_grad()
def losses(models: Sequence[Tagger], corpus: EncodedCorpus) -> Floats:
    """Return the negative log-likelihood of every probe by every model, over its tokens (N, S)."""
    found = np.zeros((len(models), len(corpus)))
    order = np.argsort(corpus.lengths, kind="stable")
    for first in range(0, len(order), _CELLS):
        batch = collate(corpus, order[first : first + _CELLS])
        for number, tagger in enumerate(models):
            own = tagger.losses(batch).double().numpy()
            found[number, batch.sentences] = own / corpus.lengths[batch.sentences]
    return found
