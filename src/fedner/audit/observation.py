"""What an attacker gets of one round: the platform's own code under each defence.

A curious server sees single updates where nothing hides them, and the opened sum where it must add
up. The other platforms of a sum are played by other sentences of the same platform. Gradients,
clipping and noise are those of training: nothing is modelled.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.audit.finding import Defence
from fedner.errors import FednerError
from fedner.federated.learner import TaggerLearner
from fedner.models.embeddings.words import WordSource
from fedner.models.features import EncodedCorpus
from fedner.models.layers.dropout import Dropout
from fedner.models.tagger import Tagger
from fedner.privacy.accountant import pld_epsilon
from fedner.privacy.dpsgd import Loss
from fedner.privacy.entropy import SeededSimulation
from fedner.privacy.mechanisms.distributed import discrete
from fedner.privacy.noise import Clipped, gaussian, part_of, received_sum
from fedner.privacy.noise_shares import JointSum
from fedner.privacy.sampling import PoissonSample
from fedner.privacy.sum_terms import SumTerms
from fedner.seeds import derive

WORD_TABLE = "embeddings.words.weight"


@dataclass(frozen=True, slots=True)
class Target:
    """The model and the data of the platform that is attacked.

    Attributes:
        tagger: Its tagger, with the weights that the attacked round begins with.
        corpus: Its training sentences.
        shared: The weights that travel.
        padding_rows: Rows of tables that are never trained.
    """

    tagger: Tagger
    corpus: EncodedCorpus
    shared: tuple[str, ...]
    padding_rows: Mapping[str, int]

    @property
    def words(self) -> WordSource:
        """The public word table."""
        return self.tagger.embeddings.words.source

    @property
    def sentences(self) -> NDArray[np.int64]:
        """The sentences that have tokens."""
        return np.flatnonzero(self.corpus.lengths)


@dataclass(frozen=True, slots=True)
class Protection:
    """How strong the defences are.

    Attributes:
        max_grad_norm: The clipping bound.
        noise_multiplier: The noise over that bound: on a platform's own sum under "local", on the
            sum of all under "distributed".
        num_platforms: How many platforms are in a sum.
        colluding: How many of them may help the server.
        loss: A sentence's loss as the sum or the mean over its tokens, where it is clipped.
    """

    max_grad_norm: float = 1.0
    noise_multiplier: float = 1.0
    num_platforms: int = 3
    colluding: int = 1
    loss: Loss = "sum"


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of one round.

    Attributes:
        gradient: The shared gradient as it was transmitted or opened.
        deviation: The standard deviation of the noise in each of its numbers, which is public.
        num_batches: Of how many platforms it is the sum.
    """

    gradient: Mapping[str, Tensor]
    deviation: float
    num_batches: int


def is_summed(defence: Defence) -> bool:
    """Whether the attacker gets no single update, but the sum of all."""
    return defence in ("distributed", "secure-sum", "encryption")


def observe(
    target: Target,
    batches: Sequence[Sequence[int]],
    defence: Defence,
    protection: Protection,
    seed: int,
    planted: Mapping[str, Tensor] | None = None,
) -> Observation:
    """Return what a curious server sees of a round; under "encryption" what a platform sees.

    Args:
        target: The attacked platform.
        batches: The sentences of its batch, then those of the other platforms.
        defence: Which defence.
        protection: How strong it is.
        seed: Of dropout and noise.
        planted: What is added to the sum of the attacked platform after clipping, before noise.

    Raises:
        FednerError: There are not as many batches as the protection has platforms.
    """
    if len(batches) != protection.num_platforms:
        raise FednerError(
            f"{len(batches)} batches for {protection.num_platforms} platforms; expected one each"
        )
    chosen = batches if is_summed(defence) else batches[:1]
    parts = [
        _update(
            target, batch, defence, protection, derive(seed, "batch", number),
            None if number else planted,
        )
        for number, batch in enumerate(chosen)
    ]  # fmt: skip
    # In one order, so that the same seed gives the same bits.
    total = {name: sum((part[name] for part in parts[1:]), parts[0][name]) for name in parts[0]}
    size = sum(len(batch) for batch in chosen) if _is_clipped(defence) else len(chosen)
    gradient = {name: (each / size).float() for name, each in total.items()}
    for name, row in target.padding_rows.items():
        if name in gradient:
            gradient[name][row].zero_()
    return Observation(gradient, _deviation(target, defence, protection) / size, len(chosen))


def _is_clipped(defence: Defence) -> bool:
    return defence in ("local", "central", "distributed")


def _update(
    target: Target,
    batch: Sequence[int],
    defence: Defence,
    protection: Protection,
    seed: int,
    planted: Mapping[str, Tensor] | None,
) -> dict[str, Tensor]:
    """Return what one platform sends, before it is divided by the expected size."""
    learner = TaggerLearner(target.tagger, target.corpus)
    if not _is_clipped(defence):
        _, gradient = learner.gradients(np.asarray(batch, dtype=np.int64), seed)
        mean = {name: gradient[name].double() for name in target.shared}
        return _added(mean, planted, 1.0 / max(1, len(batch)))
    sample = PoissonSample(tuple(batch), tuple(range(len(batch))), len(batch))
    names = tuple(learner.weights())
    clipped = learner.clipped(sample, protection.max_grad_norm, names, protection.loss, seed)
    shared = part_of(clipped, target.shared)
    whole = received_sum(_added(shared.value, planted), shared.bound)
    return _noised(target, whole, defence, protection, seed)


def _added(
    state: Mapping[str, Tensor], planted: Mapping[str, Tensor] | None, scale: float = 1.0
) -> dict[str, Tensor]:
    """Return a state with what was planted in it."""
    if planted is None:
        return dict(state)
    return {name: each + scale * planted[name] for name, each in state.items()}


def _noised(
    target: Target, clipped: Clipped, defence: Defence, protection: Protection, seed: int
) -> dict[str, Tensor]:
    source = SeededSimulation(seed)
    if defence == "local":
        return dict(gaussian(clipped, protection.noise_multiplier, source).value)
    if defence == "distributed":
        noise = joint_sum(target, protection).noise(
            protection.max_grad_norm, protection.noise_multiplier
        )
        return dict(discrete(clipped, noise, source).value)
    return dict(clipped.value)  # the server adds the noise, after it has seen this


def joint_sum(target: Target, protection: Protection) -> JointSum:
    """Return the sum that platforms make together under distributed noise."""
    weights = dict(target.tagger.named_parameters())
    numbers = sum(weights[name].numel() for name in target.shared)
    terms = SumTerms(protection.num_platforms, protection.colluding)
    return JointSum(terms, numbers)


def _deviation(target: Target, defence: Defence, protection: Protection) -> float:
    """Return the deviation of the noise in the sum that is seen."""
    if defence == "local":
        return protection.noise_multiplier * protection.max_grad_norm
    if defence == "distributed":
        noise = joint_sum(target, protection).noise(
            protection.max_grad_norm, protection.noise_multiplier
        )
        return float(noise.deviation * noise.step * protection.num_platforms**0.5)
    return 0.0


def released_epsilon(
    target: Target, defence: Defence, protection: Protection, releases: int, delta: float
) -> float | None:
    """Return the accountant's epsilon of releases that a unit is in for sure.

    None where the defence promises nothing to whoever sees the round: central noise is added after
    the server has seen it.
    """
    multiplier = protection.noise_multiplier
    if defence not in ("local", "distributed"):
        return None
    if defence == "distributed":
        noise = joint_sum(target, protection).noise(protection.max_grad_norm, multiplier)
        multiplier = noise.multiplier(protection.max_grad_norm)
    epsilon = pld_epsilon({(multiplier, 1.0): releases}, delta)
    return epsilon if math.isfinite(epsilon) else None  # without noise nothing is promised


def drawn_batches(
    target: Target, num_platforms: int, batch_size: int, seed: int
) -> list[list[int]]:
    """Return disjoint batches of the platform's sentences, one for each platform of a round.

    Raises:
        FednerError: The platform has too few sentences.
    """
    held = target.sentences
    wanted = num_platforms * batch_size
    if len(held) < wanted:
        raise FednerError(
            f"{len(held):,} sentences; an attack on {num_platforms} batches of {batch_size} needs "
            f"{wanted:,}",
            "Give the platform more sentences, or take smaller batches.",
        )
    order = np.random.default_rng(derive(seed, "audit batches")).permutation(held)[:wanted]
    parts: list[list[int]] = order.reshape(num_platforms, batch_size).tolist()
    return parts


def with_weights(target: Target, tagger: Tagger) -> Target:
    """Return the target with another tagger of the same kind."""
    return replace(target, tagger=tagger)


def without_dropout(target: Target) -> Target:
    """Return the target as an attacker computes with it who does not know the masks."""
    tagger = copy.deepcopy(target.tagger)
    for module in list(tagger.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Dropout):
                setattr(module, name, Dropout(0.0))
    return with_weights(target, tagger)


def flat(gradient: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """Return named tensors as one vector in float64."""
    return torch.cat([gradient[name].double().flatten() for name in names])
