"""Which settings suit partners and newcomers: a trial on newcomers that the study never scores.

Newcomers are NCBI-disease (whose type partners have) and Ex-PTM (whose type nobody has), seeds 101
to 103. Partners train with several learning rates and dropouts; newcomers with 25 and 100 sentences
then try learning rates and pulls. `fedner reproduce joining-settings` runs it; the settings of
`study` were chosen by such trials.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fedner.experiments.joining import study
from fedner.experiments.joining.arms import Alone, Together, train_alone, train_together
from fedner.experiments.joining.cells import REHEARSED, REHEARSED_OWN
from fedner.experiments.joining.kinds import DESCRIBED
from fedner.experiments.joining.study import Setting, own_and_test, schedule
from fedner.experiments.joining.world import World

NEWCOMERS = ("ncbi", "ex-ptm")
SEEDS = (101, 102, 103)
SIZES = (25, 100)
RATES, PULLS = (1e-3, 2e-3, 4e-3, 8e-3), (0, 1, 3, 10, 30, 100)
GRID = tuple(Setting(rate, pull) for rate in RATES for pull in PULLS)


@dataclass(frozen=True, slots=True)
class Partners:
    """How the partners of one newcomer train, in all seeds: one stack."""

    newcomer: str
    learning_rate: float = study.PARTNER_RATE
    dropout: float = study.PARTNER_DROPOUT
    steps: int = study.PARTNER_STEPS


WAYS = ((2e-3, 0.3), (1e-3, 0.3), (4e-3, 0.3), (2e-3, 0.2), (2e-3, 0.4))  # rate and dropout
TRIALS = tuple(Partners(newcomer, *way) for newcomer in NEWCOMERS for way in WAYS)


@dataclass(frozen=True, slots=True)
class SettingPoint:
    """What one setting of a newcomer came to: strict F1 on the test part, of one seed."""

    size: int
    seed: int
    learning_rate: float
    pull: float
    f1: float


def platforms() -> tuple[str, ...]:
    """Return the platforms of the study and the newcomers of the trial."""
    return tuple(dict.fromkeys((*study.platforms(), *NEWCOMERS)))


def run_trial(trial: Partners, world: World, seeds: Sequence[int] = SEEDS) -> list[SettingPoint]:
    """Train the partners of a trial, then newcomers in all settings."""
    members = train_together(
        world,
        DESCRIBED,
        [Together(trial.newcomer, seed, weighting=study.WEIGHTING) for seed in seeds],
        steps=study.REHEARSED_STEPS if world.is_rehearsal else trial.steps,
        batch_size=study.PARTNER_BATCH,
        learning_rate=trial.learning_rate,
        dropout=trial.dropout,
    )
    points = []
    for size in SIZES:
        jobs = []
        for seed, member in zip(seeds, members, strict=True):
            own, test = own_and_test(world, trial.newcomer, seed)
            own = own[: REHEARSED_OWN[size] if world.is_rehearsal else size]
            jobs += [
                Alone(trial.newcomer, own, test, setting.learning_rate, seed, member, setting.pull)
                for setting in GRID
            ]
        epochs, batch_size = REHEARSED if world.is_rehearsal else schedule(size)
        found = train_alone(world, DESCRIBED, jobs, epochs=epochs, batch_size=batch_size)
        points += [
            SettingPoint(size, job.seed, job.learning_rate, job.pull, each.f1)
            for job, each in zip(jobs, found, strict=True)
        ]
    return points
