"""What joining gains in `fedner demo`: the same demonstration for seeds that nobody chose.

Every seed has its own synthetic texts, splits and first weights. The settings of the demo were
chosen on seeds 101 to 105, and seed 1 and seeds 11 to 13 were looked at; repeats have those that
follow 20.
"""

import shutil
import time
from collections.abc import Sequence

from fedner.reproduce.bench import Bench
from fedner.reproduce.estimates import chosen, estimate, paired_gain, values_of
from fedner.reproduce.reproduction import (
    Cell,
    Entry,
    Estimate,
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
from fedner.runs.demonstration import Demonstration, demonstration, let_join, train_together
from fedner.runs.joining.record import RECEIVED, Joined

FIRST_SEED = 21  # of the first repeat
COST = 30.0
ALONE, JOINED, KEPT = "local-only", "joined", "what is kept"
LABELS = {RECEIVED: "as received", ALONE: "alone", JOINED: "joined", KEPT: "kept"}
PLATFORMS_WORDS = (
    "Two built-in platforms of 3,000 synthetic sentences train one tagger together, its described "
    "head shared; the third has 25 annotated sentences, receives the model and sends nothing."
)
SCORES_WORDS = (
    "Strict F1 on 500 test sentences of patients whose texts nobody trained on. Alone is the "
    "better of both heads by cross-validation; what is kept is chosen in the same way."
)
SEED_WORDS = (
    f"Repeat 1 is seed {FIRST_SEED}: the settings were chosen on seeds 101 to 105; seeds 1 and 11 "
    "to 13 were looked at, too."
)


def seed_of(repeat: int) -> int:
    """Return the seed of a repeat.

    >>> seed_of(1)
    21
    """
    return FIRST_SEED + repeat - 1


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return a demonstration for every repeat."""
    return [Cell(f"repeat-{repeat}", {"repeat": repeat}, COST) for repeat in inputs.seeds]


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Run the demonstration of one seed in a folder of its own; one that was stopped goes on."""
    shown = _demonstration(cell, bench.inputs)
    began = time.process_time()
    train_together(shown)
    shutil.rmtree(shown.tagger, ignore_errors=True)  # of a joining that was stopped
    joined = let_join(shown)
    seconds = time.process_time() - began
    shutil.rmtree(shown.folder)
    return _rows_of(cell, joined, seconds)


def _demonstration(cell: Cell, inputs: Inputs) -> Demonstration:
    folder = inputs.out / "under-way" / cell.key
    seed = seed_of(int(cell.factors["repeat"]))
    if inputs.is_rehearsal:
        return demonstration(folder, seed, num_sentences=40, rounds=2, epochs=1)
    return demonstration(folder, seed)


def _rows_of(cell: Cell, joined: Joined, seconds: float) -> list[Row]:
    """Return a row for each tagger, and one for that which is kept."""
    f1 = {name: 100 * each.intervals.strict.value for name, each in joined.results.items()}
    rows = [Row({**cell.factors, "tagger": name}, {"strict_f1": f1[name]}) for name in f1]
    kept = {**cell.factors, "tagger": KEPT, "which": joined.kept}
    return [*rows, Row(kept, {"strict_f1": f1[joined.kept], "processor_seconds": seconds})]


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return F1 of every seed, what joining gains over all of them, and bars by seed."""
    return Shown((_by_seed(rows, inputs), _gains(rows)), (_bars(rows, inputs),))


def _by_seed(rows: Rows, inputs: Inputs) -> Table:
    lines: list[tuple[Entry, ...]] = []
    for repeat in inputs.seeds:
        own = chosen(rows, repeat=repeat)
        scores = [estimate(values_of(own, "strict_f1", tagger=each)) for each in LABELS]
        (kept,) = chosen(own, tagger=KEPT) or (None,)
        which = None if kept is None else str(kept.factors["which"])
        lines.append((str(seed_of(repeat)), *scores, which, _gain(own, KEPT)))
    return Table(
        "demo-seeds",
        "Strict F1 of the demo's newcomer by seed",
        ("seed", *LABELS.values(), "which that is", "gain of what is kept"),
        tuple(lines),
        digits=1,
    )


def _gains(rows: Rows) -> Table:
    """Return what is kept, and joined by itself, against alone, with the worst seed."""
    lines = []
    for tagger in (KEPT, JOINED):
        alone, after = (values_of(rows, "strict_f1", tagger=each) for each in (ALONE, tagger))
        worst = min((b - a for a, b in zip(alone, after, strict=True)), default=None)
        gain = _gain(rows, tagger)
        lines.append((LABELS[tagger], gain, None if worst is None else f"{worst:+.1f}"))
    seconds = values_of(rows, "processor_seconds", tagger=KEPT)
    most = f"{max(seconds, default=0.0):.0f} s"
    return Table(
        "demo-gains",
        "What joining gains in the demo",
        ("tagger", "gain over alone", "worst seed"),
        tuple(lines),
        (f"Processor time of a seed: at most {most}. The text is synthetic, of one generator.",),
        digits=1,
    )


def _gain(rows: Rows, tagger: str) -> Estimate | None:
    return paired_gain(rows, "strict_f1", {"tagger": ALONE}, {"tagger": tagger})


def _bars(rows: Rows, inputs: Inputs) -> Figure:
    series = tuple(
        Series(
            LABELS[tagger],
            tuple(
                estimate(values_of(rows, "strict_f1", tagger=tagger, repeat=repeat))
                for repeat in inputs.seeds
            ),
        )
        for tagger in (ALONE, KEPT)
    )
    marks = tuple(str(seed_of(repeat)) for repeat in inputs.seeds)
    return Figure(
        "demo", "The demo's newcomer, alone and joined", (Panel("", marks, series, "seed"),), "bars"
    )


DEMO = Reproduction(
    name="demo",
    source="beyond both papers",
    title="what joining gains in fedner demo, over seeds that nobody chose",
    layout="own",
    corpora=(),
    stages=(cells,),
    run=run,
    show=show,
    settings=(PLATFORMS_WORDS, SCORES_WORDS, SEED_WORDS),
    repeats=10,
)
