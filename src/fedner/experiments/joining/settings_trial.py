"""Which settings suit partners and newcomers: a trial on newcomers that the study never scores.

    python -m fedner.experiments.joining.settings_trial --data D --words W --context C --out O

Newcomers are NCBI-disease (whose type partners have) and Ex-PTM (whose type nobody has), seeds 101
to 103. Partners train with several learning rates and dropouts; newcomers with 25 and 100 sentences
then try learning rates and pulls. What is found stands in OUT/settings.jsonl; the settings of
`study` were chosen by such trials.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from fedner.experiments.joining import running, study
from fedner.experiments.joining.arms import Alone, Together, train_alone, train_together
from fedner.experiments.joining.kinds import DESCRIBED
from fedner.experiments.joining.study import Setting, own_and_test, schedule
from fedner.experiments.joining.world import World

POINTS = "settings.jsonl"
NEWCOMERS = ("ncbi", "ex-ptm")
SEEDS = (101, 102, 103)
SIZES = (25, 100)
GRID = tuple(
    Setting(rate, pull) for rate in (1e-3, 2e-3, 4e-3, 8e-3) for pull in (0, 1, 3, 10, 30, 100)
)


@dataclass(frozen=True, slots=True)
class Partners:
    """How the partners of one newcomer train, in all seeds: one stack."""

    newcomer: str
    learning_rate: float = study.PARTNER_RATE
    dropout: float = study.PARTNER_DROPOUT
    steps: int = study.PARTNER_STEPS


TRIALS = tuple(
    Partners(newcomer, rate, dropout)
    for newcomer in NEWCOMERS
    for rate, dropout in ((2e-3, 0.3), (1e-3, 0.3), (4e-3, 0.3), (2e-3, 0.2), (2e-3, 0.4))
)


@dataclass(frozen=True, slots=True)
class SettingPoint:
    """What one setting came to: strict F1 on the test part, of one seed."""

    newcomer: str
    partners_rate: float
    partners_dropout: float
    size: int
    seed: int
    learning_rate: float
    pull: float
    f1: float


def run_trial(trial: Partners, world: World) -> list[SettingPoint]:
    """Train the partners of a trial, then newcomers in all settings."""
    members = train_together(
        world,
        DESCRIBED,
        [Together(trial.newcomer, seed, weighting=study.WEIGHTING) for seed in SEEDS],
        steps=trial.steps,
        batch_size=study.PARTNER_BATCH,
        learning_rate=trial.learning_rate,
        dropout=trial.dropout,
    )
    points = []
    for size in SIZES:
        jobs = []
        for seed, member in zip(SEEDS, members, strict=True):
            own, test = own_and_test(world, trial.newcomer, seed)
            jobs += [
                Alone(
                    trial.newcomer,
                    own[:size],
                    test,
                    setting.learning_rate,
                    seed,
                    member,
                    setting.pull,
                )
                for setting in GRID
            ]
        epochs, batch_size = schedule(size)
        found = train_alone(world, DESCRIBED, jobs, epochs=epochs, batch_size=batch_size)
        points += [
            SettingPoint(
                trial.newcomer,
                trial.learning_rate,
                trial.dropout,
                size,
                job.seed,
                job.learning_rate,
                job.pull,
                each.f1,
            )
            for job, each in zip(jobs, found, strict=True)
        ]
    return points


def table(points: Sequence[SettingPoint]) -> str:
    """Return Markdown: the mean F1 over seeds of every setting, the best of each group first."""
    groups: dict[tuple[str, int, float, float, float, float], list[float]] = {}
    for each in points:
        key = (
            each.newcomer,
            each.size,
            each.partners_rate,
            each.partners_dropout,
            each.learning_rate,
            each.pull,
        )
        groups.setdefault(key, []).append(each.f1)
    head = ("newcomer", "own sentences", "partners' rate", "dropout", "rate", "pull", "F1", "runs")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for key, values in sorted(groups.items(), key=lambda item: (*item[0][:2], -fmean(item[1]))):
        cells = (*(f"{each:g}" if not isinstance(each, str) else each for each in key),)
        lines.append(f"| {' | '.join(cells)} | {fmean(values):.1f} | {len(values)} |")
    return "\n".join(lines)


def open_world(options: argparse.Namespace) -> World:
    """Read the platforms of the study and the newcomers of the trial."""
    return running.open_world(options, tuple(dict.fromkeys((*study.platforms(), *NEWCOMERS))))


def run_in_pool(trial: Partners, _out: Path) -> list[SettingPoint]:
    """Run a trial in a process of the pool."""
    return run_trial(trial, running.opened_world())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials that are missing, as long as there is time, and print all."""
    options = running.options_of(arguments, "Which settings suit partners and newcomers?")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / POINTS
    done = {
        (each.newcomer, each.partners_rate, each.partners_dropout)
        for each in running.stored(path, SettingPoint)
    }
    missing = [
        each for each in TRIALS if (each.newcomer, each.learning_rate, each.dropout) not in done
    ]
    run = running.Run(options, open_world, time.monotonic())
    for trial, found in running.worked_off(run, run_in_pool, missing):
        running.add(path, found)
        run.say(f"{trial.newcomer}, partners {trial.learning_rate:g}, dropout {trial.dropout:g}")
    print(table(running.stored(path, SettingPoint)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
