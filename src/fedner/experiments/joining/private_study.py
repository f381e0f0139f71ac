"""What differential privacy costs: models that may be released, and newcomers who receive one.

(a) Federations under DP (sentences protected, delta 1e-5), as a share of the same model without
noise: from scratch, and from a public model, which was trained on corpora of nobody in the
federation and costs no epsilon. The same noise multiplier comes to different noise by who adds it:

central      the server adds the noise to the sum (`unit-central`)
local        each platform adds the same noise to its own part (`unit-local`)
distributed  each platform rounds its part to a grid and adds a share of discrete noise
             (`distributed`), for a secure sum with so many colluding platforms: the shares of all
             platforms are in the sum, as when nobody drops out

(b) Newcomers of the joining study whose partners trained under DP: 25 own sentences, fine-tuned at
home without noise, against what the same partners give without DP. From scratch all partners of the
study train, public corpora among them, and all are noised; from a public model those of the
newcomer's federation. "public only" is the public model as it is: what of the gain is its own.

Everything is simulated: sample and noise come from a seed. `fedner reproduce privacy-utility` runs
it.
"""

import fcntl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fedner.experiments.joining import private, study
from fedner.experiments.joining.arms import Member
from fedner.experiments.joining.cells import score_alone, score_received
from fedner.experiments.joining.corpora import BTC
from fedner.experiments.joining.private import PrivateJob, Split, Strength
from fedner.experiments.joining.world import World
from fedner.privacy.sum_terms import SumTerms
from fedner.settings.policy import NoisePlace
from fedner.tensor_files import read_tensors, write_tensors

FEDERATIONS = {"medical": ("ade", "psytar", "twimed"), "btc": BTC}
PUBLIC = {"medical": ("maccrobat", "ncbi", "bc5cdr"), "btc": ("wnut17",)}
EPSILONS = (1.0, 3.0, 8.0)
NEWCOMERS = ("ade", "psytar", "twimed", "btc-e")
OWN_SENTENCES = 25
PUBLIC_ONLY = "public only"
PLAIN = 0.0  # the epsilon that stands for no DP
PLAIN_BATCH = 32
KIND, VERSION = "joining study, public model", 1


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a federation trains under DP: batch, epochs, learning rate of Adam, decay of the EMA."""

    batch_size: int
    epochs: int
    learning_rate: float
    ema_decay: float


@dataclass(frozen=True, slots=True)
class Scale:
    """How long everything trains.

    Attributes:
        scratch: A federation from scratch.
        from_public: A federation from a public model.
        partners: The partners of a newcomer from scratch: they have more sentences.
        plain_steps: Without DP.
        public_steps: The public model.
        noise_seeds: Of sample and noise.
    """

    scratch: Recipe
    from_public: Recipe
    partners: Recipe
    plain_steps: int
    public_steps: int
    noise_seeds: tuple[int, ...]


# Chosen on split 101 by `private_trial`.
FULL = Scale(
    Recipe(2_048, 60, 0.005, 0.97),
    Recipe(4_096, 120, 0.005, 0.98),
    Recipe(4_096, 40, 0.007, 0.97),
    1_500,
    1_500,
    (1, 2, 3, 4, 5),
)
_ONCE = Recipe(100_000, 1, 0.005, 0.5)  # every sentence in one step
REHEARSAL = Scale(_ONCE, _ONCE, _ONCE, 1, 1, (1,))


@dataclass(frozen=True, slots=True)
class Arm:
    """With what a federation begins, and who adds the noise.

    Attributes:
        name: In rows and tables.
        start: "scratch" or "public".
        place: Who adds it.
        colluding: How many platforms may collude with the server.
    """

    name: str
    start: str
    place: NoisePlace = "central"
    colluding: int = 1

    def terms(self, num_platforms: int) -> SumTerms | None:
        """Return the terms of the secure sum; None where there is none."""
        return SumTerms(num_platforms, self.colluding) if self.place == "distributed" else None


SCRATCH, CENTRAL = Arm("central, from scratch", "scratch"), Arm("central", "public")
BY_ALL, LOCAL = (
    Arm("distributed, 1 colluding", "public", "distributed"),
    Arm("local", "public", "local"),
)
ARMS = {each.name: each for each in (SCRATCH, CENTRAL, BY_ALL, LOCAL)}


def platforms() -> tuple[str, ...]:
    """Return all platforms of the study and the public corpora."""
    public = [name for names in PUBLIC.values() for name in names]
    return tuple(dict.fromkeys((*study.platforms(), *public)))


@cache
def needed_strength(epsilon: float, num_sentences: int, recipe: Recipe) -> Strength:
    """Return what a target needs of a recipe."""
    return private.strength(epsilon, num_sentences, recipe.batch_size, recipe.epochs)


def public_model(world: World, federation: str, folder: Path, steps: int = 1_500) -> Member:
    """Return the public model of a federation; the first process that needs it trains it."""
    path = folder / f"public-{federation}.safetensors"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            names = FEDERATIONS[federation]
            found = private.public_model(world, PUBLIC[federation], names, steps)
            write_tensors(path, found, KIND, VERSION)
    return read_tensors(path, KIND, VERSION)[0]


@dataclass(frozen=True, slots=True)
class Released:
    """Models of one federation and split that may be released: one stack.

    Attributes:
        federation: Whose.
        arm: How.
        epsilon: The target; `PLAIN` without DP.
        split: The seed of the split.
    """

    federation: str
    arm: Arm
    epsilon: float
    split: int


def score_released(
    world: World, task: Released, scale: Scale, folder: Path
) -> dict[int, dict[str, float]]:
    """Train and score the models of a task; return strict F1 by seed of noise and platform.

    Args:
        world: The platforms.
        task: The models; "all" is the score over all test parts.
        scale: How long they train.
        folder: Where the public models stand, once they are trained.
    """
    names, arm = FEDERATIONS[task.federation], task.arm
    is_fresh = arm.start == "scratch"
    initial = None if is_fresh else public_model(world, task.federation, folder, scale.public_steps)
    seeds = scale.noise_seeds if task.epsilon else scale.noise_seeds[:1]
    splits = [private.split_of(world, names, task.split)] * len(seeds)
    recipe = scale.scratch if is_fresh else scale.from_public
    training = _Training(task.epsilon, recipe, scale.plain_steps, initial, arm)
    found = private.scores(world, _trained(world, splits, seeds, training), splits)
    return dict(zip(seeds, found, strict=True))


@dataclass(frozen=True, slots=True)
class Joining:
    """A newcomer whose partners trained under DP, in all splits: one stack.

    Attributes:
        newcomer: Who joins.
        start: "scratch", "public", or `PUBLIC_ONLY` where no partner trained.
        epsilon: The partners' target; `PLAIN` without DP.
        splits: The seeds of the newcomer's splits.
    """

    newcomer: str
    start: str
    epsilon: float
    splits: tuple[int, ...]


def score_newcomers(
    world: World, task: Joining, scale: Scale, folder: Path
) -> dict[tuple[int, int], float]:
    """Train the partners and let the newcomer join; return strict F1 by split and seed of noise."""
    every = scale.noise_seeds
    seeds = every if task.epsilon == EPSILONS[1] else every[: len(task.splits)]
    members = _partners(world, task, seeds, scale, folder)
    # Every noise seed meets a split of the newcomer: five seeds go round the three splits.
    met = [(task.splits[place % len(task.splits)], noise) for place, noise in enumerate(seeds)]
    return {
        cell: score_received(world, task.newcomer, OWN_SENTENCES, cell[0], member)
        for cell, member in zip(met, members, strict=True)
    }


def score_by_itself(world: World, newcomer: str, split: int) -> float:
    """Return the strict F1 that a newcomer has without anybody."""
    return score_alone(world, newcomer, OWN_SENTENCES, split)


def _partners(
    world: World, task: Joining, seeds: Sequence[int], scale: Scale, folder: Path
) -> list[Member]:
    """Return what a newcomer receives, one model a seed."""
    if task.start == "scratch":
        split = private.partners_split(world, task.newcomer)
        training = _Training(task.epsilon, scale.partners, scale.plain_steps)
        return _trained(world, [split] * len(seeds), seeds, training)
    home = next(name for name, each in FEDERATIONS.items() if task.newcomer in each)
    initial = public_model(world, home, folder, scale.public_steps)
    if task.start == PUBLIC_ONLY:
        return [initial] * len(seeds)
    split = private.partners_split(world, task.newcomer, FEDERATIONS[home])
    training = _Training(task.epsilon, scale.from_public, scale.plain_steps, initial)
    return _trained(world, [split] * len(seeds), seeds, training)


@dataclass(frozen=True, slots=True)
class _Training:
    """How models are trained: under DP, or without where epsilon is 0."""

    epsilon: float
    recipe: Recipe
    plain_steps: int
    initial: Member | None = None
    arm: Arm = SCRATCH


def _trained(
    world: World, splits: Sequence[Split], seeds: Sequence[int], how: _Training
) -> list[Member]:
    if how.epsilon == PLAIN:
        return private.train_plainly(
            world,
            splits,
            seeds,
            steps=how.plain_steps,
            batch_size=PLAIN_BATCH,
            initial=how.initial,
        )
    recipe = how.recipe
    # The smallest federation needs the most noise: it serves all splits.
    least = min(sum(map(len, each.own)) for each in splits)
    strength = needed_strength(how.epsilon, least, recipe)
    jobs = [
        PrivateJob(split, strength.noise_multiplier, seed, recipe.learning_rate)
        for split, seed in zip(splits, seeds, strict=True)
    ]
    return private.train_privately(
        world,
        jobs,
        strength,
        initial=how.initial,
        ema_decay=recipe.ema_decay,
        place=how.arm.place,
        terms=how.arm.terms(len(splits[0].names)),
    )
