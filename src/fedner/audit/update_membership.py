"""Did this sentence take part in a round? Asked of the update that was seen.

Each of some candidate sentences takes part by a fair coin. The attacker knows all of them and the
weights, and computes their gradients g_c. What is seen is sum_c a_c g_c + noise with a_c of 0 or 1;
a is estimated by least squares, drawn to 1/2 as far as the noise demands: the best linear guess.

Shapes: C candidates, P numbers of an update.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.audit.finding import Defence, Finding, encrypted, in_order, unchanged
from fedner.audit.observation import (
    Observation,
    Protection,
    Target,
    flat,
    observe,
    released_epsilon,
    without_dropout,
)
from fedner.audit.statistics import allowed_auc, auc, bootstrap_interval, tpr_at_fpr
from fedner.errors import FednerError
from fedner.seeds import derive

ATTACK = "membership by updates"
MEASURE = "AUC of members against others"
_KNOWN = "whoever knows the other platforms' updates takes them off the sum"
_LEAST = 10
_MOST_NUMBERS = 250_000_000  # of all candidates' gradients, in float32: a gigabyte
_PLANTED = 8  # one in so many takes part where the leak is planted
_PRIOR = 0.25  # the variance of a fair coin
_JITTER = 1e-9
_DELTA = 1e-5

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UpdateBudget:
    """How much the attack may try.

    Attributes:
        candidates: How many sentences are asked about.
        rounds: How many rounds with the same members are seen.
    """

    candidates: int = 64
    rounds: int = 4


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked about.

    Attributes:
        target: The attacked platform.
        protection: How strong the defences are.
        rounds: How many rounds are seen.
        seed: Of dropout and noise.
        candidates: The sentences.
    """

    target: Target
    protection: Protection
    rounds: int
    seed: int
    candidates: tuple[int, ...]


def audit_update_membership(
    target: Target, protection: Protection, seed: int, budget: UpdateBudget | None = None
) -> list[Finding]:
    """Return the row of the table for members of a round.

    Raises:
        FednerError: The platform has too few sentences.
    """
    chosen = UpdateBudget() if budget is None else budget
    held = target.sentences
    if len(held) < _LEAST:
        raise FednerError(
            f"{len(held)} sentences; the attack needs at least {_LEAST}",
            "Audit a larger platform.",
        )
    draw = np.random.default_rng(derive(seed, "members"))
    candidates = tuple(draw.permutation(held)[: _affordable(target, chosen)].tolist())
    asked = _Asked(target, protection, chosen.rounds, seed, candidates)
    is_in = draw.permutation(len(candidates)) < len(candidates) // 2
    plain_CP, clipped_CP = (_gradients(asked, each) for each in ("none", "central"))
    power = _planted_power(asked, plain_CP, draw)
    tried: tuple[Defence, ...] = ("none", "local", "central", "distributed")
    cells = [
        _cell(asked, each, plain_CP if each == "none" else clipped_CP, is_in, power)
        for each in tried
    ]
    cells.append(unchanged(ATTACK, "secure-sum", MEASURE, "none", _KNOWN))
    cells.append(encrypted(ATTACK, MEASURE))
    return in_order(cells)


def _affordable(target: Target, budget: UpdateBudget) -> int:
    """Return how many candidates' gradients fit into memory.

    Raises:
        FednerError: Too few for an answer.
    """
    weights = dict(target.tagger.named_parameters())
    size = sum(weights[name].numel() for name in target.shared)
    if _MOST_NUMBERS // max(1, size) < _LEAST:
        raise FednerError(
            f"an update has {size:,} numbers; the gradients of {_LEAST} sentences do not fit into "
            "memory",
            "Freeze the word table, or share less.",
        )
    return min(budget.candidates, _MOST_NUMBERS // max(1, size))


def _gradients(asked: _Asked, defence: Defence) -> Tensor:
    """Return the gradient of each candidate as the attacker computes it (C, P).

    Without noise, and without dropout: it is what the masks of many rounds come to.
    """
    plain = replace(asked, target=without_dropout(asked.target))
    return torch.stack([
        flat(_seen(plain, (each,), defence, 0).gradient, asked.target.shared).float()
        for each in asked.candidates
    ])  # fmt: skip


def _seen(asked: _Asked, batch: Sequence[int], defence: Defence, number: int) -> Observation:
    """Return a round of the platform; what the others send is known and left out."""
    others: list[Sequence[int]] = [()] * (asked.protection.num_platforms - 1)
    path = derive(asked.seed, "members", number)
    return observe(asked.target, [batch, *others], defence, asked.protection, path)


def scores(asked: _Asked, defence: Defence, known_CP: Tensor, is_in: Bools) -> Floats:
    """Return how much of each candidate is in what was seen: about 0 or 1."""
    members = tuple(
        each for each, took in zip(asked.candidates, is_in, strict=True) if took
    )  # fmt: skip
    products_C, deviation = torch.zeros(len(known_CP), dtype=torch.float64), 0.0
    for number in range(asked.rounds):
        seen = _seen(asked, members, defence, number)
        vector_P = flat(seen.gradient, asked.target.shared) * len(members)
        products_C += (known_CP @ vector_P.float()).double()
        deviation = seen.deviation * len(members)
    return estimated(known_CP, products_C / asked.rounds, deviation / asked.rounds**0.5)


def estimated(known_CP: Tensor, products_C: Tensor, deviation: float) -> Floats:
    """Return the part of each candidate in a sum, of its products with their gradients.

    Args:
        known_CP: The gradients.
        products_C: What each of them gives with the sum.
        deviation: That of the noise in each number of the sum.
    """
    gram_CC = (known_CP @ known_CP.t()).double()
    ridge = deviation**2 / _PRIOR + _JITTER * float(gram_CC.diagonal().mean())
    half_C = torch.full((len(gram_CC),), 0.5, dtype=torch.float64)
    damped_CC = gram_CC + ridge * torch.eye(len(gram_CC), dtype=torch.float64)
    moved_C = torch.linalg.solve(damped_CC, products_C - gram_CC @ half_C)
    found: Floats = (half_C + moved_C).numpy()
    return found


def _planted_power(asked: _Asked, known_CP: Tensor, draw: np.random.Generator) -> float:
    """Return twice the area above chance where few sentences take part, unprotected."""
    number = max(1, len(asked.candidates) // _PLANTED)
    is_in = draw.permutation(len(asked.candidates)) < number
    found = scores(asked, "none", known_CP, is_in)
    return 2.0 * auc(found[is_in], found[~is_in]) - 1.0


def _cell(asked: _Asked, defence: Defence, known_CP: Tensor, is_in: Bools, power: float) -> Finding:
    found = scores(asked, defence, known_CP, is_in)
    area = auc(found[is_in], found[~is_in])

    def resampled(drawn: NDArray[np.int64]) -> float:
        truth, values = is_in[drawn], found[drawn]
        # A draw of one kind alone says nothing.
        return 0.5 if truth.all() or not truth.any() else auc(values[truth], values[~truth])

    lower, upper = bootstrap_interval(resampled, len(found), asked.seed)
    rate = tpr_at_fpr(found[is_in], found[~is_in])
    note = f"{rate:.1%} of members found at 1 % false alarms"
    if defence == "central":
        note += "; the server sees clipped sums without noise"
    epsilon = released_epsilon(asked.target, defence, asked.protection, asked.rounds, _DELTA)
    promised = None if epsilon is None else allowed_auc(epsilon, _DELTA)
    return Finding(
        ATTACK, defence, MEASURE, "run", area, lower, upper, 0.5, power, promised, note=note
    )  # fmt: skip
