"""Pretrained encoders, frozen, with adapters, or trained whole: alone, with FedNER, and joined.

Every `--context` is an encoder: a Hugging Face folder, such as MiniLM and gte-small; others (Flair,
ELMo) can only be frozen. Frozen is FedNER on frozen features (ELMoNER). Joined: a platform with few
sentences of its own receives the encoder that the others trained, and sends nothing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedner.reproduce.bench import Bench, score_measures
from fedner.reproduce.beyond.encoder_plans import (
    ADAPTED,
    COST,
    ENCODER_WORDS,
    ROUNDS,
    WHOLE,
    encoder_tables,
    is_trainable,
    rehearsal_encoder,
)
from fedner.reproduce.beyond.joining_later import KEPT, TRAININGS, Newcomer, joined_rows
from fedner.reproduce.beyond.plans import EPOCHS as FROZEN_EPOCHS
from fedner.reproduce.beyond.plans import (
    FEDNER_WORDS,
    FINETUNE_EPOCHS,
    LOCAL_WORDS,
    MEAN,
    cost_of,
    fedner_tables,
    mean_f1,
    rows_of,
)
from fedner.reproduce.estimates import estimate, values_of
from fedner.reproduce.reproduction import (
    Cell,
    Entry,
    Estimate,
    Factor,
    Figure,
    Inputs,
    Panel,
    PlatformInput,
    Reproduction,
    Row,
    Rows,
    Series,
    Shown,
    Table,
)

FROZEN = "frozen"
WAYS = (FROZEN, ADAPTED, WHOLE)
ALONE, FEDNER, JOINED = "alone", "FedNER", "joined"
OWN, REHEARSED_OWN = 400, 12
LOCAL = "local-only"  # the newcomer's own best with as few sentences
JOINED_WORDS = (
    f"Joined: a platform with {OWN} sentences of its own. The others train as FedNER does; it "
    "receives their shared encoder, begins its head afresh and keeps what is best by three folds: "
    "joined, local-only, or their average; few settings are tried."
)
FEW_WORDS = (
    f"The last two: a platform with {OWN} sentences, its own best and what it keeps of joined, "
    "local-only and their average."
)


def encoders(inputs: Inputs) -> dict[str, str]:
    """Return the encoders by name; a rehearsal has one of random weights."""
    if inputs.is_rehearsal:
        made = rehearsal_encoder(inputs.out / "cache")
        return {Path(made).name: made}
    found: dict[str, str] = {}
    for each in (inputs.context, *inputs.more_contexts):
        if each != "none":
            name = each.rstrip("/").rpartition("/")[2]
            found[name if name not in found else f"{name} ({len(found) + 1})"] = each
    return found


def ways(context: str) -> tuple[str, ...]:
    """Return how an encoder can be used."""
    return WAYS if is_trainable(context) else (FROZEN,)


def members(inputs: Inputs) -> tuple[PlatformInput, ...]:
    """Return the platforms; a rehearsal has two."""
    return inputs.platforms[:2] if inputs.is_rehearsal else inputs.platforms


def scored(inputs: Inputs) -> tuple[str, ...]:
    """Return the platforms that are alone or join; in a rehearsal one of them."""
    names = tuple(each.name for each in members(inputs))
    return names[:1] if inputs.is_rehearsal else names


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return all ways of all encoders, whole repeats one after the other."""
    return [
        cell
        for seed in inputs.seeds
        for name, context in encoders(inputs).items()
        for way in ways(context)
        for cell in _of(inputs, (name, int(is_trainable(context))), way, seed)
    ]


def _of(inputs: Inputs, named: tuple[str, int], way: str, seed: int) -> list[Cell]:
    encoder, trainable = named
    held: dict[str, Factor] = {"encoder": encoder, "trainable": trainable, "way": way}
    held["repeat"] = seed
    where = f"{encoder}/{way}/repeat-{seed}"
    whole = _cost(inputs, way)
    found = [Cell(f"{FEDNER}/{where}", {**held, "arm": FEDNER}, whole)]
    factor = 1.0 if way == FROZEN else COST
    newcomer = OWN * 20 / 1000 * TRAININGS * factor
    for name in scored(inputs):
        own: dict[str, Factor] = {**held, "platform": name}
        alone = 2.5 * _cost(inputs, way, (name,))
        found.append(Cell(f"{ALONE}/{name}/{where}", {**own, "arm": ALONE}, alone))
        found.append(Cell(f"{JOINED}/{name}/{where}", {**own, "arm": JOINED}, whole + newcomer))
    return found


def _cost(inputs: Inputs, way: str, names: Sequence[str] | None = None) -> float:
    if way == FROZEN:
        return cost_of(inputs, FROZEN_EPOCHS + FINETUNE_EPOCHS, names)
    return cost_of(inputs, ROUNDS, names) * COST


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train a federation, a platform by itself, or one that joins the others."""
    inputs, arm = bench.inputs, cell.factors["arm"]
    seed, names = int(cell.factors["repeat"]), [each.name for each in members(bench.inputs)]
    tables = tables_of(inputs, str(cell.factors["way"]), _path(inputs, cell.factors))
    settings = bench.settings(seed, tables, [bench.entry(each) for each in names])
    if arm == FEDNER:
        return rows_of(bench.federated(cell.key, settings), cell.factors)
    name = str(cell.factors["platform"])
    if arm == ALONE:
        return [Row(cell.factors, score_measures(bench.local_only(settings, name)))]
    others = [bench.entry(each) for each in names if each != name]
    partners = bench.settings(seed, _without_finetuning(tables), others)
    own = REHEARSED_OWN if inputs.is_rehearsal else OWN
    newcomer = Newcomer(bench.entry(name), own, own=own)
    return joined_rows(bench, cell.key, cell.factors, partners, newcomer)


def _path(inputs: Inputs, factors: Mapping[str, Factor]) -> str:
    return encoders(inputs)[str(factors["encoder"])]


def tables_of(inputs: Inputs, way: str, context: str) -> dict[str, Any]:
    """Return the settings of one way to use an encoder."""
    if way == FROZEN:
        found = fedner_tables(inputs, {"embeddings": {"context": context}})
        return {**found, "model": {**found["model"], "recipe": "ELMoNER"}}
    limit = {"training": {"baseline_epochs": 20}}
    return encoder_tables(inputs, way, context, limit)


def _without_finetuning(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the partners' settings: nobody receives what they fine-tune at home."""
    return {**tables, "training": {**tables["training"], "finetune_epochs": 0}}


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return F1 by encoder and way: alone, with FedNER, and of those that join."""
    return Shown(
        (_means(rows, inputs), _by_platform(rows, inputs)), (_bars(rows, inputs),), _notes(rows)
    )


def _notes(rows: Rows) -> tuple[str, ...]:
    return tuple(
        f"{name} is no Hugging Face encoder: frozen only."
        for name, is_trained in _found(rows).items()
        if not is_trained
    )


def _found(rows: Rows) -> dict[str, bool]:
    """Return the encoders of the rows, and whether each can be trained."""
    return {str(row.factors["encoder"]): bool(row.factors["trainable"]) for row in rows}


def _lines(rows: Rows) -> list[tuple[str, str]]:
    """Return all encoders and ways; one that was not run yet has lines of missing entries."""
    return [
        (name, way)
        for name, is_trained in sorted(_found(rows).items())
        for way in (WAYS if is_trained else (FROZEN,))
    ]


def _mean_over(rows: Rows, inputs: Inputs, factors: Mapping[str, Factor]) -> Estimate | None:
    """Return the mean over the platforms of each repeat; None until all platforms have it."""
    by_platform = [
        {row.factors["repeat"]: row.measures["strict_f1"] for row in rows if _has(row, each)}
        for each in ({**factors, "platform": name} for name in scored(inputs))
    ]
    common = sorted(set.intersection(*(set(each) for each in by_platform)))
    means = [
        sum(each[repeat] or 0.0 for each in by_platform) / len(by_platform) for repeat in common
    ]
    return estimate(means)


def _has(row: Row, factors: Mapping[str, Factor]) -> bool:
    return factors.items() <= row.factors.items()


_COLUMNS: tuple[tuple[str, dict[str, Factor]], ...] = (
    ("alone", {"arm": ALONE}),
    ("FedNER", {"arm": FEDNER}),
    (f"alone, {OWN} sentences", {"arm": JOINED, "method": LOCAL}),
    (f"joined, {OWN} sentences", {"arm": JOINED, "method": KEPT}),
)


def _means(rows: Rows, inputs: Inputs) -> Table:
    lines: list[tuple[Entry, ...]] = []
    for encoder, way in _lines(rows):
        held: dict[str, Factor] = {"encoder": encoder, "way": way}
        found = [_mean_over(rows, inputs, {**held, **factors}) for _, factors in _COLUMNS]
        sent = values_of(rows, "bytes_up", **held, arm=FEDNER, platform=MEAN)
        up = None if not sent else f"{sum(sent) / len(sent) / 1e6:,.3g}"
        lines.append((encoder, way, *found, up))
    return Table(
        "encoders",
        "Mean strict F1 over the platforms, by encoder and how it is used",
        ("encoder", "used", *(name for name, _ in _COLUMNS), "FedNER: up, MB"),
        tuple(lines),
        (FEW_WORDS,),
    )


def _by_platform(rows: Rows, inputs: Inputs) -> Table:
    lines: list[tuple[Entry, ...]] = []
    for encoder, way in _lines(rows):
        for name, factors in _COLUMNS:
            held: dict[str, Factor] = {"encoder": encoder, "way": way, **factors}
            found = (mean_f1(rows, {**held, "platform": each}) for each in scored(inputs))
            lines.append((encoder, way, name, *found))
    return Table(
        "encoders-platforms",
        "Strict F1 by platform",
        ("encoder", "used", "trained", *scored(inputs)),
        tuple(lines),
    )


def _bars(rows: Rows, inputs: Inputs) -> Figure:
    places = _lines(rows)
    series = tuple(
        Series(
            label,
            tuple(
                _mean_over(rows, inputs, {"encoder": encoder, "way": way, **factors})
                for encoder, way in places
            ),
        )
        for label, factors in _COLUMNS
    )
    marks = tuple(f"{encoder}, {way}" for encoder, way in places)
    return Figure(
        "encoders", "Encoders and how they are used", (Panel("", marks, series, ""),), "bars"
    )


ENCODERS = Reproduction(
    name="encoders",
    source="beyond both papers",
    title="pretrained encoders, frozen, with adapters, whole: alone, with FedNER, joined",
    layout="federation",
    corpora=(("cadec", "ade", "smm4h"), ("ade", "psytar", "twimed")),
    stages=(cells,),
    run=run,
    show=show,
    needs=frozenset({"context"}),
    settings=(f"Frozen: {FEDNER_WORDS}", ENCODER_WORDS, LOCAL_WORDS, JOINED_WORDS),
    repeats=3,
)
