"""Which entity types a platform annotates, from the gradient of a shared described head.

The gradient of a map Q of types is a sum over the platform's types of outer products, whose right
factors are the vectors of their descriptions (`models.layers.described`). These vectors span its
rows. Whoever guesses a description computes its vector and sees whether it lies in that space. With
noise the rows are written as a sum over all guesses by least squares, and those are named whose
part stands `_DEVIATIONS` deviations above the noise. Types stay the same from round to round:
rounds are added up, and noise that is made for single units wears off.

Shapes: R rows of all maps, T guesses, E numbers of a description.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.audit.finding import DEFENCES, Defence, Finding, absent, encrypted, in_order
from fedner.audit.observation import (
    Observation,
    Protection,
    Target,
    drawn_batches,
    observe,
    with_weights,
)
from fedner.audit.statistics import share_interval
from fedner.models.layers.described import DescribedEmissions
from fedner.models.types import TYPE_NORM, TypeVectors
from fedner.seeds import derive

Vectors = NDArray[np.float32]
ATTACK = "types of a described head"
MEASURE = "F1 of the types named among the guesses, against the platform's own"
# Guesses that stand beside the true types: what any attacker would try.
DECOYS: Mapping[str, str] = {
    "Anatomy": "part of the body",
    "CellLine": "name of a cell line",
    "Company": "name of a company",
    "Date": "day, month or year",
    "Gene": "name of a gene or protein",
    "Hospital": "name of a hospital or ward",
    "LabTest": "name of a laboratory test",
    "Location": "name of a place",
    "Mutation": "change in a gene",
    "Occupation": "what a person works as",
    "Organism": "name of a species",
    "Person": "name of a person",
    "Phone": "telephone number",
    "Procedure": "operation or other treatment that is no medicine",
    "Route": "way in which a medicine is given",
    "Vaccine": "name of a vaccine",
}
_NUMERIC = 1e-4  # singular values below this share of the largest are rounding
_OUTSIDE = 0.05  # the largest part of a guess outside the space
_DEVIATIONS = 5.0
_FAINT = 0.01  # the noise, over that of the table, in which a planted type must be found too
_NO_HEAD = "no described head is transmitted: it is free, or stays private"
_UNITS = "noise for single units promises nothing about which types a platform annotates"


@dataclass(frozen=True, slots=True)
class TypesBudget:
    """How much the attack may try.

    Attributes:
        batch_size: Sentences in a batch, at most; fewer where the platform has too few.
        rounds: How many rounds are added up.
        trials: How often.
    """

    batch_size: int = 32
    rounds: int = 30
    trials: int = 3


def audit_types(
    target: Target,
    guesses: TypeVectors | None,
    protection: Protection,
    seed: int,
    budget: TypesBudget | None = None,
) -> list[Finding]:
    """Return the row of the table for the types of a described head.

    Args:
        target: The attacked platform.
        guesses: What the attacker tries: the platform's own types among others; None where no
            head is described.
        protection: How strong the defences are.
        seed: Of batches, dropout and noise.
        budget: How much may be tried.
    """
    chosen = TypesBudget() if budget is None else budget
    names = _type_maps(target)
    if guesses is None or not names:
        return absent(ATTACK, MEASURE, _NO_HEAD)
    power = _planted_power(target, names, protection, chosen, seed)
    cells = [encrypted(ATTACK, MEASURE)]
    cells += [
        _cell(target, names, guesses, protection, chosen, seed, defence, power)
        for defence in DEFENCES
        if defence != "encryption"
    ]
    return in_order(cells)


def _type_maps(target: Target) -> list[str]:
    """Return the shared maps of types."""
    if not isinstance(target.tagger.emissions, DescribedEmissions):
        return []
    return [name for name in target.shared if name.startswith("emissions.type.")]


def _cell(
    target: Target,
    names: Sequence[str],
    guesses: TypeVectors,
    protection: Protection,
    budget: TypesBudget,
    seed: int,
    defence: Defence,
    power: float,
) -> Finding:
    own = set(_head(target).descriptions)
    scores = []
    for trial in range(budget.trials):
        seen = _added_up(target, names, defence, protection, budget, derive(seed, "types", trial))
        named = {guesses.labels[at] for at in lying_in_rows(seen, names, guesses.vectors)}
        scores.append(2.0 * len(named & own) / max(1, len(named) + len(own)))
    result, lower, upper = share_interval(scores)
    # Whoever knows nothing does best by naming all that is tried.
    chance = 2.0 * len(own) / (len(own) + len(guesses.labels))
    note = f"after {budget.rounds} rounds"
    if defence in ("local", "central", "distributed"):
        note += f"; {_UNITS}"
    return Finding(
        ATTACK, defence, MEASURE, "run", result, lower, upper, chance, power, note=note
    )  # fmt: skip


def _added_up(
    target: Target,
    names: Sequence[str],
    defence: Defence,
    protection: Protection,
    budget: TypesBudget,
    seed: int,
) -> Observation:
    """Return the mean of what is seen of the maps of types in some rounds."""
    watched = replace(target, shared=tuple(names))
    size = max(1, min(budget.batch_size, len(target.sentences) // protection.num_platforms))
    seen = [
        observe(
            watched, drawn_batches(watched, protection.num_platforms, size, path), defence,
            protection, path,
        )
        for path in (derive(seed, "round", number) for number in range(budget.rounds))
    ]  # fmt: skip
    mean = {name: torch.stack([each.gradient[name] for each in seen]).mean(0) for name in names}
    return Observation(mean, seen[0].deviation / budget.rounds**0.5, seen[0].num_batches)


def lying_in_rows(seen: Observation, names: Sequence[str], vectors_TE: Vectors) -> list[int]:
    """Return which vectors the rows of the gradients are made of."""
    rows_RE = torch.cat([seen.gradient[name].double() for name in names])
    guesses_TE = torch.from_numpy(np.asarray(vectors_TE)).double()
    if seen.deviation:
        is_named_T = _above_noise(rows_RE, guesses_TE, seen.deviation)
    else:
        is_named_T = _within_span(rows_RE, guesses_TE)
    return torch.nonzero(is_named_T).squeeze(1).tolist()


def _within_span(rows_RE: Tensor, guesses_TE: Tensor) -> Tensor:
    """Return which guesses lie in the space that the rows span."""
    _, sizes_K, right_KE = torch.linalg.svd(rows_RE, full_matrices=False)
    space_KE = right_KE[sizes_K > _NUMERIC * float(sizes_K[0])]
    if len(space_KE) == rows_RE.shape[1]:  # rows that span everything tell nothing
        return torch.zeros(len(guesses_TE), dtype=torch.bool)
    inside_TE = guesses_TE @ space_KE.t() @ space_KE
    is_in_T: Tensor = (guesses_TE - inside_TE).norm(dim=1) < _OUTSIDE * guesses_TE.norm(dim=1)
    return is_in_T


def _above_noise(rows_RE: Tensor, guesses_TE: Tensor, deviation: float) -> Tensor:
    """Return which guesses have a part in the rows that noise alone would not give them."""
    inverse_ET = torch.linalg.pinv(guesses_TE)
    squares_T = (rows_RE @ inverse_ET).square().sum(0)
    usual_T = deviation**2 * inverse_ET.square().sum(0)
    num = len(rows_RE)
    is_above_T: Tensor = squares_T > usual_T * (num + _DEVIATIONS * (2.0 * num) ** 0.5)
    return is_above_T


def _planted_power(
    target: Target, names: Sequence[str], protection: Protection, budget: TypesBudget, seed: int
) -> float:
    """Return how often a planted type is named, and one that was not planted is not.

    Tried without noise and in a little of it: the attack takes another way there.
    """
    faint = replace(protection, noise_multiplier=_FAINT * protection.noise_multiplier)
    tried: tuple[tuple[Defence, Protection], ...] = (("none", protection), ("local", faint))
    hits = []
    for trial in range(budget.trials):
        path = derive(seed, "planted types", trial)
        head = _head(target).vectors
        planted, decoy = _random_vectors(head.shape[1], path)
        changed = _with_type(target, planted)
        guesses = np.concatenate([np.stack([planted, decoy]), head[1:].numpy()])
        for defence, held in tried:
            seen = _added_up(changed, names, defence, held, budget, path)
            named = lying_in_rows(seen, names, guesses)
            hits.append(float(0 in named and 1 not in named))
    return float(np.mean(hits))


def _random_vectors(size: int, seed: int) -> Vectors:
    drawn = np.random.default_rng(seed).standard_normal((2, size))
    scaled: Vectors = (drawn * TYPE_NORM / np.linalg.norm(drawn, axis=1)[:, None]).astype("f4")
    return scaled


def _with_type(target: Target, vector: Vectors) -> Target:
    """Return the target whose first type has another vector."""
    changed = with_weights(target, copy.deepcopy(target.tagger))
    _head(changed).vectors[0] = torch.from_numpy(vector)
    return changed


def _head(target: Target) -> DescribedEmissions:
    head = target.tagger.emissions
    if not isinstance(head, DescribedEmissions):
        raise TypeError("the head is not described")
    return head
