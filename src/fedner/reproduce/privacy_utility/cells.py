"""The cells of the study: released models by epsilon and noise, and newcomers of DP partners."""

from collections.abc import Iterator, Mapping, Sequence

from fedner.errors import FednerError
from fedner.experiments.joining.private_study import (
    ARMS,
    EPSILONS,
    FEDERATIONS,
    FULL,
    NEWCOMERS,
    PLAIN,
    PUBLIC_ONLY,
    REHEARSAL,
    Joining,
    Released,
    platforms,
    score_by_itself,
    score_newcomers,
    score_released,
)
from fedner.reproduce.bench import Bench
from fedner.reproduce.joining_world import require_corpora, world_for
from fedner.reproduce.reproduction import Cell, Factor, Inputs, Row, Rows

RELEASED, NEWCOMER, ALONE = "released", "newcomer", "alone"
ALL = "all"  # over the test parts of all platforms
COSTS = {RELEASED: 50.0, NEWCOMER: 60.0, ALONE: 40.0}
# Where noise is added matters only where there is some.
EPSILONS_OF: dict[str, tuple[float, ...]] = {
    name: (PLAIN, *EPSILONS) if arm.place == "central" else EPSILONS for name, arm in ARMS.items()
}
# From scratch, from a public model, and with that as it is.
STARTS: dict[str, tuple[float, ...]] = {
    PUBLIC_ONLY: (PLAIN,),
    "public": (PLAIN, *EPSILONS),
    "scratch": (PLAIN, *EPSILONS),
}


def first_cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return all cells, those of released models first.

    Raises:
        FednerError: There are no corpora.
    """
    require_corpora(inputs)
    return [*_released_cells(inputs), *_newcomer_cells(inputs)]


def _released_cells(inputs: Inputs) -> Iterator[Cell]:
    for split in inputs.seeds:
        for federation in FEDERATIONS:
            for arm, epsilons in EPSILONS_OF.items():
                for epsilon in epsilons:
                    yield released_cell(federation, arm, epsilon, split)


def released_cell(federation: str, arm: str, epsilon: float, split: int) -> Cell:
    """Return the cell of a federation's models in one split: all seeds of noise in one stack."""
    factors: dict[str, Factor] = {"federation": federation, "arm": arm, "epsilon": epsilon}
    key = f"{RELEASED}/{federation}/{arm}/epsilon-{epsilon:g}/repeat-{split}"
    return Cell(key, {"part": RELEASED, **factors, "repeat": split}, COSTS[RELEASED])


def _newcomer_cells(inputs: Inputs) -> Iterator[Cell]:
    # What a newcomer receives is trained for all its splits at once: a cell of no single repeat.
    for newcomer in NEWCOMERS:
        for start, epsilons in STARTS.items():
            for epsilon in epsilons:
                yield newcomer_cell(newcomer, start, epsilon, inputs.seeds)
    for split in inputs.seeds:
        for newcomer in NEWCOMERS:
            yield alone_cell(newcomer, split)


def newcomer_cell(newcomer: str, start: str, epsilon: float, splits: Sequence[int]) -> Cell:
    """Return the cell of a newcomer in all splits."""
    factors: dict[str, Factor] = {"federation": newcomer, "arm": start, "epsilon": epsilon}
    key = f"{NEWCOMER}/{newcomer}/{start}/epsilon-{epsilon:g}/repeats-{splits[0]}-{splits[-1]}"
    return Cell(key, {"part": NEWCOMER, **factors}, COSTS[NEWCOMER])


def alone_cell(newcomer: str, split: int) -> Cell:
    """Return the cell of a newcomer by itself."""
    factors: dict[str, Factor] = {"federation": newcomer, "arm": ALONE, "epsilon": PLAIN}
    key = f"{ALONE}/{newcomer}/repeat-{split}"
    return Cell(key, {"part": ALONE, **factors, "repeat": split}, COSTS[ALONE])


def run(cell: Cell, bench: Bench) -> list[Row]:
    """Train and score the models of a cell."""
    work = {RELEASED: _run_released, NEWCOMER: _run_newcomer, ALONE: _run_alone}
    part = str(cell.factors["part"])
    if part not in work:
        raise FednerError(f"{cell.key} is no cell of this study")
    return work[part](cell, bench)


def _run_released(cell: Cell, bench: Bench) -> list[Row]:
    factors = cell.factors
    task = Released(
        str(factors["federation"]),
        ARMS[str(factors["arm"])],
        float(factors["epsilon"]),
        int(factors["repeat"]),
    )
    world = world_for(bench, platforms())
    scale = REHEARSAL if bench.inputs.is_rehearsal else FULL
    found = score_released(world, task, scale, bench.inputs.out / "cache")
    return released_rows(cell, found)


def released_rows(cell: Cell, found: Mapping[int, Mapping[str, float]]) -> list[Row]:
    """Return a row for each seed of noise and platform."""
    return [
        Row({**cell.factors, "noise_seed": seed, "platform": platform}, {"strict_f1": f1})
        for seed, scores in found.items()
        for platform, f1 in scores.items()
    ]


def _run_newcomer(cell: Cell, bench: Bench) -> list[Row]:
    factors, inputs = cell.factors, bench.inputs
    task = Joining(
        str(factors["federation"]),
        str(factors["arm"]),
        float(factors["epsilon"]),
        tuple(inputs.seeds),
    )
    world = world_for(bench, platforms())
    scale = REHEARSAL if inputs.is_rehearsal else FULL
    return newcomer_rows(cell, score_newcomers(world, task, scale, inputs.out / "cache"))


def newcomer_rows(cell: Cell, found: Mapping[tuple[int, int], float]) -> list[Row]:
    """Return a row for each split and seed of noise."""
    return [
        Row(
            {**cell.factors, "repeat": split, "noise_seed": noise, "platform": ALL},
            {"strict_f1": f1},
        )
        for (split, noise), f1 in found.items()
    ]


def _run_alone(cell: Cell, bench: Bench) -> list[Row]:
    world = world_for(bench, platforms())
    newcomer, split = str(cell.factors["federation"]), int(cell.factors["repeat"])
    return newcomer_rows(cell, {(split, 0): score_by_itself(world, newcomer, split)})
