"""Which settings suit partners and newcomers, on newcomers that `joining` never scores.

The science is that of `fedner.experiments.joining.settings_trial`; a cell is one way in which the
partners of one newcomer train, with all settings of that newcomer after it.
"""

from collections.abc import Sequence

from fedner.experiments.joining.settings_trial import (
    NEWCOMERS,
    PULLS,
    RATES,
    SIZES,
    WAYS,
    Partners,
    platforms,
    run_trial,
)
from fedner.experiments.joining.study import PARTNER_DROPOUT, PARTNER_RATE
from fedner.reproduce.bench import Bench
from fedner.reproduce.estimates import chosen, estimate, estimated
from fedner.reproduce.joining_world import require_corpora, world_for
from fedner.reproduce.reproduction import (
    Cell,
    Entry,
    Estimate,
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

COST = 250.0
SEEDS_FROM = 100
NAMES = {"ncbi": "NCBI-disease", "ex-ptm": "Ex-PTM"}
USUAL = {"partners_rate": PARTNER_RATE, "partners_dropout": PARTNER_DROPOUT}
NEWCOMER_WORDS = (
    f"Newcomers: {NAMES['ncbi']}, whose type partners have, and {NAMES['ex-ptm']}, whose type "
    f"nobody has, with {SIZES[0]} and {SIZES[1]} sentences of their own. None of them is scored by "
    "`joining`."
)
GRID_WORDS = (
    f"Learning rates {', '.join(f'{each:g}' for each in RATES)}; pulls (a decay towards the "
    f"received weights) {', '.join(str(each) for each in PULLS)}. The rest as in `joining`."
)
PARTNERS_NOTE = (
    f"Partners train with a learning rate of {PARTNER_RATE:g} and dropout {PARTNER_DROPOUT:g}. The "
    "best of several is a little too good."
)
SEED_WORDS = f"Repeat 1 is seed {SEEDS_FROM + 1}: `joining` has others."


def seeds_of(inputs: Inputs) -> tuple[int, ...]:
    """Return the seeds of all repeats."""
    return tuple(SEEDS_FROM + repeat for repeat in inputs.seeds)


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return a cell for every way of partners and newcomer: all repeats train as one stack.

    Raises:
        FednerError: There are no corpora.
    """
    require_corpora(inputs)
    return [_cell(newcomer, way, inputs) for newcomer in NEWCOMERS for way in WAYS]


def _cell(newcomer: str, way: tuple[float, float], inputs: Inputs) -> Cell:
    rate, dropout = way
    seeds = seeds_of(inputs)
    factors: dict[str, Factor] = {
        "newcomer": newcomer,
        "partners_rate": rate,
        "partners_dropout": dropout,
    }
    key = f"{newcomer}/rate-{rate:g}/dropout-{dropout:g}/seeds-{seeds[0]}-{seeds[-1]}"
    return Cell(key, factors, COST)


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train partners in one way, then a newcomer in all settings."""
    factors = cell.factors
    trial = Partners(
        str(factors["newcomer"]),
        float(factors["partners_rate"]),
        float(factors["partners_dropout"]),
    )
    world = world_for(bench, platforms())
    return [
        Row(
            {
                **factors,
                "size": each.size,
                "repeat": each.seed,
                "learning_rate": each.learning_rate,
                "pull": each.pull,
            },
            {"strict_f1": each.f1},
        )
        for each in run_trial(trial, world, seeds_of(bench.inputs))
    ]


def show(rows: Rows, _inputs: Inputs) -> Shown:
    """Return F1 by pull and by the partners' settings, and curves by pull."""
    return Shown((_by_pull(rows), _by_partners(rows)), (_curves(rows),))


def _best(rows: Rows, newcomer: str, size: int, pull: float) -> tuple[float, Estimate] | None:
    """Return the best learning rate of a pull with what it came to; partners as in `joining`."""
    found = [
        (rate, held)
        for rate in RATES
        if (
            held := estimated(
                chosen(rows, **USUAL),
                "strict_f1",
                newcomer=newcomer,
                size=size,
                pull=pull,
                learning_rate=rate,
            )
        )
    ]
    return max(found, key=lambda each: each[1].mean, default=None)


def _by_pull(rows: Rows) -> Table:
    lines: list[tuple[Entry, ...]] = []
    for size in SIZES:
        for newcomer in NEWCOMERS:
            found = {pull: _best(rows, newcomer, size, pull) for pull in PULLS}
            held = {pull: each for pull, each in found.items() if each is not None}
            best = max(held, key=lambda pull: held[pull][1].mean, default=None)
            named = None if best is None else f"{held[best][0]:g}, pull {best}"
            scores = (each and each[1] for each in found.values())
            lines.append((f"{NAMES[newcomer]}, {size}", *scores, named))
    heads = (f"pull {each}" for each in PULLS)
    return Table(
        "joining-settings",
        "Strict F1 of newcomers by pull, each with the best of its learning rates",
        ("newcomer, own sentences", *heads, "best learning rate"),
        tuple(lines),
        (PARTNERS_NOTE,),
        digits=1,
    )


def _by_partners(rows: Rows) -> Table:
    """Return F1 by the partners' settings: the mean over all settings of the newcomer."""
    lines = []
    for rate, dropout in WAYS:
        own = chosen(rows, partners_rate=rate, partners_dropout=dropout)
        by_newcomer = [_mean_of(chosen(own, newcomer=each)) for each in NEWCOMERS]
        lines.append((f"{rate:g}, dropout {dropout:g}", *by_newcomer, _mean_of(own)))
    return Table(
        "joining-settings-partners",
        "Strict F1 by the partners' settings",
        ("partners' learning rate", *(NAMES[each] for each in NEWCOMERS), "both"),
        tuple(lines),
        ("Means over all sizes, learning rates and pulls of the newcomers.",),
        digits=1,
    )


def _mean_of(rows: Rows) -> Estimate | None:
    """Return the estimate over repeats of the mean over everything else."""
    repeats = sorted({row.factors["repeat"] for row in rows})
    means = []
    for repeat in repeats:
        held = [row.measures["strict_f1"] or 0.0 for row in chosen(rows, repeat=repeat)]
        means.append(sum(held) / len(held))
    return estimate(means)


def _curves(rows: Rows) -> Figure:
    panels = []
    for newcomer in NEWCOMERS:
        series = []
        for size in SIZES:
            found = (_best(rows, newcomer, size, pull) for pull in PULLS)
            points = tuple(each and each[1] for each in found)
            series.append(Series(f"{size} own sentences", points))
        marks = tuple(map(str, PULLS))
        panels.append(Panel(NAMES[newcomer], marks, tuple(series), "pull"))
    return Figure("joining-settings", "A pull towards the received weights", tuple(panels))


JOINING_SETTINGS = Reproduction(
    name="joining-settings",
    source="beyond both papers",
    title="which settings suit a newcomer and its partners, on newcomers of no other study",
    layout="own",
    corpora=(),
    stages=(cells,),
    run=run,
    show=show,
    needs=frozenset({"words", "context"}),
    settings=(NEWCOMER_WORDS, GRID_WORDS, SEED_WORDS),
    repeats=3,
)
