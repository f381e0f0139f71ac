"""One platform tags with BIOES and the others with BIO: does the federation mind?

Tags are private in FedNER, so that every platform may have a scheme of its own. Each platform in
turn has BIOES; all with BIO and all with BIOES stand beside it.
"""

from collections.abc import Sequence

from fedner.reproduce.bench import Bench
from fedner.reproduce.beyond.plans import FEDNER_WORDS, MEAN, cost_of, fedner_tables, rows_of
from fedner.reproduce.estimates import estimated, gain_between, series_along
from fedner.reproduce.reproduction import (
    Cell,
    Entry,
    Figure,
    Inputs,
    Panel,
    Reproduction,
    Row,
    Rows,
    Shown,
    Table,
)

ALL_BIO, ALL_BIOES = "all BIO", "all BIOES"
EVERYBODY = {ALL_BIO: "BIO", ALL_BIOES: "BIOES"}


def arms(names: Sequence[str]) -> list[str]:
    """Return who has BIOES: nobody, each platform in turn, everybody."""
    return [ALL_BIO, *(_alone(name) for name in names), ALL_BIOES]


def _alone(name: str) -> str:
    return f"BIOES at {name}"


def scheme_of(arm: str, name: str) -> str:
    """Return the tag scheme of a platform.

    >>> scheme_of("BIOES at ade", "ade"), scheme_of("BIOES at ade", "psytar")
    ('BIOES', 'BIO')
    """
    return EVERYBODY.get(arm) or ("BIOES" if arm == _alone(name) else "BIO")


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return a run for every arm and repeat, whole repeats one after the other."""
    cost = cost_of(inputs)
    return [
        Cell(f"{arm}/repeat-{seed}", {"arm": arm, "repeat": seed}, cost)
        for seed in inputs.seeds
        for arm in arms(inputs.names)
    ]


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train one federation."""
    arm = str(cell.factors["arm"])
    entries = [
        bench.entry(each, tag_scheme=scheme_of(arm, each.name)) for each in bench.inputs.platforms
    ]
    tables = fedner_tables(bench.inputs)
    settings = bench.settings(int(cell.factors["repeat"]), tables, entries)
    return rows_of(bench.federated(cell.key, settings), cell.factors)


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return F1 by arm and platform, and what a platform's own BIOES costs it and the others."""
    return Shown((_scores(rows, inputs), _changes(rows, inputs)), (_bars(rows, inputs),))


def _scores(rows: Rows, inputs: Inputs) -> Table:
    places = (*inputs.names, MEAN)
    lines = [
        (arm, *(estimated(rows, "strict_f1", arm=arm, platform=each) for each in places))
        for arm in arms(inputs.names)
    ]
    return Table(
        "schemes", "Strict F1 by who tags with BIOES", ("tags", *places), tuple(lines), digits=2
    )


def _changes(rows: Rows, inputs: Inputs) -> Table:
    """Return paired differences to all BIO: of the platform with BIOES, and of each other."""
    lines: list[tuple[Entry, ...]] = []
    for arm in arms(inputs.names)[1:]:
        found = [
            gain_between(rows, {"platform": each}, "arm", ALL_BIO, arm)
            for each in (*inputs.names, MEAN)
        ]
        lines.append((arm, *found))
    return Table(
        "schemes-differences",
        "Strict F1 against all BIO, paired by repeat",
        ("tags", *inputs.names, MEAN),
        tuple(lines),
        ("On the diagonal the platform that has BIOES itself; beside it what that costs others.",),
    )


def _bars(rows: Rows, inputs: Inputs) -> Figure:
    series = tuple(
        series_along(rows, arm, [{"arm": arm, "platform": each} for each in (*inputs.names, MEAN)])
        for arm in arms(inputs.names)
    )
    panel = Panel("", (*inputs.names, MEAN), series, "platform")
    return Figure("schemes", "One platform with BIOES", (panel,), "bars")


SCHEMES = Reproduction(
    name="schemes",
    source="beyond both papers",
    title="one platform tags with BIOES, the others with BIO",
    layout="federation",
    corpora=(("cadec", "ade", "smm4h"), ("ade", "psytar", "twimed")),
    stages=(cells,),
    run=run,
    show=show,
    settings=(FEDNER_WORDS,),
    repeats=5,
)
