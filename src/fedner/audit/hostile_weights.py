"""Weights that a malicious server may send, to let one unit in with more than the clipping bound.

Found by attack on an earlier clipping (SCIENCE: point 19): an overflow in one sentence that spreads
to others, and terms that cancel in a norm but not in the sum. The suite is permanent. What counts
is what is added: the sum with a unit minus the sum without it, over the bound.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedner.audit.finding import Defence, Finding, in_order, unchanged
from fedner.audit.observation import Protection, Target
from fedner.errors import FednerError
from fedner.models.features import EncodedCorpus, collate
from fedner.models.partition import HEAD, lies_under
from fedner.models.tagger import Tagger
from fedner.privacy.dpsgd import accumulate
from fedner.seeds import derive
from fedner.training import trainable

ATTACK = "hostile weights"
MEASURE = "largest change of a clipped sum by one unit, over the bound"
LARGEST = 3e38  # about the largest number in float32
SLACK = 1e-6
BEYOND = 1e300  # what is no number at all counts as this
_SCALES = (1.0, 1e3, 1e9, 1e15, 1e19, 1e30, LARGEST)
_HEAD_EVERY = 3
_NO_BOUND = "nothing bounds what a unit adds: there is no bound to break"
_SAME_CLIP = "units are clipped by the same code"

Kind = Callable[[Tensor, torch.Generator, float], None]
Clipping = Callable[[Tagger, EncodedCorpus, Sequence[int], float], Tensor]


def _huge(weight: Tensor, draw: torch.Generator, scale: float) -> None:
    weight.copy_(torch.randn(weight.shape, generator=draw) * scale)


def _chaotic(weight: Tensor, draw: torch.Generator, scale: float) -> None:  # noqa: ARG001
    weight.mul_(2.0 + scale % 40.0)


def _cancelling(weight: Tensor, draw: torch.Generator, scale: float) -> None:
    weight.copy_(torch.randn(weight.shape, generator=draw).sign() * min(scale, 1e18))


def _constant(weight: Tensor, draw: torch.Generator, scale: float) -> None:  # noqa: ARG001
    weight.fill_(scale)


def _denormal(weight: Tensor, draw: torch.Generator, scale: float) -> None:  # noqa: ARG001
    weight.copy_(torch.randn(weight.shape, generator=draw) * 1e-40)


def _of_all_sizes(weight: Tensor, draw: torch.Generator, scale: float) -> None:  # noqa: ARG001
    exponents = torch.rand(weight.shape, generator=draw) * 76.0 - 38.0
    weight.copy_(torch.randn(weight.shape, generator=draw) * 10.0**exponents)


def _one_number(weight: Tensor, draw: torch.Generator, scale: float) -> None:
    place = int(torch.randint(weight.numel(), (1,), generator=draw))
    weight.view(-1)[place] = scale


# Each takes a tensor and a generator and fills the tensor.
KINDS: dict[str, Kind] = {
    "huge": _huge,
    "chaotic": _chaotic,
    "cancelling": _cancelling,
    "constant": _constant,
    "denormal": _denormal,
    "of all sizes": _of_all_sizes,
    "one number": _one_number,
}


@torch.no_grad()
def poison(tagger: Tagger, kind: str, scale: float, seed: int, only: int | None = None) -> None:
    """Change all trained weights in place, or those of one parameter; they stay finite.

    Args:
        tagger: The tagger.
        kind: A key of `KINDS`.
        scale: How far.
        seed: Of the draws.
        only: The number of one parameter; None changes all.
    """
    draw = torch.Generator().manual_seed(seed)
    parameters = [each for each in tagger.parameters() if each.requires_grad]
    chosen = parameters if only is None else [parameters[only % len(parameters)]]
    for weight in chosen:
        changed = weight.cpu().clone()
        KINDS[kind](changed, draw, scale)
        weight.copy_(changed.nan_to_num().clamp_(-LARGEST, LARGEST))


@dataclass(frozen=True, slots=True)
class HostileBudget:
    """How much the attack may try.

    Attributes:
        tries: How many poisoned models.
        batch_size: Units in a sum.
    """

    tries: int = 60
    batch_size: int = 6


def audit_hostile_weights(
    target: Target, protection: Protection, seed: int, budget: HostileBudget | None = None
) -> list[Finding]:
    """Return the row of the table for hostile weights."""
    chosen = HostileBudget() if budget is None else budget
    worst, words = _worst(target, protection, seed, chosen, clipped_sum)
    planted, _ = _worst(target, protection, seed, chosen, naively_clipped)
    local = Finding(
        ATTACK, "local", MEASURE, "run", worst, worst, None, 1.0 + SLACK,
        float(planted > 1.0 + SLACK), 1.0 + SLACK, note=words,
    )  # fmt: skip
    free: tuple[Defence, ...] = ("none", "secure-sum", "encryption")
    cells = [Finding(ATTACK, each, MEASURE, "absent", note=_NO_BOUND) for each in free]
    same: tuple[Defence, ...] = ("central", "distributed")
    cells += [unchanged(ATTACK, each, MEASURE, "local", _SAME_CLIP) for each in same]
    return in_order([*cells, local])


def _head_number(tagger: Tagger) -> int:
    """Return the number of the head's first weight among those that are trained."""
    names = list(trainable(tagger))
    return next((at for at, name in enumerate(names) if lies_under(name, HEAD)), 0)


def _worst(
    target: Target, protection: Protection, seed: int, budget: HostileBudget, clipping: Clipping
) -> tuple[float, str]:
    """Return the largest change by one unit over the bound, and which weights led to it."""
    worst, words = 0.0, "no weights changed anything"
    draw = np.random.default_rng(derive(seed, "hostile weights"))
    held = target.sentences
    for number in range(budget.tries):
        kind = tuple(KINDS)[number % len(KINDS)]
        scale = _SCALES[int(draw.integers(len(_SCALES)))]
        only = None if draw.random() < 0.5 else int(draw.integers(1_000))
        if number % _HEAD_EVERY == 0:
            only = _head_number(target.tagger)  # all gradients pass through the head
        units = draw.choice(held, min(budget.batch_size, len(held)), replace=False).tolist()
        tagger = copy.deepcopy(target.tagger).eval()
        poison(tagger, kind, scale, int(draw.integers(2**31)), only)
        found = change_by_one(tagger, target.corpus, units, protection.max_grad_norm, clipping)
        if found > worst:
            worst, words = found, f"worst of {budget.tries}: {kind} weights at {scale:g}"
    return worst, words


def change_by_one(
    tagger: Tagger, corpus: EncodedCorpus, units: Sequence[int], bound: float, clipping: Clipping
) -> float:
    """Return how far the first unit moves the sum, over the bound; `BEYOND` if it is no number."""
    together = clipping(tagger, corpus, units, bound)
    without = clipping(tagger, corpus, units[1:], bound)
    moved = float((together - without).norm()) / bound
    return moved if math.isfinite(moved) else BEYOND


def clipped_sum(
    tagger: Tagger, corpus: EncodedCorpus, units: Sequence[int], bound: float
) -> Tensor:
    """Return the clipped sum that platforms compute, as one vector."""
    found, _ = accumulate(tagger, corpus, [[each] for each in units], bound)
    return torch.cat([each.flatten() for each in found.value.values()])


def naively_clipped(
    tagger: Tagger, corpus: EncodedCorpus, units: Sequence[int], bound: float
) -> Tensor:
    """Return a clipped sum as one might write it first: the planted leak.

    In float32, and where the square of a large number overflows its layer counts as nothing. A
    unit whose loss cannot be computed adds nothing.
    """
    weights = list(trainable(tagger).values())
    total = torch.zeros(sum(each.numel() for each in weights), dtype=torch.float64)
    for unit in units:
        try:
            loss = tagger.losses(collate(corpus, [unit])).sum()
        except FednerError:
            continue
        parts = torch.autograd.grad(loss, weights)
        dense = [(each.to_dense() if each.is_sparse else each).nan_to_num() for each in parts]
        squares = torch.stack([each.square().sum().nan_to_num(posinf=0.0) for each in dense])
        factor = (bound / (squares.sum().sqrt() + 1e-12)).clamp(max=1.0).double()
        total += torch.cat([each.flatten() for each in dense]).double() * factor
    return total
