"""Table 2: seven baseline models and FedNER on every corpus, strict and relaxed.

Beyond the paper: the same pair with the strong baseline, and the gain of FedNER over each, paired
by seed.
"""

from fedner.reproduce.bench import Bench
from fedner.reproduce.estimates import estimated, gain_between
from fedner.reproduce.fedner_2020 import published
from fedner.reproduce.fedner_2020.protocol import (
    FEDNER,
    RECIPE,
    STRONG,
    STRONG_ALONE,
    STRONG_FEDNER,
    WEAK,
    alone_rows,
    alone_work,
    fedner_rows,
    fedner_work,
    paper_tables,
    strong_cost,
    strong_rows,
    strong_work,
    thousands,
    trained_study,
)
from fedner.reproduce.reproduction import (
    Cell,
    Entry,
    Factor,
    Inputs,
    Row,
    Rows,
    Shown,
    Table,
)

BASELINES = (
    "CNN-CRF",
    "LSTM-CRF",
    "GRAM-CNN",
    "CNN-LSTM-CRF",
    "S-LSTM-CRF",
    "CNN-CLSTM-CRF",
    RECIPE,
)
MODELS = (*BASELINES, FEDNER, STRONG_ALONE, STRONG_FEDNER)
PAIR = "strong"
MEASURES = {
    "strict_f1": "strict F1",
    "strict_precision": "strict precision",
    "strict_recall": "strict recall",
    "relaxed_f1": "relaxed F1",
    "relaxed_precision": "relaxed precision",
    "relaxed_recall": "relaxed recall",
}


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return a cell for every model, platform and seed; a federation is one for all platforms."""
    found = []
    for seed in inputs.seeds:
        for model in BASELINES:
            for platform in inputs.names:
                factors: dict[str, Factor] = {
                    "way": "alone",
                    "model": model,
                    "platform": platform,
                    "repeat": seed,
                }
                key = f"{model}/{platform}/repeat-{seed}"
                work = alone_work(model, platform, seed)
                found.append(Cell(key, factors, thousands(inputs, platform), work))
        key, work = f"{FEDNER}/repeat-{seed}", fedner_work(RECIPE, "fedner", seed)
        found.append(Cell(key, {"way": FEDNER, "repeat": seed}, thousands(inputs), work))
    return found


def strong_cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return the strong pair of every seed, which takes longest and comes last."""
    cost = strong_cost(inputs)
    return [
        Cell(f"{PAIR}/repeat-{seed}", {"way": PAIR, "repeat": seed}, cost, strong_work(seed))
        for seed in inputs.seeds
    ]


def run(cell: Cell, bench: Bench) -> list[Row]:
    """Train one model on one platform, or a federation."""
    if cell.factors["way"] == PAIR:
        return strong_rows(bench, cell)
    if cell.factors["way"] == FEDNER:
        return fedner_rows(bench, cell, paper_tables(bench.inputs))
    model, platform = str(cell.factors["model"]), str(cell.factors["platform"])
    tables = paper_tables(bench.inputs, model, "nothing")
    return alone_rows(bench, model, platform, int(cell.factors["repeat"]), tables)


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return Table 2 in short, in full for each platform, and the gains."""
    wide = Table(
        "fedner-table2",
        "Table 2: strict F1 / relaxed F1 of every model",
        ("model", *(f"{name}: {kind}" for name in inputs.names for kind in ("strict", "relaxed"))),
        tuple(_wide_row(rows, inputs, model) for model in MODELS),
    )
    full = [
        Table(
            f"fedner-table2-{name}",
            f"Table 2, {name}: strict and relaxed F1, precision, recall",
            ("model", *MEASURES.values()),
            tuple(_full_row(rows, name, model) for model in MODELS),
        )
        for name in inputs.names
    ]
    gains = Table(
        "fedner-table2-gain",
        "Gain of FedNER over training alone, strict F1, paired by seed",
        ("platform", "over ELMoNER (weak baseline)", "over ELMoNER (strong baseline)"),
        tuple(_gain_row(rows, name) for name in inputs.names),
    )
    return Shown((wide, *full, gains))


def _wide_row(rows: Rows, inputs: Inputs, model: str) -> tuple[Entry, ...]:
    return model, *(
        estimated(rows, measure, published.table2(name, model, measure), model=model, platform=name)
        for name in inputs.names
        for measure in ("strict_f1", "relaxed_f1")
    )


def _full_row(rows: Rows, name: str, model: str) -> tuple[Entry, ...]:
    return model, *(
        estimated(rows, measure, published.table2(name, model, measure), model=model, platform=name)
        for measure in MEASURES
    )


def _gain_row(rows: Rows, name: str) -> tuple[Entry, ...]:
    pairs = ((RECIPE, FEDNER), (STRONG_ALONE, STRONG_FEDNER))
    return name, *(
        gain_between(rows, {"platform": name}, "model", before, after) for before, after in pairs
    )


TABLE2 = trained_study(
    "fedner-table2",
    "Table 2: all models on all corpora",
    (cells, strong_cells),
    run,
    show,
    WEAK,
    STRONG,
)
