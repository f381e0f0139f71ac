"""One-run audit: a lower bound of epsilon from which canaries took part.

Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run", with their
gradient canaries: each of m units has a gradient of its own, the clipping bound in one coordinate
and 0 elsewhere, and takes part in all releases or in none, by a fair coin. The attacker knows
everything else, sees what is released, and guesses of each canary whether it was there. The bound
must stay below the accountant's epsilon for the same releases; a larger one shows that noise or
accounting is broken. (Whether sentences are clipped is tried by the hostile weights.)
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.audit.finding import Defence, Finding, encrypted, in_order, unchanged
from fedner.audit.observation import (
    Observation,
    Protection,
    Target,
    drawn_batches,
    flat,
    observe,
    released_epsilon,
)
from fedner.audit.statistics import one_run_epsilon
from fedner.seeds import derive

ATTACK = "canaries"
MEASURE = "lower bound of epsilon at 95 %, of one run"
_KNOWN = "whoever knows the other platforms' updates takes them off the sum"
_DOUBT = 0.05
_SURE = (1, 4, 16)  # all canaries are guessed, or the surest of 4, or of 16


@dataclass(frozen=True, slots=True)
class CanaryBudget:
    """How much the attack may try.

    Attributes:
        canaries: How many there are.
        releases: How often what they take part in is released; epsilon counts all of them.
        batch_size: Sentences of the platform's own that take part beside them.
        delta: The delta of the bound.
    """

    canaries: int = 1_000
    releases: int = 4
    batch_size: int = 8
    delta: float = 1e-5


def audit_canaries(
    target: Target, protection: Protection, seed: int, budget: CanaryBudget | None = None
) -> list[Finding]:
    """Return the row of the table for canaries."""
    run = _begun(target, protection, seed, CanaryBudget() if budget is None else budget)
    # A leak like no other: noise that was forgotten.
    power = max(0.0, 2.0 * float((guessed(run, "central") == run.is_in).mean()) - 1.0)
    cells = [
        unchanged(ATTACK, "secure-sum", MEASURE, "none", _KNOWN),
        encrypted(ATTACK, MEASURE),
    ]
    tried: tuple[Defence, ...] = ("none", "local", "central", "distributed")
    return in_order([*cells, *(_cell(run, defence, power) for defence in tried)])


@dataclass(frozen=True, slots=True)
class _Run:
    """The canaries of one audit.

    Attributes:
        target: The attacked platform.
        protection: How strong the defences are.
        budget: How much may be tried.
        seed: Of batches, dropout and noise.
        places: The coordinate of each canary among all shared numbers.
        is_in: Which canaries take part.
    """

    target: Target
    protection: Protection
    budget: CanaryBudget
    seed: int
    places: NDArray[np.int64]
    is_in: NDArray[np.bool_]


def _begun(target: Target, protection: Protection, seed: int, budget: CanaryBudget) -> _Run:
    draw = np.random.default_rng(derive(seed, "canaries"))
    free = np.flatnonzero(_trained(target))
    places = draw.permutation(free)[: budget.canaries]
    return _Run(target, protection, budget, seed, places, draw.random(len(places)) < 0.5)


def _shapes(target: Target) -> dict[str, Tensor]:
    weights = dict(target.tagger.named_parameters())
    return {name: weights[name].detach() for name in target.shared}


def _trained(target: Target) -> NDArray[np.bool_]:
    """Return which of all shared numbers are trained: padding is not."""
    ones = {name: torch.ones_like(each) for name, each in _shapes(target).items()}
    for name, row in target.padding_rows.items():
        if name in ones:
            ones[name][row] = 0.0
    trained: NDArray[np.bool_] = flat(ones, target.shared).numpy() > 0
    return trained


def _planted(run: _Run) -> dict[str, Tensor]:
    """Return the sum of the canaries that take part."""
    shapes = _shapes(run.target)
    total = torch.zeros(sum(each.numel() for each in shapes.values()), dtype=torch.float64)
    total[torch.from_numpy(run.places[run.is_in])] = run.protection.max_grad_norm
    parts = torch.split(total, [each.numel() for each in shapes.values()])
    return {
        name: part.view(each.shape)
        for (name, each), part in zip(shapes.items(), parts, strict=True)
    }


def scores(run: _Run, defence: Defence) -> NDArray[np.float64]:
    """Return how much of each canary is in the mean of the releases: 0 or 1, and noise."""
    planted, total = _planted(run), np.zeros(len(run.places))
    for number in range(run.budget.releases):
        path = derive(run.seed, "canaries", number)
        with_them = _seen(run, defence, path, planted)
        bare: Defence = defence if defence == "none" else "central"
        known = _seen(run, bare, path, None)
        total += (with_them - known)[run.places]
    scale = run.budget.batch_size / run.protection.max_grad_norm
    found: NDArray[np.float64] = total * scale / run.budget.releases
    return found


def _seen(
    run: _Run, defence: Defence, path: int, planted: dict[str, Tensor] | None
) -> NDArray[np.float64]:
    """Return a release of the platform's batch; the others' updates are known and left out."""
    batches = drawn_batches(run.target, 1, run.budget.batch_size, path)
    nobody: list[list[int]] = [[]] * (run.protection.num_platforms - 1)
    seen: Observation = observe(
        run.target, [*batches, *nobody], defence, run.protection, path, planted
    )
    values: NDArray[np.float64] = flat(seen.gradient, run.target.shared).numpy()
    return values


def guessed(run: _Run, defence: Defence) -> NDArray[np.bool_]:
    """Return which canaries the attacker believes to have taken part."""
    return scores(run, defence) > 0.5


def lower_bound(
    scores_C: NDArray[np.float64], is_in: NDArray[np.bool_], delta: float
) -> tuple[float, int, int]:
    """Return the bound of epsilon, and how many of how many guesses were right.

    Several numbers of guesses are tried, all of them fixed before the scores are seen. They share
    the doubt, so that the best one may be taken.
    """
    surest = np.argsort(-np.abs(scores_C - 0.5), kind="stable")
    right = ((scores_C > 0.5) == is_in)[surest]
    num, found = len(right), []
    for part in _SURE:
        guesses = max(1, num // part)
        correct = int(right[:guesses].sum())
        bound = one_run_epsilon(num, guesses, correct, delta, _DOUBT / len(_SURE))
        found.append((bound, correct, guesses))
    return max(found)


def _cell(run: _Run, defence: Defence, power: float) -> Finding:
    bound, right, guesses = lower_bound(scores(run, defence), run.is_in, run.budget.delta)
    promised = released_epsilon(
        run.target, defence, run.protection, run.budget.releases, run.budget.delta
    )
    words = f"{right:,} of {guesses:,} guesses right"
    if promised is not None:
        words += f"; the accountant allows {promised:.3g} for {run.budget.releases} releases"
    elif defence == "central":
        words += "; the server sees clipped sums without noise"
    return Finding(
        ATTACK, defence, MEASURE, "run", bound, bound, None, 0.0, power, promised, note=words
    )  # fmt: skip
