"""Which settings suit training under DP: a trial on a split that the study never uses.

The medical federation at epsilon 3, split 101, one noise seed: where it begins, how long, how large
the tagger is and which part of it trains, each at several learning rates, as one stack.
`fedner reproduce dp-settings` runs it; the recipes of `private_study` were chosen by it.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from fedner.experiments.joining import private
from fedner.experiments.joining.arms import Member
from fedner.experiments.joining.private import PrivateJob, Split
from fedner.experiments.joining.private_study import FEDERATIONS, PUBLIC, public_model
from fedner.experiments.joining.world import Sizes, World

EPSILON, SPLIT, NOISE_SEED = 3.0, 101, 1
PLAIN_STEPS = PUBLIC_STEPS = 1_500
PLAIN_RATE = 2e-3
LOW, HIGH = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3), (2e-3, 5e-3, 1e-2, 2e-2, 4e-2)
MIDDLE = (3e-3, 5e-3, 8e-3, 1e-2, 1.4e-2)
NARROW = (3e-3, 5e-3, 8e-3)
HIGHER = (8e-3, 1.2e-2, 1.6e-2, 2.4e-2, 3.2e-2)


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to train, at several learning rates.

    Attributes:
        start: "public" or "scratch".
        learning_rates: Of Adam, each falling linearly.
        hidden: Units of the BiLSTM in each direction.
        rank: Of the described head.
        frozen: Beginnings of names of weights that stay as they are.
        batch_size: Expected sentences of a step.
        epochs: How often every sentence is expected; 0 trains without DP.
        federation: Who trains.
        max_grad_norm: The largest norm of a sentence's gradient.
        is_standardised: Whether every feature of a token has mean 0 and deviation 1 over the words
            of the public corpora.
        public_steps: How long the public model trained.
        ema_decay: Of the EMA that is scored, at learning rates that do not fall; None for none.
        public_weight: Of the public sentences' gradient in every step; 0 for none.
        pull: Towards the first weights; 0 for none.
    """

    start: str
    learning_rates: tuple[float, ...] = LOW
    hidden: int = 200
    rank: int = 128
    frozen: tuple[str, ...] = ()
    batch_size: int = 2_048
    epochs: int = 30
    federation: str = "medical"
    max_grad_norm: float = 1.0
    is_standardised: bool = False
    public_steps: int = PUBLIC_STEPS
    ema_decay: float | None = None
    public_weight: float = 0.0
    pull: float = 0.0

    @property
    def name(self) -> str:
        """The trial in words."""
        words = [
            f"{self.federation} {self.start}",
            f"{self.hidden} units",
            f"rank {self.rank}",
            f"batch {self.batch_size}",
            f"{self.epochs} epochs",
        ]
        if self.frozen:
            words.append(f"frozen {' '.join(self.frozen)}")
        if self.max_grad_norm != 1.0:
            words.append(f"clipped at {self.max_grad_norm:g}")
        if self.is_standardised:
            words.append("standardised features")
        if self.public_steps != PUBLIC_STEPS:
            words.append(f"{self.public_steps} public steps")
        if self.ema_decay is not None:
            words.append(f"EMA {self.ema_decay:g}")
        if self.public_weight:
            words.append(f"public gradients times {self.public_weight:g}")
        if self.pull:
            words.append(f"pull {self.pull:g}")
        return ", ".join([*words, f"learning rates to {max(self.learning_rates):g}"])


TRIALS = (
    Trial("public"),
    Trial("public", HIGH, frozen=("bilstm.",)),
    Trial("public", frozen=("bilstm.lstm.weight_ih",)),
    Trial("public", hidden=64, rank=64),
    Trial("public", hidden=100, rank=64),
    Trial("public", frozen=("emissions.type.",)),
    Trial("scratch", HIGH, hidden=64, rank=64),
    Trial("scratch", HIGH, hidden=100, rank=64),
    Trial("public", epochs=60),
    Trial("public", batch_size=4_096, epochs=60),
    Trial("public", epochs=0),
    Trial("scratch", epochs=0),
    Trial("public", epochs=0, hidden=100, rank=64),
    # What the trials above left open: higher learning rates, features, clipping, tweets.
    Trial("public", HIGHER, epochs=60, public_steps=3_000),
    Trial("public", HIGHER, epochs=60),
    Trial("public", HIGHER, epochs=60, is_standardised=True),
    Trial("public", HIGHER, epochs=60, max_grad_norm=0.3),
    Trial("public", HIGHER, epochs=60, max_grad_norm=5.0),
    Trial("scratch", HIGH, epochs=60),
    Trial("scratch", HIGH, epochs=60, is_standardised=True),
    Trial("scratch", HIGH, epochs=60, federation="btc"),
    Trial("scratch", HIGH, epochs=60, hidden=100, rank=64, federation="btc"),
    Trial("public", epochs=0, is_standardised=True),
    Trial("scratch", epochs=0, federation="btc"),
    # And then: an EMA, a larger model, longer, and a public beginning for tweets.
    Trial("public", MIDDLE, epochs=60, hidden=400, rank=256),
    Trial("public", MIDDLE, epochs=60, ema_decay=0.97),
    Trial("public", MIDDLE, epochs=60, ema_decay=0.99),
    Trial("public", MIDDLE, epochs=120),
    Trial("scratch", HIGH, epochs=60, ema_decay=0.97),
    Trial("scratch", HIGH, epochs=60, hidden=100, rank=64),
    Trial("public", MIDDLE, epochs=60, federation="btc"),
    Trial("public", epochs=0, federation="btc"),
    # Larger batches bear higher learning rates and more epochs.
    Trial("public", MIDDLE, batch_size=4_096, epochs=120),
    Trial("public", MIDDLE, batch_size=4_096, epochs=120, ema_decay=0.98),
    Trial("public", MIDDLE, batch_size=8_192, epochs=120),
    Trial("public", MIDDLE, batch_size=8_192, epochs=240),
    Trial("public", MIDDLE, batch_size=4_096, epochs=120, hidden=400, rank=256),
    Trial("scratch", HIGH, batch_size=4_096, epochs=120),
    Trial("scratch", HIGH, batch_size=4_096, epochs=120, hidden=100, rank=64),
    Trial("scratch", HIGH, batch_size=4_096, epochs=120, federation="btc"),
    # What holds a model to the public one while noise moves it: public sentences, or a decay.
    *(Trial("public", NARROW, epochs=60, ema_decay=0.97, public_weight=w) for w in (0.3, 1, 3)),
    *(Trial("public", NARROW, epochs=60, ema_decay=0.97, pull=pull) for pull in (1, 3, 10)),
)


@dataclass(frozen=True, slots=True)
class TrialPoint:
    """What one learning rate of a trial came to: strict F1 over all test parts of the split."""

    learning_rate: float
    noise_multiplier: float
    f1: float


def run_trial(
    trial: Trial, world: World, folder: Path, noise_seed: int = NOISE_SEED
) -> list[TrialPoint]:
    """Train all learning rates of a trial and score them.

    Args:
        trial: The way to train.
        world: The platforms; in a rehearsal everything has one step.
        folder: Where the study's public models stand, once they are trained.
        noise_seed: Of sample and noise.
    """
    sized = world
    if not world.is_rehearsal:
        sized = replace(world, sizes=replace(Sizes(), hidden=trial.hidden, rank=trial.rank))
    if trial.is_standardised:
        sized = standardised(sized)
    names = FEDERATIONS[trial.federation]
    initial = None
    if trial.start == "public":
        initial = _public_model(sized, trial, folder)
    split = private.split_of(sized, names, SPLIT)
    if trial.epochs:
        return _privately(trial, sized, split, initial, noise_seed)
    steps = 1 if world.is_rehearsal else PLAIN_STEPS
    members = private.train_plainly(
        sized, [split], [1], steps=steps, batch_size=32, initial=initial
    )
    return [TrialPoint(PLAIN_RATE, 0.0, private.scores(sized, members, [split])[0]["all"])]


def _privately(
    trial: Trial, world: World, split: Split, initial: Member | None, noise_seed: int
) -> list[TrialPoint]:
    size = sum(map(len, split.own))
    batch_size, epochs = (size, 1) if world.is_rehearsal else (trial.batch_size, trial.epochs)
    how = private.strength(EPSILON, size, batch_size, epochs)
    noise = how.noise_multiplier
    members = private.train_privately(
        world,
        [PrivateJob(split, noise, noise_seed, rate) for rate in trial.learning_rates],
        how,
        max_grad_norm=trial.max_grad_norm,
        initial=initial,
        frozen=trial.frozen,
        ema_decay=trial.ema_decay,
        guide=_guide(world, trial),
        pull=trial.pull,
    )
    found = private.scores(world, members, [split] * len(members))
    return [
        TrialPoint(rate, noise, row["all"])
        for rate, row in zip(trial.learning_rates, found, strict=True)
    ]


def _public_model(world: World, trial: Trial, folder: Path) -> Member:
    """Return the study's public model where the trial has its shape, or one of the trial's own."""
    shape = Trial(trial.start, federation=trial.federation)
    own = (trial.hidden, trial.rank, trial.public_steps, trial.is_standardised)
    if world.is_rehearsal:
        return public_model(world, trial.federation, folder, 1)
    if own == (shape.hidden, shape.rank, shape.public_steps, shape.is_standardised):
        return public_model(world, trial.federation, folder)
    names = PUBLIC[trial.federation], FEDERATIONS[trial.federation]
    return private.public_model(world, *names, trial.public_steps)


def _guide(world: World, trial: Trial) -> private.Guide | None:
    if not trial.public_weight:
        return None
    names = PUBLIC[trial.federation], FEDERATIONS[trial.federation]
    return private.Guide(private.public_split(world, *names), trial.public_weight)


def standardised(world: World) -> World:
    """Return a world whose features have mean 0 and deviation 1 over the public corpora's words."""
    chosen = torch.cat(
        [
            torch.arange(len(world.corpora[name].sentences), device=world.device)
            + world.first[name]
            for name in PUBLIC["medical"]
        ]
    )
    starts, lengths = world.sentences.starts_S[chosen], world.sentences.lengths_S[chosen]
    first_N = torch.repeat_interleave(starts - lengths.cumsum(0) + lengths, lengths)
    token_N = first_N + torch.arange(len(first_N), device=world.device)
    features_ND = world.described.features_ND
    public_ND = features_ND[token_N].float()
    mean_D, deviation_D = public_ND.mean(0), public_ND.std(0).clamp_min(1e-3)
    scaled_ND = ((features_ND.float() - mean_D) / deviation_D).to(features_ND.dtype)
    return replace(world, described=replace(world.described, features_ND=scaled_ND))
