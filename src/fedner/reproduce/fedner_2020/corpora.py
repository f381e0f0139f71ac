"""Table 1: statistics of the corpora, with both readings of "entities": distinct strings, mentions.

The paper's 4,785 entities of ADE Corpus V2 are distinct strings of all types, case kept; its 4,484
sentences are 4,271 and, counted twice, the 213 with a dosage. "341 overlapping entities": distinct
strings that at least two of its corpora have.
"""

from collections.abc import Sequence

from fedner.corpus.prepare import prepare
from fedner.corpus.shared_entities import overlap
from fedner.reproduce.bench import Bench
from fedner.reproduce.estimates import estimated
from fedner.reproduce.fedner_2020.protocol import CORPORA
from fedner.reproduce.reproduction import (
    Cell,
    Entry,
    Inputs,
    Reproduction,
    Row,
    Rows,
    Shown,
    Table,
)

PUBLISHED = {"cadec": (7597, 4331), "ade": (4484, 4785), "smm4h": (2213, 1209)}
PUBLISHED_OVERLAP = 341
ALL = "at least two"
COUNTED = (
    "The paper's entities are distinct strings; sentences of ADE Corpus V2 that have a dosage are "
    "counted twice there. ADR of CADEC and SMM4H is called ADE, as in the paper."
)
COUNTS = {
    "sentences": "sentences",
    "documents": "documents",
    "strings": "entities: distinct strings",
    "mentions": "entities: mentions",
    "kept_mentions": "mentions after flattening",
    "shared_strings": "strings that another platform has",
    "shared_mentions": "mentions of those",
}


def cells(_inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return the one cell: everything is counted at once."""
    return [Cell("counts", {"repeat": 0}, 0.1)]


def run(_cell: Cell, bench: Bench) -> list[Row]:
    """Count every platform by itself, and what they have in common."""
    inputs = bench.inputs
    held = {name: prepare(bench.corpus(name)).sentences for name in inputs.names}
    common = overlap(held)
    shared = {each.platform: each for each in common.platforms}
    rows = [
        Row(
            {"platform": each.name},
            {
                **{name: float(each.counts[name]) for name in each.counts},
                "shared_strings": float(shared[each.name].shared_strings),
                "shared_mentions": float(shared[each.name].shared_mentions),
            },
        )
        for each in inputs.platforms
    ]
    total = {"strings": float(common.strings), "mentions": float(common.mentions)}
    return [*rows, Row({"platform": ALL}, total)]


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return Table 1 and the strings in common."""
    table = Table(
        "fedner-table1",
        "Table 1: the corpora, counted",
        ("platform", "types", *COUNTS.values()),
        tuple(_row(rows, inputs, name) for name in inputs.names),
        (COUNTED,),
        digits=0,
    )
    is_papers = set(inputs.names) == {*PUBLISHED}
    common: tuple[Entry, ...] = (
        ALL,
        estimated(rows, "strings", float(PUBLISHED_OVERLAP) if is_papers else None, platform=ALL),
        estimated(rows, "mentions", platform=ALL),
    )
    both = Table(
        "fedner-table1-overlap",
        "Entity strings that platforms have in common (lower case)",
        ("platforms", "distinct strings", "mentions of those"),
        (common,),
        digits=0,
    )
    return Shown((table, both))


def _row(rows: Rows, inputs: Inputs, name: str) -> tuple[Entry, ...]:
    published = dict(zip(("sentences", "strings"), PUBLISHED.get(name, ()), strict=False))
    counts: Sequence[Entry] = [
        estimated(rows, count, _as_float(published.get(count)), platform=name) for count in COUNTS
    ]
    return name, ", ".join(inputs.platform(name).labels), *counts


def _as_float(value: int | None) -> float | None:
    return None if value is None else float(value)


TABLE1 = Reproduction(
    name="fedner-table1",
    source="Ge et al. 2020",
    title="Table 1: statistics of the corpora",
    layout="federation",
    corpora=CORPORA,
    stages=(cells,),
    run=run,
    show=show,
    repeats=1,
    least_platforms=2,
)
