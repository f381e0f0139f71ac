"""The joining study under differential privacy: noise once on the sum, every sentence protected.

(a) A model that may be released: trained together under DP, as a share of the same model without.
(b) A newcomer receives such a model and fine-tunes at home without noise: its tagger stays there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedner.experiments.joining.arms import Member, Together, crew_of
from fedner.experiments.joining.corpora import without
from fedner.experiments.joining.kinds import DESCRIBED, first_weights
from fedner.experiments.joining.stack import Tags, Weights
from fedner.experiments.joining.stacked_private import Platform, PrivatePlan, train_private
from fedner.experiments.joining.training import Indices, Plan, Source, counts, f1, train
from fedner.experiments.joining.world import World
from fedner.privacy.accountant import noise_for
from fedner.privacy.sum_terms import SumTerms
from fedner.seeds import derive
from fedner.settings.policy import NoisePlace

DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class Strength:
    """How a federation of so many sentences is protected.

    Attributes:
        epsilon: The target.
        steps: How many steps.
        probability: With which every sentence enters a step.
        noise_multiplier: What the target needs, by PLD.
    """

    epsilon: float
    steps: int
    probability: float
    noise_multiplier: float


def strength(epsilon: float, num_sentences: int, batch_size: int, epochs: int) -> Strength:
    """Return what a target needs; dp-accounting must be installed."""
    probability = min(1.0, batch_size / num_sentences)
    steps = epochs * -(-num_sentences // batch_size)
    noise = noise_for(
        epsilon,
        sampling_probability=probability,
        steps=steps,
        delta=DELTA,
        accountant="pld",
    )
    return Strength(epsilon, steps, probability, noise)


@dataclass(frozen=True, slots=True)
class Split:
    """A federation's own sentences and test parts, by platform and global number."""

    names: tuple[str, ...]
    own: tuple[Indices, ...]
    test: tuple[Indices, ...]


def split_of(world: World, names: Sequence[str], seed: int) -> Split:
    """Return the split of a federation whose platforms all hold a test part back."""
    parts = [world.corpora[name].parts(seed) for name in names]
    return Split(
        tuple(names),
        tuple(world.numbers(name, own) for name, (own, _) in zip(names, parts, strict=True)),
        tuple(world.numbers(name, test) for name, (_, test) in zip(names, parts, strict=True)),
    )


def partners_split(world: World, newcomer: str, among: Sequence[str] | None = None) -> Split:
    """Return a newcomer's partners with all their sentences; nobody is tested.

    Args:
        world: The platforms.
        newcomer: Who joins.
        among: Those who may be partners; None for all that the study has.
    """
    crew = [
        each for each in crew_of(world, Together(newcomer, 0)) if among is None or each[0] in among
    ]
    nothing = np.zeros(0, dtype=np.int64)
    return Split(
        tuple(name for name, _ in crew),
        tuple(own for _, own in crew),
        tuple(nothing for _ in crew),
    )


@dataclass(frozen=True, slots=True)
class PrivateJob:
    """One model of a stack: a federation's split, its noise, its learning rate."""

    split: Split
    noise_multiplier: float
    noise_seed: int
    learning_rate: float


@dataclass(frozen=True, slots=True)
class Guide:
    """Public sentences that every step of training under DP looks at too, without noise.

    Attributes:
        split: The public platforms and their sentences.
        weight: What their mean gradient is multiplied by.
    """

    split: Split
    weight: float


def train_privately(
    world: World,
    jobs: Sequence[PrivateJob],
    how: Strength,
    *,
    max_grad_norm: float = 1.0,
    initial: Member | None = None,
    frozen: tuple[str, ...] = (),
    ema_decay: float | None = None,
    guide: Guide | None = None,
    pull: float = 0.0,
    place: NoisePlace = "central",
    terms: SumTerms | None = None,
) -> list[Member]:
    """Train models of federations with as many platforms each, side by side.

    Args:
        world: The platforms.
        jobs: The models.
        how: How long, and with which probability sentences enter a step.
        max_grad_norm: The largest norm of a sentence's gradient.
        initial: A public model that all of them begin with; None begins afresh.
        frozen: Beginnings of the names of weights that stay as they are.
        ema_decay: Of the EMA that is returned; None returns the last weights.
        guide: Public sentences beside the protected ones.
        pull: A decay towards the weights that they begin with.
        place: Who adds the noise.
        terms: Of the secure sum, where the noise is distributed.
    """
    seeds = [derive(job.noise_seed, "joining", "private") % 2**31 for job in jobs]
    platforms = _platforms(world, [job.split for job in jobs])
    plan = PrivatePlan(
        how.steps,
        how.probability,
        [job.noise_multiplier for job in jobs],
        [job.learning_rate for job in jobs],
        max_grad_norm,
        [job.noise_seed for job in jobs],
        frozen,
        ema_decay,
        _platforms(world, [guide.split] * len(jobs)) if guide else (),
        guide.weight if guide else 0.0,
        pull=pull,
        place=place,
        terms=terms,
    )
    begun = _begun(world, seeds, initial)
    trained = train_private(begun, DESCRIBED.tokens(world), world.sentences, platforms, plan)
    return [{name: each[model] for name, each in trained.items()} for model in range(len(jobs))]


def _platforms(world: World, splits: Sequence[Split]) -> list[Platform]:
    """Return the platforms of one split a model, side by side."""
    return [
        Platform(
            [each.own[slot] for each in splits],
            Tags.bio([world.vectors[each.names[slot]] for each in splits], world.device),
        )
        for slot in range(len(splits[0].names))
    ]


def train_plainly(
    world: World,
    splits: Sequence[Split],
    seeds: Sequence[int],
    *,
    steps: int,
    batch_size: int,
    initial: Member | None = None,
) -> list[Member]:
    """Train the same models as one would without privacy: small batches, dropout."""
    sources = []
    for slot in range(len(splits[0].names)):
        own = [each.own[slot] for each in splits]
        sizes = [[len(part) for part in each.own] for each in splits]
        weight = torch.tensor([row[slot] / sum(row) for row in sizes], device=world.device)
        tags = Tags.bio([world.vectors[each.names[slot]] for each in splits], world.device)
        sources.append(Source(own, batch_size, tags, weight))
    begun = _begun(world, seeds, initial)
    plan = Plan(steps, [2e-3] * len(splits), 0.3, seeds[0])
    trained = train(begun, DESCRIBED.tokens(world), world.sentences, sources, plan)
    return [{name: each[model] for name, each in trained.items()} for model in range(len(splits))]


def _begun(world: World, seeds: Sequence[int], initial: Member | None) -> Weights:
    if initial is None:
        return first_weights(world, DESCRIBED, seeds)
    return {
        name: weight.to(world.device).expand(len(seeds), *weight.shape).clone()
        for name, weight in initial.items()
    }


def public_model(
    world: World, public: Sequence[str], protected: Sequence[str], steps: int
) -> Member:
    """Train a model on public corpora, without the sentences that protected platforms have too."""
    split = public_split(world, public, protected)
    return train_plainly(world, [split], [1], steps=steps, batch_size=32)[0]


def public_split(world: World, public: Sequence[str], protected: Sequence[str]) -> Split:
    """Return public corpora without the sentences that protected platforms have too."""
    own = []
    for name in public:
        kept = np.arange(len(world.corpora[name].sentences))
        for other in protected:
            kept = np.intersect1d(kept, without(world.corpora[name], world.corpora[other]))
        own.append(world.numbers(name, kept))
    nothing = np.zeros(0, dtype=np.int64)
    return Split(tuple(public), tuple(own), tuple(nothing for _ in public))


def scores(
    world: World, members: Sequence[Member], splits: Sequence[Split]
) -> list[dict[str, float]]:
    """Return strict F1 of every platform, and over all test parts ("all")."""
    weights = {name: torch.stack([each[name] for each in members]) for name in members[0]}
    totals = torch.zeros(len(members), 3, dtype=torch.int64, device=world.device)
    found: list[dict[str, float]] = [{} for _ in members]
    for slot in range(len(splits[0].names)):
        tags = Tags.bio([world.vectors[each.names[slot]] for each in splits], world.device)
        counted = counts(
            [(weights, DESCRIBED.tokens(world))],
            world.sentences,
            tags,
            [each.test[slot] for each in splits],
        )
        totals += counted
        for row, split, (right, predicted, gold) in zip(
            found, splits, counted.tolist(), strict=True
        ):
            row[split.names[slot]] = f1(right, predicted, gold)
    for row, (right, predicted, gold) in zip(found, totals.tolist(), strict=True):
        row["all"] = f1(right, predicted, gold)
    return found
