"""Figure 5: does the gain come from entities that platforms have in common? These are masked.

Strings in common are counted on the training parts. The paper does not say how it masks: here the
words of a mention become one unknown word, its label stays (`corpus.shared_entities`). Baseline and
federation train on the same masked sentences; test parts stay as they are.
"""

import shutil
from pathlib import Path
from typing import Any

from fedner.corpus.sentence import Sentence
from fedner.corpus.shared_entities import mask_shared
from fedner.corpus.writers.jsonl import write_documents
from fedner.reproduce.bench import Bench, merged
from fedner.reproduce.estimates import estimated, gain_between, series_along
from fedner.reproduce.fedner_2020.protocol import (
    FEDNER,
    RECIPE,
    WEAK,
    alone_rows,
    fedner_rows,
    paper_tables,
    thousands,
    trained_study,
)
from fedner.reproduce.inputs import as_documents
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
from fedner.runs.platform_data import load_platform

RATIOS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MODELS = (RECIPE, FEDNER)
MASKING = (
    "masking: of the strings (lower case) that mentions of two platforms' training parts have in "
    "common, a share drawn by the seed; every word of their annotated mentions becomes one unknown "
    "word and keeps its tag (how it masks is not stated in the paper). Baselines and federation "
    "train on the same masked sentences; test parts are not masked"
)


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return a cell for every ratio and seed: all baselines and the federation on one masking."""
    return [
        Cell(
            f"masked-{ratio:g}/repeat-{seed}",
            {"ratio": ratio, "repeat": seed},
            2 * thousands(inputs),
        )
        for seed in inputs.seeds
        for ratio in RATIOS
    ]


def run(cell: Cell, bench: Bench) -> list[Row]:
    """Mask, then train every platform alone and all together."""
    seed, inputs = int(cell.factors["repeat"]), bench.inputs
    folder = inputs.out / "under-way" / f"data-{cell.key.replace('/', '-')}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        platforms, masked = _masked(bench, seed, float(cell.factors["ratio"]), folder)
        own = {"embeddings": {"cache": str(folder / "features")}}  # of no other cell
        alone = merged(paper_tables(inputs, RECIPE, "nothing"), own)
        rows = [
            row
            for name in inputs.names
            for row in alone_rows(bench, RECIPE, name, seed, alone, platforms)
        ]
        rows += fedner_rows(bench, cell, merged(paper_tables(inputs), own), platforms)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [
        Row(row.factors, {**row.measures, "masked_mentions": masked[str(row.factors["platform"])]})
        for row in rows
    ]


def _masked(
    bench: Bench, seed: int, ratio: float, folder: Path
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Write the platforms' masked training parts and their test parts.

    Returns:
        The platforms that read them, and how many mentions were masked on each.
    """
    settings = bench.settings(seed, paper_tables(bench.inputs))
    data = {
        entry.name: load_platform(entry, seed, corpus=_in_memory(bench, entry.name))
        for entry in settings.platforms
    }
    training = {name: held.train_sentences for name, held in data.items()}
    found = mask_shared(training, ratio, seed, "unknown word")
    entries = []
    for name, held in data.items():
        parts = {"train": list(found.platforms[name]), "test": list(held.test_sentences)}
        paths = {part: _write(folder, name, part, each, bench) for part, each in parts.items()}
        entry = bench.entry(name, data=str(paths["train"]))
        entry["split"] = {"by": "sentence", "test_data": str(paths["test"])}
        entries.append(entry)
    return entries, {name: float(each.mentions) for name, each in found.counts.items()}


def _in_memory(bench: Bench, name: str) -> Any:
    return None if bench.inputs.platform(name).test_data else bench.corpus(name)


def _write(folder: Path, name: str, part: str, sentences: list[Sentence], bench: Bench) -> Path:
    path = folder / f"{name}-{part}.jsonl"
    labels = bench.inputs.platform(name).labels
    write_documents(path, as_documents(sentences), name=name, labels=labels)
    return path


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return Figure 5 for every platform, its numbers, and the gain by ratio."""
    figure = Figure(
        "fedner-figure5",
        "Figure 5: masking the entities that platforms have in common",
        tuple(_panel(rows, name) for name in inputs.names),
    )
    marks = tuple(f"{ratio:.0%}" for ratio in RATIOS)
    table = Table(
        "fedner-figure5",
        "Figure 5: strict F1 by share of masked entity strings",
        ("platform, model", *marks),
        tuple(_row(rows, name, model) for name in inputs.names for model in MODELS),
    )
    gains = Table(
        "fedner-figure5-gain",
        "Gain of FedNER over training alone by share of masked strings, strict F1, paired by seed",
        ("platform", *marks),
        tuple(_gains(rows, name) for name in inputs.names),
    )
    masked = Table(
        "fedner-figure5-masked",
        "Mentions that were masked in the training parts",
        ("platform", *marks),
        tuple(
            (
                name,
                *(
                    estimated(rows, "masked_mentions", platform=name, model=FEDNER, ratio=ratio)
                    for ratio in RATIOS
                ),
            )
            for name in inputs.names
        ),
        digits=0,
    )
    return Shown((gains, table, masked), (figure,))


def _panel(rows: Rows, name: str) -> Panel:
    series = tuple(
        series_along(rows, model, [_place(name, ratio) | {"model": model} for ratio in RATIOS])
        for model in MODELS
    )
    marks = tuple(f"{ratio:.0%}" for ratio in RATIOS)
    return Panel(name, marks, series, "masked share of the entity strings in common")


def _row(rows: Rows, name: str, model: str) -> tuple[Entry, ...]:
    return f"{name}, {model}", *(
        estimated(rows, "strict_f1", platform=name, model=model, ratio=ratio) for ratio in RATIOS
    )


def _gains(rows: Rows, name: str) -> tuple[Entry, ...]:
    return name, *(
        gain_between(rows, _place(name, ratio), "model", RECIPE, FEDNER) for ratio in RATIOS
    )


def _place(name: str, ratio: float) -> dict[str, Factor]:
    return {"platform": name, "ratio": ratio}


FIGURE5 = trained_study(
    "fedner-figure5",
    "Figure 5: masking 0 to 100 % of the entities in common",
    (cells,),
    run,
    show,
    WEAK,
    MASKING,
)
