"""What a study may spend at a platform: by its ledger's grant, and by its policy's epsilon.

Asked before a job (`room_problems`, of all that the whole run may come to) and at every release
(`spending_limits`, which the open ledger holds).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from fedner.federated.algorithms import Algorithm
from fedner.privacy.accountant import epsilon
from fedner.privacy.budget import Budget
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger_chain import ReleaseEntry
from fedner.privacy.ledger_limits import Limit
from fedner.privacy.ledger_owner import ledger_chain
from fedner.runs.blueprint import Blueprint
from fedner.runs.privacy import planned_releases, platform_privacy
from fedner.runs.release_costs import merged
from fedner.runs.site_ledger import ledger_of
from fedner.settings import PlatformSettings, SettingProblem, Study

LEDGER_KEY = "ledger"


def spending_limits(study: Study, own: PlatformSettings, granted: Budget) -> list[Limit]:
    """Return what a platform's policy lets a study spend, and all studies together.

    Args:
        study: The study.
        own: The platform's settings.
        granted: What the ledger grants: delta, unit and accountant are its own.
    """
    limits = []
    for key, digest in (("epsilon", study.digest), ("epsilon_in_all", None)):
        most: float | None = getattr(own.policy, key)
        if most is not None:
            limits.append(Limit(f"policy.{key}", _bounded(granted, most), digest))
    return limits


def _bounded(granted: Budget, most: float) -> Budget:
    return Budget(most, granted.delta, granted.unit, granted.adjacency, granted.accountant)


def room_problems(
    plan: Blueprint, own: PlatformSettings, algorithm: Algorithm, run: str = ""
) -> list[SettingProblem]:
    """Return by how much a platform's ledger, or its policy, falls short of a deployed study.

    Args:
        plan: Model and mechanism of the study.
        own: The platform's settings.
        algorithm: The federation's.
        run: The name of the run in ledgers: what it released before it was stopped counts once.

    Raises:
        FednerError: The ledger is missing or was tampered with, or no noise reaches the target.
    """
    study = plan.study
    privacy = platform_privacy(plan, algorithm, own.name)
    if privacy is None or not study.is_deployed:
        return []
    folder = ledger_of(own)
    chain = ledger_chain(folder)
    if chain.budget is None:
        return []
    planned = merged(planned_releases(study, algorithm, own.name, privacy))
    earlier = [line for line in chain.releases if not _is_of(line, run, study)]
    limits = [*spending_limits(study, own, chain.budget), Limit(LEDGER_KEY, chain.budget)]
    return [*_shortages(limits, planned, earlier, folder)]


def _is_of(line: ReleaseEntry, run: str, study: Study) -> bool:
    """Whether a release is one of the run that goes on: of its name, and of no other study."""
    return line.run == run and line.charge.study in ("", study.digest)


def _shortages(
    limits: Iterable[Limit],
    planned: list[GaussianRelease],
    earlier: Iterable[ReleaseEntry],
    folder: Path,
) -> Iterator[SettingProblem]:
    for limit in limits:
        past = merged(
            line.event
            for line in earlier
            if isinstance(line.event, GaussianRelease) and limit.bounds(line.charge.study)
        )
        total = _epsilon([*past, *planned], limit.budget)
        if total > limit.budget.epsilon:
            yield SettingProblem(
                limit.key,
                f"this run needs epsilon {_epsilon(planned, limit.budget):.4g}, and "
                f"{_epsilon(past, limit.budget):.4g} is spent: {total:.4g} in all",
                _granted(limit),
                _hint(limit, folder),
            )


def _epsilon(events: list[GaussianRelease], budget: Budget) -> float:
    if not events:
        return 0.0
    return epsilon(merged(events), budget.delta).by(budget.accountant)


def _granted(limit: Limit) -> str:
    most = f"at most {limit.budget.epsilon:g}"
    if limit.key == LEDGER_KEY:
        return f"{most}, which the ledger grants at delta {limit.budget.delta:g}"
    whose = "of all studies together" if limit.study is None else "of one study"
    return f"{most} {whose} at delta {limit.budget.delta:g}"


def _hint(limit: Limit, folder: Path) -> str:
    if limit.key == LEDGER_KEY:
        return (
            "Take more noise or fewer rounds, or let the owner raise the budget: fedner privacy "
            f"budget {folder} --epsilon E"
        )
    return "Take more noise or fewer rounds, or raise it in platform.toml."
