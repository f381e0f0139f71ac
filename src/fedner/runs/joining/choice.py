"""What a newcomer keeps: joined, local-only, or the mean of both, by cross-validation.

The scores here choose. They are the best of many, so they flatter: a result comes from a test part
that had no say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fedner.runs.joining.candidates import JOINED, LOCAL, Arm, Grid, Setting
from fedner.runs.joining.cross_validation import jobs_of, pooled_counts
from fedner.runs.joining.jobs import Job
from fedner.runs.joining.newcomer import Newcomer
from fedner.runs.joining.store import Store

Method = Literal["joined", "local-only", "average"]
METHODS: tuple[Method, ...] = ("joined", "local-only", "average")  # of equals the first is kept


@dataclass(frozen=True, slots=True)
class Candidate:
    """An arm with one setting, and what it came to in cross-validation.

    Attributes:
        arm: What was trained.
        setting: How.
        selection_f1: Strict F1 over all folds: it chooses, and is no result.
        has_diverged: Whether its training diverged on a fold: any other is better.
    """

    arm: Arm
    setting: Setting
    selection_f1: float
    has_diverged: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """What cross-validation chose.

    Attributes:
        candidates: All that were tried.
        joined: The best setting of the received weights.
        local: The best candidate that never saw anybody else's texts.
        selection_f1: Strict F1 over all folds of each method: they choose, and are no results.
        kept: The method that is kept.
    """

    candidates: tuple[Candidate, ...]
    joined: Candidate
    local: Candidate
    selection_f1: dict[Method, float]
    kept: Method

    @property
    def members(self) -> tuple[Candidate, ...]:
        """What the kept tagger is made of."""
        chosen: dict[Method, tuple[Candidate, ...]] = {
            "joined": (self.joined,),
            "local-only": (self.local,),
            "average": (self.joined, self.local),
        }
        return chosen[self.kept]


def choose(newcomer: Newcomer, grid: Grid, jobs: Sequence[Job], store: Store) -> Choice:
    """Return the best settings and the method to keep, from finished cross-validation jobs."""
    candidates = [
        _candidate(newcomer, arm, setting, jobs_of(jobs, arm, setting), store)
        for arm, settings in grid.items()
        for setting in settings
    ]
    joined = best([each for each in candidates if each.arm == JOINED])
    local = best([each for each in candidates if each.arm in LOCAL])
    both = zip(
        jobs_of(jobs, joined.arm, joined.setting),
        jobs_of(jobs, local.arm, local.setting),
        strict=True,
    )
    scores: dict[Method, float] = {
        "joined": joined.selection_f1,
        "local-only": local.selection_f1,
        "average": _f1(newcomer, list(both), store),
    }
    return Choice(tuple(candidates), joined, local, scores, best_method(scores))


def _candidate(
    newcomer: Newcomer, arm: Arm, setting: Setting, jobs: Sequence[Job], store: Store
) -> Candidate:
    f1 = _f1(newcomer, [[job] for job in jobs], store)
    return Candidate(arm, setting, f1, any(store.read(job).has_diverged for job in jobs))


def best(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the highest score; of equals the first that did not diverge."""
    return max(candidates, key=lambda each: (not each.has_diverged, each.selection_f1))


def best_method(scores: dict[Method, float]) -> Method:
    """Return the method with the highest score; of equals joined, then local-only."""
    return max(METHODS, key=lambda method: scores[method])


def _f1(newcomer: Newcomer, parts: Sequence[Sequence[Job]], store: Store) -> float:
    return pooled_counts(newcomer, parts, store).f1
