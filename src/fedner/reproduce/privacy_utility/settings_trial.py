"""`dp-settings`: which settings suit training under DP, on a split of no other study.

The science is that of `fedner.experiments.joining.private_trial`; a cell is one way to train, at
several learning rates.
"""

from collections.abc import Sequence

from fedner.experiments.joining.private_study import FEDERATIONS, platforms
from fedner.experiments.joining.private_trial import EPSILON, SPLIT, TRIALS, Trial, run_trial
from fedner.reproduce.bench import Bench
from fedner.reproduce.estimates import chosen, estimated
from fedner.reproduce.joining_world import require_corpora, world_for
from fedner.reproduce.reproduction import (
    Cell,
    Entry,
    Estimate,
    Factor,
    Inputs,
    Reproduction,
    Row,
    Rows,
    Shown,
    Table,
)

COST, PLAIN_COST = 60.0, 40.0
TRIAL_WORDS = (
    f"Epsilon {EPSILON:g} with noise once on the sum, delta 1e-5, simulated; split {SPLIT}, which "
    "`privacy-utility` does not use. Learning rates fall linearly unless there is an EMA."
)
SEED_WORDS = "A repeat is a seed of sample and noise, on one split; without DP there is one run."


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return a cell for every way to train and seed of noise; without noise there is one seed.

    Raises:
        FednerError: There are no corpora.
    """
    require_corpora(inputs)
    return [
        _cell(trial, seed)
        for place, seed in enumerate(inputs.seeds)
        for trial in TRIALS
        if trial.epochs or not place
    ]


def _cell(trial: Trial, seed: int) -> Cell:
    factors: dict[str, Factor] = {
        "trial": trial.name,
        "federation": trial.federation,
        "repeat": seed,
    }
    key = f"{trial.name}/repeat-{seed}"
    return Cell(key, factors, COST * trial.epochs / 60 if trial.epochs else PLAIN_COST)


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train in one way at all its learning rates."""
    trial = next(each for each in TRIALS if each.name == cell.factors["trial"])
    world, folder = world_for(bench, platforms()), bench.inputs.out / "cache"
    return [
        Row(
            {**cell.factors, "learning_rate": each.learning_rate},
            {"strict_f1": each.f1, "noise_multiplier": each.noise_multiplier},
        )
        for each in run_trial(trial, world, folder, int(cell.factors["repeat"]))
    ]


def show(rows: Rows, _inputs: Inputs) -> Shown:
    """Return the best learning rate of every way to train, for each federation."""
    return Shown(tuple(_table(rows, federation) for federation in FEDERATIONS))


def _table(rows: Rows, federation: str) -> Table:
    lines: list[tuple[Entry, ...]] = []
    for trial in TRIALS:
        if trial.federation != federation:
            continue
        held = chosen(rows, trial=trial.name)
        best = _best(held)
        rate = None if best is None else f"{best[0]:g}"
        privately = "no DP" if not trial.epochs else f"epsilon {EPSILON:g}"
        lines.append((_words(trial), privately, best and best[1], rate))
    return Table(
        f"dp-settings-{federation}",
        f"Strict F1 over all test parts of the federation {federation}",
        ("trained how", "privacy", "best F1", "at learning rate"),
        tuple(lines),
        ("The best of several learning rates on one split is a little too good.",),
        digits=1,
    )


def _words(trial: Trial) -> str:
    """Return a trial in words, without the federation, which its table names.

    >>> _words(Trial("public", (0.001, 0.01)))
    'public, 200 units, rank 128, batch 2048, 30 epochs, learning rates to 0.01'
    """
    return trial.name.removeprefix(f"{trial.federation} ")


def _best(rows: Rows) -> tuple[float, Estimate] | None:
    """Return the learning rate of the best mean, with that mean."""
    found = [
        (float(rate), held)
        for rate in sorted({row.factors["learning_rate"] for row in rows}, key=float)
        if (held := estimated(rows, "strict_f1", learning_rate=rate))
    ]
    return max(found, key=lambda each: each[1].mean, default=None)


DP_SETTINGS = Reproduction(
    name="dp-settings",
    source="beyond both papers",
    title="which settings suit training under DP, on a split of no other study",
    layout="own",
    corpora=(),
    stages=(cells,),
    run=run,
    show=show,
    needs=frozenset({"words", "context"}),
    settings=(TRIAL_WORDS, SEED_WORDS),
    repeats=1,
)
