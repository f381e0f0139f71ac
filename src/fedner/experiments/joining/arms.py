"""The trainings of the study: partners together, then newcomers by themselves, many at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.experiments.joining.corpora import BTC, MEDICAL, without
from fedner.experiments.joining.kinds import Kind, first_weights
from fedner.experiments.joining.stack import Tags, Tokens, Weights
from fedner.experiments.joining.training import (
    MOST_ROWS,
    Indices,
    Plan,
    Source,
    counts,
    f1,
    train,
)
from fedner.experiments.joining.world import REAL, World
from fedner.seeds import derive, seeded

Member = dict[str, Tensor]  # the weights of one tagger
Counts = tuple[int, int, int]  # entities that are right, found and gold
MOST_MODELS = 192  # scored side by side
DROPOUT = 0.2


def partners_of(newcomer: str) -> tuple[str, ...]:
    """Return who trained together before the newcomer came; the one of most types first."""
    everyone = BTC if newcomer in BTC else tuple(reversed(MEDICAL))
    return tuple(each for each in everyone if each != newcomer)


@dataclass(frozen=True, slots=True)
class Together:
    """A joint training of a newcomer's partners.

    Attributes:
        newcomer: Who shall join.
        seed: Names first weights and batches.
        own: Sentences of a newcomer that takes part; None where it only receives.
        variant: Which gold tags the partners have: their own, or the placebo's.
        vectors: "descriptions", or "random" for a random vector of each platform's each type.
        head: "shared" or "private": a free head of each platform, as FedNER has it.
        weighting: "equal", "sqrt-size" or "size".
    """

    newcomer: str
    seed: int
    own: Indices | None = field(default=None, hash=False, compare=False)
    variant: int = REAL
    vectors: str = "descriptions"
    head: str = "shared"
    weighting: str = "equal"


def type_vectors(world: World, name: str, job: Together) -> Tensor:
    """Return the vectors of a platform's types as the joint training knows them."""
    found = world.vectors[name]
    if job.vectors == "descriptions":
        return found
    drawn = seeded(job.seed, "joining", "random vectors", name).normal(size=tuple(found.shape))
    norms = np.linalg.norm(drawn, axis=1, keepdims=True)
    return torch.from_numpy(drawn / norms * float(found[0].norm())).float()


def train_together(
    world: World,
    kind: Kind,
    jobs: Sequence[Together],
    *,
    steps: int,
    batch_size: int,
    learning_rate: float = 1e-3,
    dropout: float = DROPOUT,
) -> list[Member]:
    """Train every job's partners together; all jobs have the same number of platforms.

    A step is a round of FedNER that shares everything, in which every platform draws `batch_size`
    sentences: the sum of their weighted gradients is the gradient of the weighted sum of their
    losses. The server bounds the norm of that sum, as a platform by itself does.
    """
    sources = _sources(world, jobs, batch_size)
    seeds = [derive(job.seed, "joining", "first weights") % 2**31 for job in jobs]
    begun = _begun(world, kind, seeds, sources)
    plan = Plan(
        steps,
        [learning_rate] * len(jobs),
        dropout,
        jobs[0].seed,
        variants=[job.variant for job in jobs],
    )
    trained = train(begun, kind.tokens(world), world.sentences, sources, plan)
    return [_member(trained, model) for model in range(len(jobs))]


def _member(weights: Weights, model: int) -> Member:
    return {name: each[model] for name, each in weights.items()}


def _sources(world: World, jobs: Sequence[Together], batch_size: int) -> list[Source]:
    """Return the platforms of all jobs, side by side: each job's first, each job's second, ..."""
    crews = [crew_of(world, job) for job in jobs]
    weights = [_weights(crew, job) for crew, job in zip(crews, jobs, strict=True)]
    sources = []
    for slot in range(len(crews[0])):
        vectors = [
            type_vectors(world, crew[slot][0], job) for crew, job in zip(crews, jobs, strict=True)
        ]
        sources.append(
            Source(
                [crew[slot][1] for crew in crews],
                batch_size,
                Tags.bio(vectors, world.device),
                torch.tensor([each[slot] for each in weights]).to(world.device),
                f"{slot}/" if jobs[0].head == "private" else "",
            )
        )
    return sources


def _begun(world: World, kind: Kind, seeds: Sequence[int], sources: Sequence[Source]) -> Weights:
    """Return first weights: one head for all sources, or one for each."""
    found: Weights = {}
    for source in sources:
        num_tags = source.tags.is_own_MK.shape[1]
        found |= first_weights(world, kind, seeds, num_tags=num_tags, prefix=source.prefix)
        if not source.prefix:
            break
    return found


def crew_of(world: World, job: Together) -> list[tuple[str, Indices]]:
    """Return the platforms of a joint training with their sentences, by global number."""
    newcomer = world.corpora[job.newcomer]
    crew = [
        (name, world.numbers(name, without(world.corpora[name], newcomer)))
        for name in partners_of(job.newcomer)
    ]
    if job.own is not None:
        crew.append((job.newcomer, job.own))
    return crew


def _weights(crew: Sequence[tuple[str, Indices]], job: Together) -> list[float]:
    power = {"equal": 0.0, "sqrt-size": 0.5, "size": 1.0}[job.weighting]
    raised = [len(own) ** power for _, own in crew]
    return [each / sum(raised) for each in raised]


@dataclass(frozen=True, slots=True)
class Alone:
    """A training on a newcomer's own sentences, from scratch or from what it received.

    Attributes:
        newcomer: Whose.
        own: The sentences, by global number.
        scored: The sentences to score it on afterwards.
        learning_rate: At the beginning.
        seed: Names first weights and batches.
        received: The weights that it begins with; names that are missing are drawn afresh.
        pull: How strongly it is held to them.
        vectors: Of its types; None for those of its descriptions.
    """

    newcomer: str
    own: Indices = field(hash=False, compare=False)
    scored: Indices = field(hash=False, compare=False)
    learning_rate: float
    seed: int
    received: Member | None = field(default=None, hash=False, compare=False)
    pull: float = 0.0
    vectors: Tensor | None = field(default=None, hash=False, compare=False)


@dataclass(frozen=True, slots=True)
class Trained:
    """What came of a training: its weights, and right, found and gold entities."""

    weights: Member
    counts: Counts

    @property
    def f1(self) -> float:
        """The strict F1 in percent."""
        return f1(*self.counts)


def train_alone(
    world: World,
    kind: Kind,
    jobs: Sequence[Alone],
    *,
    epochs: float,
    batch_size: int,
    dropout: float = DROPOUT,
) -> list[Trained]:
    """Train newcomers of about as many sentences each, many at a time."""
    order = sorted(range(len(jobs)), key=lambda each: len(jobs[each].own))
    found: dict[int, Trained] = {}
    side_by_side = max(1, MOST_ROWS // batch_size)
    for begin in range(0, len(order), side_by_side):
        chosen = order[begin : begin + side_by_side]
        group = [jobs[each] for each in chosen]
        weights, tags = _prepared(world, kind, group)
        if epochs:
            source = Source(
                [job.own for job in group],
                batch_size,
                tags,
                torch.ones(len(group), device=world.device),
            )
            plan = _plan(group, epochs, batch_size, dropout)
            weights = train(weights, kind.tokens(world), world.sentences, [source], plan)
        totals = _scored(world, [(weights, kind.tokens(world))], tags, group)
        for place, number in enumerate(chosen):
            found[number] = Trained(_member(weights, place), totals[place])
    return [found[each] for each in range(len(jobs))]


def _plan(group: Sequence[Alone], epochs: float, batch_size: int, dropout: float) -> Plan:
    """Return a plan of so many epochs for the newcomer with the most sentences."""
    most = max(len(job.own) for job in group)
    pulls = [job.pull for job in group]
    return Plan(
        max(1, round(epochs * -(-most // batch_size))),
        [job.learning_rate for job in group],
        dropout,
        group[0].seed,
        pulls if any(pulls) else None,
    )


def _scored(
    world: World, stacks: Sequence[tuple[Weights, Tokens]], tags: Tags, jobs: Sequence[Alone]
) -> list[Counts]:
    totals = counts(stacks, world.sentences, tags, [job.scored for job in jobs])
    return [(right, found, gold) for right, found, gold in totals.tolist()]


def score_averaged(
    world: World,
    members: Sequence[tuple[Kind, Sequence[Member]]],
    jobs: Sequence[Alone],
) -> list[Counts]:
    """Return the counts of averaged taggers: one member of each kind for each job."""
    found: list[Counts] = []
    for begin in range(0, len(jobs), MOST_MODELS):
        group = jobs[begin : begin + MOST_MODELS]
        tags = _tags(world, group)
        stacks = []
        for kind, every in members:
            part = every[begin : begin + MOST_MODELS]
            weights = _padded(part, tags.is_own_MK.shape[1], kind)
            stacks.append((weights, kind.tokens(world)))
        found += _scored(world, stacks, tags, group)
    return found


def _tags(world: World, jobs: Sequence[Alone]) -> Tags:
    vectors = [world.vectors[job.newcomer] if job.vectors is None else job.vectors for job in jobs]
    return Tags.bio(vectors, world.device)


def _prepared(world: World, kind: Kind, jobs: Sequence[Alone]) -> tuple[Weights, Tags]:
    """Return first weights, received ones in their places, and the tags."""
    tags = _tags(world, jobs)
    seeds = [derive(job.seed, "joining", "fresh") % 2**31 for job in jobs]
    fresh = first_weights(world, kind, seeds, num_tags=tags.is_own_MK.shape[1])
    for place, job in enumerate(jobs):
        for name, weight in (job.received or {}).items():
            if name in fresh and fresh[name][place].shape == weight.shape:
                fresh[name][place] = weight
    return fresh, tags


def _padded(members: Sequence[Member], num_tags: int, kind: Kind) -> Weights:
    """Return members as one stack; free heads of fewer tags get room for those of others."""
    if kind.head == "described":
        return {name: torch.stack([each[name] for each in members]) for name in members[0]}
    return {
        name: torch.stack([_resized(name, each[name], num_tags) for each in members])
        for name in members[0]
    }


def _resized(name: str, weight: Tensor, num_tags: int) -> Tensor:
    """Return a free head's weight for another number of tags; unused ones come last."""
    if not name.startswith(("emissions.", "decoder.")):
        return weight
    axes = 2 if name == "decoder.transitions" else 1
    for axis in range(axes):
        weight = weight.narrow(axis, 0, min(num_tags, weight.shape[axis]))
    shape = [num_tags] * axes + list(weight.shape[axes:])
    room = weight.new_zeros(shape)
    room[tuple(slice(0, size) for size in weight.shape)] = weight
    return room


def folds(own: NDArray[np.int64], number: int) -> list[tuple[Indices, Indices]]:
    """Return training and held-out sentences of each fold; own sentences come in random order."""
    parts = [own[place::number] for place in range(number)]
    return [
        (np.concatenate([part for place, part in enumerate(parts) if place != held]), parts[held])
        for held in range(number)
    ]
