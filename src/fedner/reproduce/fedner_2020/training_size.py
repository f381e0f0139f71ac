"""Figure 3: does joining help more where there are fewer training sentences?

All platforms keep the same share of their training parts. Weak baseline and FedNER at every share,
as in the paper; the strong pair at the smallest and the largest.
"""

from fedner.reproduce.bench import Bench
from fedner.reproduce.estimates import estimated, gain_between, series_along
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
    kept,
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
    Figure,
    Inputs,
    Panel,
    Row,
    Rows,
    Shown,
    Table,
)

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
STRONG_SHARES = (0.2, 1.0)
ALONE, PAIR = "alone", "strong"
SHARES_WORDS = (
    "shares: every platform keeps the same share of its training part (whether the others shrink "
    "too is not stated in the paper); epochs stay, so that steps shrink with the sentences"
)
MODELS = (RECIPE, FEDNER, STRONG_ALONE, STRONG_FEDNER)


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return the weak baseline of all platforms and FedNER, at every share."""
    found = []
    for seed in inputs.seeds:
        for share in SHARES:
            factors = {"share": share, "repeat": seed}
            found += [
                Cell(
                    f"{ALONE}/{name}/{share:g}/repeat-{seed}",
                    {"way": ALONE, "platform": name, **factors},
                    share * thousands(inputs, name),
                    alone_work(RECIPE, name, seed) if share == 1 else "",
                )
                for name in inputs.names
            ]
            key = f"{FEDNER}/{share:g}/repeat-{seed}"
            work = fedner_work(RECIPE, "fedner", seed) if share == 1 else ""
            found.append(Cell(key, {"way": FEDNER, **factors}, share * thousands(inputs), work))
    return found


def strong_cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return the strong pairs."""
    return [
        Cell(
            f"{PAIR}/{share:g}/repeat-{seed}",
            {"way": PAIR, "share": share, "repeat": seed},
            share * strong_cost(inputs),
            strong_work(seed) if share == 1 else "",
        )
        for seed in inputs.seeds
        for share in STRONG_SHARES
    ]


def run(cell: Cell, bench: Bench) -> list[Row]:
    """Train at one share."""
    way, share = cell.factors["way"], float(cell.factors["share"])
    platforms = kept(bench, share)
    tables = paper_tables(bench.inputs)
    if way == ALONE:
        name, seed = str(cell.factors["platform"]), int(cell.factors["repeat"])
        alone = paper_tables(bench.inputs, RECIPE, "nothing")
        return alone_rows(bench, RECIPE, name, seed, alone, platforms)
    if way == PAIR:
        return strong_rows(bench, cell, platforms)
    return fedner_rows(bench, cell, tables, platforms)


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return Figure 3 for every platform, its numbers, and the gain by share."""
    figure = Figure(
        "fedner-figure3",
        "Figure 3: influence of the training data size",
        tuple(_panel(rows, name) for name in inputs.names),
    )
    tables = [
        Table(
            f"fedner-figure3-{name}",
            f"Figure 3, {name}: strict F1 by share of the training data",
            ("model", *(f"{share:.0%}" for share in SHARES)),
            tuple(_row(rows, name, model) for model in MODELS),
        )
        for name in inputs.names
    ]
    gains = Table(
        "fedner-figure3-gain",
        "Gain of FedNER over training alone by share, strict F1, paired by seed",
        ("platform", *(f"{share:.0%}" for share in SHARES), "20 %, strong", "100 %, strong"),
        tuple(_gains(rows, name) for name in inputs.names),
    )
    return Shown((gains, *tables), (figure,))


def _panel(rows: Rows, name: str) -> Panel:
    series = tuple(
        series_along(rows, model, [_place(name, share) | {"model": model} for share in SHARES])
        for model in MODELS
    )
    marks = tuple(f"{share:.0%}" for share in SHARES)
    return Panel(name, marks, series, "share of the training data")


def _row(rows: Rows, name: str, model: str) -> tuple[Entry, ...]:
    wanted = STRONG_SHARES if model in (STRONG_ALONE, STRONG_FEDNER) else SHARES
    return model, *(
        estimated(rows, "strict_f1", platform=name, model=model, share=share)
        if share in wanted
        else "-"
        for share in SHARES
    )


def _gains(rows: Rows, name: str) -> tuple[Entry, ...]:
    weak = [gain_between(rows, _place(name, each), "model", RECIPE, FEDNER) for each in SHARES]
    strong = [
        gain_between(rows, _place(name, each), "model", STRONG_ALONE, STRONG_FEDNER)
        for each in STRONG_SHARES
    ]
    return name, *weak, *strong


def _place(name: str, share: float) -> dict[str, Factor]:
    return {"platform": name, "share": share}


FIGURE3 = trained_study(
    "fedner-figure3",
    "Figure 3: influence of the training data size",
    (cells, strong_cells),
    run,
    show,
    WEAK,
    STRONG,
    SHARES_WORDS,
)
