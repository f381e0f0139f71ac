"""How the studies beyond the papers train: FedNER as examples/medical.toml has it, or smaller.

Shared encoder, private emissions and CRF, local fine-tuning after the last round. Local-only is the
strong baseline of `fedner train`: at least as many steps as in the federation, on until it stops
improving, and the same fine-tuning.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fedner.reproduce.bench import Ran, Tables, merged, score_measures
from fedner.reproduce.estimates import estimate, values_of
from fedner.reproduce.reproduction import Estimate, Factor, Inputs, Row
from fedner.runs.folder import FEDERATED

EPOCHS, FINETUNE_EPOCHS, BATCH_SIZE = 40, 20, 64
LEARNING_RATE = 1e-3
MEAN = "mean"  # the row of a run that has the mean over its platforms

FEDNER_WORDS = (
    f"FedNER: {EPOCHS} epochs, every platform draws {BATCH_SIZE} sentences in a round, Adam "
    f"{LEARNING_RATE} with linear decay at server and platforms, encoder shared, emissions and CRF "
    f"private, then {FINETUNE_EPOCHS} epochs of local fine-tuning."
)
LOCAL_WORDS = (
    "Local-only: at least as many steps as in the federation, on until it stops improving on a "
    "held-out tenth, then as long on all training sentences; the same fine-tuning."
)


def fedner_tables(inputs: Inputs, changes: Tables | None = None) -> dict[str, Any]:
    """Return the tables of FedNER, as a federation file would have them.

    Args:
        inputs: What the study runs on: with a context encoder the model is ELMoNER.
        changes: What the study sets otherwise.
    """
    adam = {"name": "adam", "learning_rate": LEARNING_RATE, "schedule": "linear"}
    training: dict[str, Any] = {
        "epochs": EPOCHS,
        "batch_size": BATCH_SIZE,
        "finetune_epochs": FINETUNE_EPOCHS,
        "evaluate_every": 0,
        "checkpoint_every": 0,
    }
    if "rounds" in (changes or {}).get("training", {}):
        del training["epochs"]
    tables = {
        "model": {"recipe": "CNN-CLSTM-CRF" if inputs.context == "none" else "ELMoNER"},
        "partition": {"shared": "encoder"},
        "algorithm": {"name": "fedner", "batching": "each", "server_optimizer": adam},
        "local_optimizer": {"learning_rate": LEARNING_RATE, "schedule": "linear"},
        "training": training,
    }
    return rehearsed(merged(tables, changes or {}), inputs)


def rehearsed(tables: Tables, inputs: Inputs) -> dict[str, Any]:
    """Return the tables; in a rehearsal with one round and no fine-tuning."""
    if not inputs.is_rehearsal:
        return dict(tables)
    training = {key: each for key, each in tables["training"].items() if key != "epochs"}
    small = {"rounds": 1, "batch_size": 32, "baseline_epochs": 1, "patience": 1}
    small |= {"finetune_epochs": 0}
    return {**tables, "training": {**training, **small}}


def has_same_types(inputs: Inputs) -> bool:
    """Whether all platforms have the same types, so that heads can be shared."""
    return len({each.labels for each in inputs.platforms}) == 1


def cost_of(
    inputs: Inputs, epochs: float = EPOCHS + FINETUNE_EPOCHS, names: Sequence[str] | None = None
) -> float:
    """Return the cost of so many epochs over the training parts of some platforms."""
    held = [each for each in inputs.platforms if names is None or each.name in names]
    return max(0.1, sum(each.num_sentences for each in held) * 0.8 * epochs / 1000)


def rows_of(ran: Ran, factors: Mapping[str, Factor]) -> list[Row]:
    """Return a row for every platform of a run, and one with their means.

    Args:
        ran: What the federation came to.
        factors: What the cell is about.
    """
    rows = [
        Row(
            {**factors, "platform": name},
            {
                **score_measures(record.methods[FEDERATED]),
                "rounds": ran.rounds,
                "bytes_up": ran.up[name],
                "bytes_down": ran.down[name],
            },
        )
        for name, record in sorted(ran.scores.platforms.items())
    ]
    return [*rows, mean_row(rows)]


def mean_row(rows: Sequence[Row]) -> Row:
    """Return the row of the means over platforms."""
    every = [row.measures for row in rows]
    means = {
        key: sum(each[key] or 0.0 for each in every) / len(every)
        for key in every[0]
        if all(each.get(key) is not None for each in every)
    }
    return Row({**rows[0].factors, "platform": MEAN}, means)


def mean_f1(rows: Sequence[Row], factors: Mapping[str, Factor]) -> Estimate | None:
    """Return the mean strict F1 of the rows that have all these factors."""
    return estimate(values_of(rows, "strict_f1", **factors))
