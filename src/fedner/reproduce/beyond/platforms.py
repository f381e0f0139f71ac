"""From 2 to 50 platforms: what each reaches by itself, and what they reach together.

The same sentences are dealt to more and more platforms, so that each has less of them; all are
tested on one part. Beside it, the inputs as they are: platforms of different sizes and texts, as
the parts of the Broad Twitter Corpus. Every federation takes as many rounds, over about as many
sentences.
"""

from collections.abc import Sequence
from typing import Any

from fedner.reproduce.bench import Bench, score_measures
from fedner.reproduce.beyond.plans import (
    LOCAL_WORDS,
    MEAN,
    cost_of,
    fedner_tables,
    has_same_types,
    mean_f1,
    mean_row,
    rows_of,
)
from fedner.reproduce.beyond.sharding import equal_shards
from fedner.reproduce.estimates import paired_gain
from fedner.reproduce.reproduction import (
    Cell,
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

NUMBERS = (2, 5, 10, 20, 50)
NATURAL, EQUAL = "as given", "equal shards"
LOCAL, PRIVATE, SHARED, CENTRALIZED = (
    "local-only",
    "FedNER, heads private",
    "everything shared",
    "centralized",
)
PARTITIONS = {PRIVATE: "encoder", SHARED: "everything"}
ROUNDS, JOINT_BATCH, LOCAL_BATCH, FINETUNE_EPOCHS = 600, 256, 32, 10
# Equal shards are alike: so many of them tell what a platform has by itself.
MOST_ALONE = 5
REHEARSED_NUMBER = 3  # a rehearsal deals to no more than so many platforms, whatever the row says

TOGETHER_WORDS = (
    f"{ROUNDS} rounds in which all platforms together draw {JOINT_BATCH} sentences, Adam 0.001 "
    f"with linear decay, then {FINETUNE_EPOCHS} epochs of local fine-tuning."
)
TEST_WORDS = (
    "Equal shards: a fifth of all sentences is the test part of every platform; the rest is dealt. "
    "Platforms as given are tested on a fifth of their own."
)
PLATFORMS_WORDS = (
    TOGETHER_WORDS,
    LOCAL_WORDS + f" Batches of {LOCAL_BATCH}; the first {MOST_ALONE} of equal shards.",
    TEST_WORDS,
    "Centralized: all training sentences at one platform, trained as local-only is.",
)


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return all ways and numbers of platforms, whole repeats one after the other."""
    found = []
    for seed in inputs.seeds:
        found.append(_cell(inputs, EQUAL, CENTRALIZED, 1, seed))
        for number in NUMBERS:
            found += [_cell(inputs, EQUAL, arm, number, seed) for arm in (*PARTITIONS, LOCAL)]
        if has_natural(inputs):
            number = len(inputs.platforms)
            found += [_cell(inputs, NATURAL, arm, number, seed) for arm in (*arms(inputs), LOCAL)]
    return found


def has_natural(inputs: Inputs) -> bool:
    """Whether the inputs are several platforms by themselves."""
    return len(inputs.platforms) > 1


def arms(inputs: Inputs) -> list[str]:
    """Return how platforms as given train together: heads are shared where types are the same."""
    return [PRIVATE, SHARED] if has_same_types(inputs) else [PRIVATE]


def _cell(inputs: Inputs, parts: str, arm: str, number: int, seed: int) -> Cell:
    together = ROUNDS * JOINT_BATCH / 1000 + cost_of(inputs, FINETUNE_EPOCHS)
    alone = 2 * cost_of(inputs, 20) * min(1.0, MOST_ALONE / number)
    factors: dict[str, Factor] = {"parts": parts, "arm": arm, "platforms": number, "repeat": seed}
    return Cell(
        f"{parts}/{number}/{arm}/repeat-{seed}", factors, together if arm in PARTITIONS else alone
    )


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train one federation, or its platforms by themselves."""
    seed, number = int(cell.factors["repeat"]), int(cell.factors["platforms"])
    arm = str(cell.factors["arm"])
    entries, corpora = None, None
    if cell.factors["parts"] == EQUAL:
        number = dealt(bench.inputs, number)
        shards = equal_shards(bench, bench.inputs.names, number, seed)
        entries, corpora = shards.entries, shards.corpora
    settings = bench.settings(seed, tables_of(bench.inputs, arm, number), entries)
    if arm in PARTITIONS:
        return rows_of(bench.federated(cell.key, settings, corpora), cell.factors)
    names = [each.name for each in settings.platforms]
    chosen = names if corpora is None else names[: 1 if bench.inputs.is_rehearsal else MOST_ALONE]
    rows = [
        Row(
            {**cell.factors, "platform": name},
            score_measures(bench.local_only(settings, name, corpora)),
        )
        for name in chosen
    ]
    return [*rows, mean_row(rows)]


def dealt(inputs: Inputs, number: int) -> int:
    """Return to how many platforms the sentences are dealt."""
    return min(number, REHEARSED_NUMBER) if inputs.is_rehearsal else number


def tables_of(inputs: Inputs, arm: str, number: int) -> dict[str, Any]:
    """Return the settings of one way to train so many platforms."""
    is_joint = arm in PARTITIONS
    training = {
        "rounds": ROUNDS,
        "batch_size": max(1, JOINT_BATCH // number) if is_joint else LOCAL_BATCH,
        "finetune_epochs": FINETUNE_EPOCHS,
    }
    shared = PARTITIONS.get(arm, "encoder")
    return fedner_tables(inputs, {"training": training, "partition": {"shared": shared}})


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return F1 by number of platforms, and of the platforms as given."""
    notes = (f"A rehearsal: no more than {REHEARSED_NUMBER} platforms in any row.",)
    tables, figures = [_by_number(rows)], [_curves(rows)]
    if has_natural(inputs):
        tables.append(_natural(rows, inputs))
        figures.append(_bars(rows, inputs))
    return Shown(tuple(tables), tuple(figures), notes if inputs.is_rehearsal else ())


def _equal(arm: str, number: int) -> dict[str, Factor]:
    return {"parts": EQUAL, "arm": arm, "platforms": number, "platform": MEAN}


def _by_number(rows: Rows) -> Table:
    columns = (LOCAL, PRIVATE, SHARED)
    lines = [
        (
            str(number),
            *(mean_f1(rows, _equal(arm, number)) for arm in columns),
            paired_gain(rows, "strict_f1", _equal(LOCAL, number), _equal(PRIVATE, number)),
            paired_gain(rows, "strict_f1", _equal(LOCAL, number), _equal(SHARED, number)),
            mean_f1(rows, _equal(CENTRALIZED, 1)),
        )
        for number in NUMBERS
    ]
    return Table(
        "platforms",
        "Strict F1 of one corpus in equal shards, mean over platforms",
        ("platforms", *columns, f"gain, {PRIVATE}", f"gain, {SHARED}", CENTRALIZED),
        tuple(lines),
        (f"Local-only: mean over the first {MOST_ALONE} shards; gains are paired by repeat.",),
    )


def _curves(rows: Rows) -> Figure:
    series = [
        Series(
            arm,
            tuple(mean_f1(rows, _equal(arm, number)) for number in NUMBERS),
        )
        for arm in (SHARED, PRIVATE, LOCAL)
    ]
    bound = mean_f1(rows, _equal(CENTRALIZED, 1))
    series.append(Series(CENTRALIZED, (bound,) * len(NUMBERS)))
    marks = tuple(str(number) for number in NUMBERS)
    panel = Panel("one corpus in equal shards", marks, tuple(series), "platforms")
    return Figure("platforms", "The same sentences among more and more platforms", (panel,))


def _natural(rows: Rows, inputs: Inputs) -> Table:
    held: dict[str, Factor] = {"parts": NATURAL, "platforms": len(inputs.platforms)}
    lines = []
    for arm in (LOCAL, *arms(inputs)):
        found = (
            mean_f1(rows, {**held, "arm": arm, "platform": each}) for each in (*inputs.names, MEAN)
        )
        lines.append((arm, *found))
    return Table(
        "platforms-as-given",
        "Strict F1 of the platforms as they are",
        ("trained", *inputs.names, MEAN),
        tuple(lines),
    )


def _bars(rows: Rows, inputs: Inputs) -> Figure:
    table = _natural(rows, inputs)
    series = tuple(
        Series(str(line[0]), tuple(each for each in line[1:] if not isinstance(each, str)))
        for line in table.rows
    )
    panel = Panel("", (*inputs.names, MEAN), series, "platform")
    return Figure("platforms-as-given", "The platforms as they are", (panel,), "bars")


PLATFORMS = Reproduction(
    name="platforms",
    source="beyond both papers",
    title="2 to 50 platforms: one corpus in equal shards, and natural parts",
    layout="federation",
    corpora=(tuple(f"btc-{part}" for part in "abefgh"),),
    stages=(cells,),
    run=run,
    show=show,
    settings=PLATFORMS_WORDS,
    repeats=5,
)
