"""A newcomer that only receives: what a shared model is worth to a platform that joins later.

The science is that of `fedner.experiments.joining`: partners train together, newcomers of growing
size are alone, joined, and in all other arms; types that nobody annotated are asked for. Here it
becomes cells: joint trainings that are needed for what is missing, then newcomers and unseen types.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fedner.experiments.joining import cells as arms
from fedner.experiments.joining import study, zero_shot
from fedner.experiments.joining.report import JOINED, LOCAL, NAMES, Lines, tables
from fedner.experiments.joining.statistics import RESAMPLES
from fedner.experiments.joining.study import (
    ALL,
    MORE_SEEDS,
    NEWCOMERS,
    SEEDS,
    SIZES,
    CellTask,
    PartnerTask,
    Point,
)
from fedner.experiments.joining.zero_shot import UnseenType
from fedner.reproduce.bench import Bench
from fedner.reproduce.estimates import chosen, estimate
from fedner.reproduce.joining_world import require_corpora, world_for
from fedner.reproduce.reproduction import (
    Cell,
    Factor,
    Figure,
    Inputs,
    Panel,
    Reproduction,
    Row,
    Rows,
    Series,
    Shown,
    Table,
)

PARTNERS, JOINING, UNSEEN = "partners", "newcomers", "unseen"  # what a cell is a part of
UNSEEN_SEEDS = SEEDS[:2]
REHEARSED_RESAMPLES = 20
COSTS = {PARTNERS: 100.0, UNSEEN: 100.0}
ALL_COSTS = {"bc5cdr": 500.0, "ade": 150.0, "psytar": 150.0}  # of all own sentences
SERIES = {
    JOINED: "with a received model (nothing is sent)",
    LOCAL: "alone, tuned by cross-validation",
}
CHOICE = (
    "alone is the better, by three folds of its own sentences and six settings each, of ELMoNER "
    "and of the same described head from scratch; joined is chosen among six in the same way"
)
PAIRING = (
    "gains are paired; intervals resample newcomers and seeds; lost: cells in which joined is "
    "worse than alone on untouched test data"
)
PARTNERS_WORDS = (
    f"Partners: {study.PARTNER_STEPS:,} rounds of {study.PARTNER_BATCH} sentences each, Adam "
    f"{study.PARTNER_RATE:g} with linear decay, dropout {study.PARTNER_DROPOUT}, weights by the "
    "root of the size; words, word shapes and frozen context under a BiLSTM of 2x200."
)
NEWCOMER_WORDS = (
    "Newcomers: a fifth of their documents or sentences is the test part; own sentences are "
    "nested; sentences of six tokens or more that a newcomer has are taken out of its partners."
)
SEED_WORDS = (
    f"Seeds {SEEDS[0]} to {SEEDS[-1]}; with {study.MIDDLE} own sentences also {MORE_SEEDS[0]} to "
    f"{MORE_SEEDS[-1]}. --repeats takes the first of them."
)


def seeds_of(inputs: Inputs) -> tuple[int, ...]:
    """Return the study's seeds: the first ones, or all with those at the middle size."""
    first = SEEDS[: inputs.repeats]
    return (*first, *MORE_SEEDS) if inputs.repeats >= len(SEEDS) else first


def tasks(inputs: Inputs) -> list[CellTask]:
    """Return all newcomers of a size and seed, the most important first."""
    return [task for task in study.cell_tasks() if task.seed in seeds_of(inputs)]


def cell_of(task: CellTask) -> Cell:
    """Return the cell of newcomers of one size and seed."""
    factors: dict[str, Factor] = {"part": JOINING, "size": task.size, "repeat": task.seed}
    whole = ALL_COSTS.get(task.newcomers[0], 50.0)
    cost = whole if task.size == ALL else max(20.0, task.size / 2)
    return Cell(f"{JOINING}/{task.name}", factors, cost)


def unseen_cell(seed: int) -> Cell:
    """Return the cell of types that nobody annotated."""
    return Cell(f"{UNSEEN}/repeat-{seed}", {"part": UNSEEN, "repeat": seed}, COSTS[UNSEEN])


def partner_cells(inputs: Inputs, rows: Rows) -> list[Cell]:
    """Return the joint trainings that missing cells receive; none where nothing is missing.

    Raises:
        FednerError: There are no corpora.
    """
    require_corpora(inputs)
    held = points_of(rows)
    missing = [task for task in tasks(inputs) if arms.missing_arms(task, held)]
    return [
        Cell(
            f"{PARTNERS}/{task.name}",
            {"part": PARTNERS, "arm": task.arm, "repeat": task.seeds[0]},
            COSTS[PARTNERS],
        )
        for task in partner_tasks(inputs, missing)
    ]


def partner_tasks(inputs: Inputs, missing: Sequence[CellTask]) -> list[PartnerTask]:
    """Return the joint trainings of some cells, each for the seeds that are run."""
    needed = {
        (arms.joint_training(arm), newcomer, task.seed)
        for task in missing
        for arm in arms.arms_of(task)
        for newcomer in task.newcomers
    }
    found = []
    for task in study.partner_tasks():
        seeds = tuple(seed for seed in task.seeds if seed in seeds_of(inputs))
        own = {(task.arm, name, seed) for name in task.newcomers for seed in seeds}
        if own & needed:
            found.append(replace(task, seeds=seeds))
    return found


def newcomer_cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return all newcomers, and the types that nobody annotated."""
    unseen = [unseen_cell(seed) for seed in UNSEEN_SEEDS if seed in seeds_of(inputs)]
    return [*(cell_of(task) for task in tasks(inputs)), *unseen]


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train partners together, newcomers by themselves, or leave types out."""
    inputs, world = bench.inputs, world_for(bench, study.platforms())
    folder = inputs.out / "cache" / "joining"
    part, seed = cell.factors["part"], int(cell.factors["repeat"])
    if part == UNSEEN:
        return unseen_rows(cell, zero_shot.leave_one_out(world, seed))
    if part == PARTNERS:
        task = _named(partner_tasks(inputs, tasks(inputs)), cell.key.partition("/")[2])
        study.run_partners(world, task, folder)
        return [Row(cell.factors, {"models": len(task.newcomers) * len(task.seeds)})]
    newcomers = next(task for task in tasks(inputs) if cell_of(task).key == cell.key)
    for task in partner_tasks(inputs, [newcomers]):
        if not _has_members(task, newcomers, folder):  # somebody emptied the cache
            study.run_partners(world, task, folder)
    return point_rows(cell, arms.run_cells(world, newcomers, folder))


def _named(tasks_: Sequence[PartnerTask], name: str) -> PartnerTask:
    return next(task for task in tasks_ if task.name == name)


def _has_members(task: PartnerTask, newcomers: CellTask, folder: Path) -> bool:
    own = set(task.newcomers) & set(newcomers.newcomers)
    if newcomers.seed not in task.seeds:
        return True
    return all(study.member_path(folder, task.arm, each, newcomers.seed).is_file() for each in own)


def point_rows(cell: Cell, points: Sequence[Point]) -> list[Row]:
    """Return a row for each newcomer and arm."""
    return [
        Row(
            {
                **cell.factors,
                "newcomer": each.newcomer,
                "arm": each.arm,
                "setting": each.setting,
            },
            {"strict_f1": each.f1, "selection_f1": each.selection, "sentences": each.sentences},
        )
        for each in points
    ]


def unseen_rows(cell: Cell, found: Sequence[UnseenType]) -> list[Row]:
    """Return a row for each type that nobody annotated."""
    return [
        Row(
            {**cell.factors, "group": each.group, "platform": each.platform, "type": each.type},
            {"strict_f1": each.f1, "mentions": each.mentions},
        )
        for each in found
    ]


def points_of(rows: Rows) -> list[Point]:
    """Return the points of newcomers that rows hold, in an order of their own."""
    found = [
        Point(
            str(row.factors["newcomer"]),
            int(row.factors["size"]),
            int(row.factors["repeat"]),
            str(row.factors["arm"]),
            row.measures["strict_f1"] or 0.0,
            row.measures.get("selection_f1"),
            str(row.factors["setting"]),
            int(row.measures.get("sentences") or 0),
        )
        for row in chosen(rows, part=JOINING)
    ]
    return sorted(found, key=lambda each: (each.newcomer, each.size, each.seed))


def unseen_of(rows: Rows) -> list[UnseenType]:
    """Return the types that nobody annotated that rows hold."""
    return [
        UnseenType(
            str(row.factors["group"]),
            str(row.factors["platform"]),
            str(row.factors["type"]),
            int(row.factors["repeat"]),
            row.measures["strict_f1"] or 0.0,
            int(row.measures["mentions"] or 0),
        )
        for row in chosen(rows, part=UNSEEN)
    ]


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return gains by own sentences, every arm, what joining is worth, and the curves."""
    points = points_of(rows)
    lost = len(tasks(inputs)) - sum(not arms.missing_arms(each, points) for each in tasks(inputs))
    missing = (f"{lost:,} cells are missing",) if lost else ()
    number = REHEARSED_RESAMPLES if inputs.is_rehearsal else RESAMPLES
    found = tuple(_table(each) for each in tables(points, unseen_of(rows), number))
    return Shown(found, (_curves(points),), (CHOICE, PAIRING, *missing))


def _table(held: Lines) -> Table:
    return Table(held.name, held.title, held.head, held.rows)


def _curves(points: Sequence[Point]) -> Figure:
    """Return F1 by own sentences of every newcomer, alone and joined."""
    return Figure("joining", "A newcomer that only receives", tuple(_panels(points)))


def _panels(points: Sequence[Point]) -> Iterator[Panel]:
    for newcomer in NEWCOMERS:
        own = [each for each in points if each.newcomer == newcomer]
        sizes = [size for size in (0, *SIZES, ALL) if any(each.size == size for each in own)]
        series = tuple(
            Series(
                label,
                tuple(
                    estimate([each.f1 for each in own if (each.size, each.arm) == (size, arm)])
                    for size in sizes
                ),
            )
            for arm, label in SERIES.items()
        )
        marks = tuple("all" if size == ALL else str(size) for size in sizes)
        if marks:
            yield Panel(NAMES[newcomer], marks, series, "own sentences")


JOINING_STUDY = Reproduction(
    name="joining",
    source="beyond both papers",
    title="a newcomer that receives a shared model and sends nothing",
    layout="own",
    corpora=(),
    stages=(partner_cells, newcomer_cells),
    run=run,
    show=show,
    needs=frozenset({"words", "context"}),
    settings=(PARTNERS_WORDS, NEWCOMER_WORDS, SEED_WORDS),
    repeats=len(SEEDS),
)
