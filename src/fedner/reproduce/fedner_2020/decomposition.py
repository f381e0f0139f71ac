"""Figure 4: what should be shared? From nothing to everything, the rest as in Algorithm 1."""

from fedner.reproduce.bench import Bench
from fedner.reproduce.estimates import estimated, series_along
from fedner.reproduce.fedner_2020.protocol import (
    RECIPE,
    fedner_rows,
    fedner_work,
    paper_tables,
    thousands,
    trained_study,
)
from fedner.reproduce.reproduction import (
    Cell,
    Entry,
    Factor,
    Figure,
    Inputs,
    Panel,
    Row,
    Rows,
    Shown,
    Table,
)

# Word vectors are frozen, so that sharing "words" alone would share nothing.
PARTITIONS = {
    "nothing": "nothing",
    "embeddings": "embeddings",
    "fedner": "+ word CNN (FedNER)",
    "encoder": "+ BiLSTM",
    "everything": "everything",
}
NOTES = (
    "nothing: each platform trains by itself, with the batches that it has in the federation",
    "everything: one tagger for the types of all platforms; what a platform does not annotate is O",
)
MEASURES = {"strict_f1": "strict F1", "relaxed_f1": "relaxed F1"}


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return a federation for every partition and seed."""
    return [
        Cell(
            f"{shared}/repeat-{seed}",
            {"shared": shared, "repeat": seed},
            thousands(inputs),
            fedner_work(RECIPE, shared, seed),
        )
        for seed in inputs.seeds
        for shared in PARTITIONS
    ]


def run(cell: Cell, bench: Bench) -> list[Row]:
    """Train one federation."""
    tables = paper_tables(bench.inputs, shared=str(cell.factors["shared"]))
    return fedner_rows(bench, cell, tables)


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return Figure 4 for every platform, and its numbers."""
    figure = Figure(
        "fedner-figure4",
        "Figure 4: FedNER with different model decompositions",
        tuple(_panel(rows, name) for name in inputs.names),
        "bars",
    )
    table = Table(
        "fedner-figure4",
        "Figure 4: strict F1 / relaxed F1 by what is shared",
        ("shared", *(f"{name}: {kind}" for name in inputs.names for kind in MEASURES.values())),
        tuple(_row(rows, inputs, shared) for shared in PARTITIONS),
        NOTES,
    )
    return Shown((table,), (figure,))


def _panel(rows: Rows, name: str) -> Panel:
    places: list[dict[str, Factor]] = [{"platform": name, "shared": each} for each in PARTITIONS]
    series = tuple(
        series_along(rows, label, places, measure) for measure, label in MEASURES.items()
    )
    return Panel(name, tuple(PARTITIONS.values()), series, "shared", "F1")


def _row(rows: Rows, inputs: Inputs, shared: str) -> tuple[Entry, ...]:
    return PARTITIONS[shared], *(
        estimated(rows, measure, platform=name, shared=shared)
        for name in inputs.names
        for measure in MEASURES
    )


FIGURE4 = trained_study(
    "fedner-figure4",
    "Figure 4: which modules are shared, from nothing to everything",
    (cells,),
    run,
    show,
)
