"""Figure 6: every baseline model alone and under FedNER, each with its best partition.

The best of a model's partitions is chosen by the mean strict F1 of a seed that is in no row.
"""

from statistics import fmean

from fedner.models.zoo import recipe_named
from fedner.reproduce.bench import Bench
from fedner.reproduce.estimates import chosen, estimated, gain_between, series_along
from fedner.reproduce.fedner_2020.baselines import BASELINES
from fedner.reproduce.fedner_2020.protocol import (
    FEDNER,
    WEAK,
    alone_rows,
    alone_work,
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

PROBED_SEED = 1000
ALONE, UNDER, PROBE = "alone", "under FedNER", "probe"


def partitions_of(recipe: str) -> tuple[str, ...]:
    """Return the partitions of a model that differ: each shares one module more, never the head."""
    held = recipe_named(recipe)
    has = {"embeddings": held.characters, "fedner": held.widths, "encoder": held.lstm_layers}
    return tuple(name for name, module in has.items() if module)


def probes(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return the partitions of every model that has several, on a seed of their own."""
    return [
        Cell(
            f"{PROBE}/{model}/{shared}",
            {"way": PROBE, "model": model, "shared": shared, "repeat": PROBED_SEED},
            thousands(inputs),
        )
        for model in BASELINES
        for shared in partitions_of(model)
        if len(partitions_of(model)) > 1
    ]


def best_partition(rows: Rows, model: str) -> str:
    """Return the partition with the highest mean F1 of the probes; the first of equals."""
    tried = partitions_of(model)
    if len(tried) == 1:
        return tried[0]
    found = {
        shared: [
            row.measures["strict_f1"] or 0.0
            for row in chosen(rows, way=PROBE, model=model, shared=shared)
        ]
        for shared in tried
    }
    return max(tried, key=lambda shared: fmean(found[shared]) if found[shared] else -1.0)


def cells(inputs: Inputs, rows: Rows) -> list[Cell]:
    """Return every model alone on every platform, and under FedNER."""
    found = []
    for seed in inputs.seeds:
        for model in BASELINES:
            found += [
                Cell(
                    f"{ALONE}/{model}/{name}/repeat-{seed}",
                    {"way": ALONE, "model": model, "platform": name, "repeat": seed},
                    thousands(inputs, name),
                    alone_work(model, name, seed),
                )
                for name in inputs.names
            ]
            shared = best_partition(rows, model)
            factors: dict[str, Factor] = {
                "way": UNDER,
                "model": model,
                "shared": shared,
                "repeat": seed,
            }
            key = f"{FEDNER}/{model}/{shared}/repeat-{seed}"
            work = fedner_work(model, shared, seed)
            found.append(Cell(key, factors, thousands(inputs), work))
    return found


def run(cell: Cell, bench: Bench) -> list[Row]:
    """Train a model alone, or a federation of it."""
    model = str(cell.factors["model"])
    if cell.factors["way"] == ALONE:
        tables = paper_tables(bench.inputs, model, "nothing")
        name, seed = str(cell.factors["platform"]), int(cell.factors["repeat"])
        return alone_rows(bench, model, name, seed, tables)
    tables = paper_tables(bench.inputs, model, str(cell.factors["shared"]))
    return fedner_rows(bench, cell, tables, model=model)


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return Figure 6 for every platform, its numbers, and the gains."""
    figure = Figure(
        "fedner-figure6",
        "Figure 6: every model alone and under FedNER",
        tuple(_panel(rows, name) for name in inputs.names),
        "bars",
    )
    heads = (f"{name}: {each}" for name in inputs.names for each in (ALONE, UNDER, "gain"))
    table = Table(
        "fedner-figure6",
        "Figure 6: strict F1 alone and under FedNER, and the gain, paired by seed",
        ("model", "shared", *heads),
        tuple(_row(rows, inputs, model) for model in BASELINES),
        (f"shared: the best of a model's partitions by the mean of seed {PROBED_SEED}",),
    )
    return Shown((table,), (figure,))


def _panel(rows: Rows, name: str) -> Panel:
    series = tuple(
        series_along(rows, way, [_place(name, model) | {"way": way} for model in BASELINES])
        for way in (ALONE, UNDER)
    )
    return Panel(name, BASELINES, series, "model")


def _row(rows: Rows, inputs: Inputs, model: str) -> tuple[Entry, ...]:
    entries: list[Entry] = [model, best_partition(rows, model)]
    for name in inputs.names:
        place = _place(name, model)
        entries += [estimated(rows, "strict_f1", None, **place, way=way) for way in (ALONE, UNDER)]
        entries.append(gain_between(rows, place, "way", ALONE, UNDER))
    return tuple(entries)


def _place(name: str, model: str) -> dict[str, Factor]:
    return {"platform": name, "model": model}


FIGURE6 = trained_study(
    "fedner-figure6",
    "Figure 6: every baseline model under FedNER",
    (probes, cells),
    run,
    show,
    WEAK,
)
