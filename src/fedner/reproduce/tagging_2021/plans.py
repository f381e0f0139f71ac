"""How a tagger is trained: the settings of 2021, what is changed in them, and our own recipe."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from fedner.errors import FednerError
from fedner.reproduce.bench import Tables, merged

TDDL, CRF = "BI-LSTM-TDDL", "BI-LSTM-CRF"
LEARNING_RATE, BATCH_SIZE, EPOCHS, MAX_GRAD_NORM = 0.15, 32, 10, 1.5
SLICE, SHARES = 0.1, (20, 40, 60, 80, 100)
FIX_BATCH_SIZE, FIX_EPOCHS, FIX_LEARNING_RATE = 1024, 60, 0.01
# A rehearsal shows that everything runs.
REHEARSED_PLATFORMS, REHEARSED_SLICE, REHEARSED_BATCH = 2, 0.2, 64

# As far as the paper states them (examples/tagging-2021.toml); hidden size, frozen vectors and the
# sum of the tokens' losses are our reading.
AS_IN_2021: Tables = {
    "model": {"recipe": TDDL, "hidden": 100, "dropout": 0.0},
    "embeddings": {"trainable": False},
    "partition": {"shared": "everything"},
    "algorithm": {
        "name": "fedavg",
        "weighting": "equal",
        "local": {"optimizer": {"name": "sgd", "learning_rate": LEARNING_RATE}, "epochs": EPOCHS},
    },
    "privacy": {
        "mechanism": "unit-local",
        "unit": "sentence",
        "max_grad_norm": MAX_GRAD_NORM,
        "noise_multiplier": 1.0,
        "loss": "sum",
        "simulation": True,
        "tuned_on": "protected",
        "uncharged": ["a study of causes: many runs on one corpus"],
    },
    "training": {"rounds": 1, "batch_size": BATCH_SIZE, "evaluate_every": 0},
}
NO_DP: Tables = {"privacy": {"mechanism": "none"}}
SETTINGS_2021 = (
    (
        "BiLSTM 2x100 on frozen word vectors, SGD 0.15, batches of 32, 10 epochs, no dropout; "
        "FedAvg, unweighted. DP-SGD: max_grad_norm 1.5, every sentence clipped by itself, Poisson "
        "batches, delta 1e-5."
    ),
    (
        "Readings of ours, which the paper does not state: hidden size, frozen vectors, no "
        "dropout, the loss of a sentence as the sum of its tokens' losses (a step follows its mean "
        "over the batch), delta, Poisson batches under DP and shuffled ones without, the norm of a "
        "step's gradient bounded by 5 without DP."
    ),
    (
        "CoNLL 2003: eng.train alone is trained on and eng.testb scored; eng.testa is not used "
        "(the paper deals out training and validation data and does not say what the latter are "
        "for). -DOCSTART- lines, which it counts as sentences (14,987 and 3,684), are left out."
    ),
    "The test part is one for all n: each platform scores its share of it, and counts add up.",
    (
        "Each repeat has its own split (where the corpus has no test part), shards, first weights, "
        "batches and noise."
    ),
)
SETTINGS_FIX = (
    "fix: BI-LSTM-CRF, Algorithm 1 of FedNER with everything shared, joint Poisson batches of "
    "1,024, 60 epochs, Adam 0.01 with linear decay, max_grad_norm 1, noise once on the sum (by a "
    "trusted server; with a secure sum platforms add it together)."
)
SETTINGS_CLIPPED = (
    "whole batches clipped: the gradients of 32 sentences are averaged before they are clipped, "
    "as with one micro-batch a batch; our guess at what happened in the paper."
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One training.

    Attributes:
        tables: Its settings.
        num_platforms: Among how many equal platforms the training part is divided.
        micro_batch: How many sentences' gradients are averaged before they are clipped.
        keep: The share of every platform's training part that is used.
    """

    tables: Tables
    num_platforms: int = 1
    micro_batch: int = 1
    keep: float = 1.0

    @property
    def is_sliced(self) -> bool:
        """Whether data come in slices, one a round."""
        return "slice" in self.tables["training"]

    @property
    def digest(self) -> str:
        """Names the training: equal plans of different tables are run once (`--reuse`)."""
        held = [self.tables, self.num_platforms, self.micro_batch, self.keep]
        return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def has_dp(self) -> bool:
        """Whether anything is noised."""
        return bool(self.tables["privacy"]["mechanism"] != "none")


def recipe(name: str) -> Tables:
    """Return the table of another model."""
    return {"model": {"recipe": name}}


def noise_multiplier(value: float) -> Tables:
    """Return the table of another noise; 0 is training without DP."""
    return {"privacy": {"noise_multiplier": value}} if value else NO_DP


def learning_rate(value: float) -> Tables:
    """Return the table of another learning rate."""
    return {"algorithm": {"local": {"optimizer": {"learning_rate": value}}}}


def local_epochs(value: int) -> Tables:
    """Return the table of other passes of a round."""
    return {"algorithm": {"local": {"epochs": value}}}


def adam(value: float) -> Tables:
    """Return the table of another optimizer."""
    return {"algorithm": {"local": {"optimizer": {"name": "adam", "learning_rate": value}}}}


def in_slices(passes: int) -> Tables:
    """Return the tables of incremental training: disjoint slices of 10 %, a round each."""
    rounds = round(1 / SLICE)
    every = SHARES[0] // round(100 * SLICE)
    training = {"slice": SLICE, "rounds": rounds, "evaluate_every": every}
    return merged(local_epochs(passes), {"training": training})


def as_in_2021(num_platforms: int = 1, *changes: Tables) -> Plan:
    """Return the training of 2021 with some things changed."""
    return Plan(merged(AS_IN_2021, *changes), num_platforms)


def in_micro_batches(plan: Plan, size: int) -> Plan:
    """Return a plan in which gradients of `size` sentences are averaged before they are clipped.

    A micro-batch is a document and documents are protected, so that no other step is needed than
    fedner's own, which clips the *sum* over a unit's sentences. With C the clip, B the sentences of
    a step and r the rate of plain SGD, clipping means at C is clipping sums at m C, at rate r / m:

        m (sum_u clip(mean_u, C) + N(0, (s C)^2)) = sum_u clip(sum_u, m C) + N(0, (s m C)^2)

    over B / m units u in both. m = 1 is DP-SGD itself, on the same sentences.

    Raises:
        FednerError: A step's sentences do not make whole micro-batches.
    """
    held = plan.tables["privacy"]["max_grad_norm"]
    rate = plan.tables["algorithm"]["local"]["optimizer"]["learning_rate"]
    batch = plan.tables["training"]["batch_size"]
    if size < 1 or batch % size:
        raise FednerError(
            f"steps of {batch} sentences in micro-batches of {size}; expected whole ones",
            f"Take a size that divides {batch}.",
        )
    clipped = {
        "privacy": {"unit": "document", "max_grad_norm": held * size},
        "training": {"batch_size": batch // size},
    }
    tables = merged(plan.tables, clipped, learning_rate(rate / size))
    return Plan(tables, plan.num_platforms, size, plan.keep)


def fixed(num_platforms: int, epsilon: float, keep: float = 1.0) -> Plan:
    """Return what solves it, at a given epsilon: large batches, decay, Adam, CRF, one noise."""
    server = {"name": "adam", "learning_rate": FIX_LEARNING_RATE, "schedule": "linear"}
    privacy = {
        "mechanism": "unit-central",
        "unit": "sentence",
        "max_grad_norm": 1.0,
        "simulation": True,
        "epsilon": epsilon,
    }
    training = {"epochs": FIX_EPOCHS, "batch_size": FIX_BATCH_SIZE, "evaluate_every": 0}
    tables = {
        **merged(AS_IN_2021, recipe(CRF)),
        "algorithm": {"name": "fedner", "server_optimizer": server},
        "privacy": privacy,
        "training": training,
    }
    return Plan(tables, num_platforms, keep=keep)


def rehearsed(plan: Plan) -> Plan:
    """Return a plan in the form of a rehearsal: fewer platforms, few steps."""
    tables = plan.tables
    local = tables["algorithm"].get("local", {})
    training = dict(tables["training"])
    if "epochs" in training:
        training |= {"epochs": 1, "batch_size": REHEARSED_BATCH}
    if plan.is_sliced:
        shares = round(1 / REHEARSED_SLICE)
        training |= {"slice": REHEARSED_SLICE, "rounds": shares, "evaluate_every": 1}
    elif "rounds" in training:
        training["rounds"] = min(2, training["rounds"])
    changes: dict[str, Any] = {"training": training}
    if "epochs" in local:
        changes |= local_epochs(min(2 if plan.is_sliced else 1, local["epochs"]))
    if "epsilon" in tables["privacy"]:
        changes["privacy"] = {"accountant": "rdp"}  # which is found sooner
    number = min(plan.num_platforms, REHEARSED_PLATFORMS)
    return Plan(merged(tables, changes), number, plan.micro_batch, plan.keep)
