"""What fewer rounds and smaller numbers cost: F1 against rounds and bytes.

A federation in float32, bfloat16 and int8 with error feedback, with K = 1, 2, 4 and 8 local steps
between rounds: FedAvg with Adam at the platforms, the same for every K. Every row takes as many
local steps, so that rounds and bytes fall with K. The learning rate of each K is chosen in float32
by a seed that is in no row. Beside it a pretrained encoder that is trained whole, or by adapters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from fedner.errors import FednerError
from fedner.reproduce.bench import Bench
from fedner.reproduce.beyond.encoder_plans import (
    COST,
    ENCODER_WORDS,
    WAYS,
    encoder_tables,
    is_trainable,
    rehearsal_encoder,
)
from fedner.reproduce.beyond.encoder_plans import ROUNDS as ENCODER_ROUNDS
from fedner.reproduce.beyond.plans import MEAN, cost_of, fedner_tables, rows_of
from fedner.reproduce.estimates import chosen
from fedner.reproduce.reproduction import Cell, Factor, Inputs, Row, Rows
from fedner.settings.sections import Encoding

ENCODINGS: tuple[str, ...] = get_args(Encoding)
LOCAL_STEPS = (1, 2, 4, 8)
RATES = (0.001, 0.003, 0.009)
PROBED_SEED = 1000
STEPS = 800
REHEARSED_ROUNDS = {1: 4, 2: 3, 4: 2, 8: 1}
BATCH_SIZE = 64
PROBE, TAGGER, ENCODER = "probe", "tagger", "encoder"  # what a cell is a part of

LINK_WORDS = (
    f"FedAvg, Adam at the platforms, encoder shared, emissions and CRF private; {STEPS} local "
    f"steps of {BATCH_SIZE} sentences in every row, {STEPS} / K rounds; no fine-tuning afterwards."
)
PROBE_WORDS = (
    f"The learning rate of each K is the best of {', '.join(f'{each:g}' for each in RATES)} by "
    f"mean strict F1 in float32 of seed {PROBED_SEED}, which is in no row."
)
COMMUNICATION_WORDS = (LINK_WORDS, PROBE_WORDS, ENCODER_WORDS)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to train a tagger over slow links.

    Attributes:
        local_steps: K.
        encoding: In which numbers updates travel.
        learning_rate: Of each platform's Adam.
    """

    local_steps: int
    encoding: str
    learning_rate: float

    def factors(self, part: str, seed: int) -> dict[str, Factor]:
        """Return the factors of its cells."""
        return {
            "part": part,
            "local_steps": self.local_steps,
            "encoding": self.encoding,
            "learning_rate": self.learning_rate,
            "repeat": seed,
        }

    def cell(self, part: str, seed: int, cost: float) -> Cell:
        """Return the cell of a seed."""
        key = f"{part}/K-{self.local_steps}/{self.encoding}/rate-{self.learning_rate:g}"
        return Cell(f"{key}/repeat-{seed}", self.factors(part, seed), cost)


def probes(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return the runs that choose a learning rate for each K, in float32."""
    rates = RATES[:1] if inputs.is_rehearsal else RATES
    return [
        Way(steps, ENCODINGS[0], rate).cell(PROBE, PROBED_SEED, _cost(inputs))
        for steps in LOCAL_STEPS
        for rate in rates
    ]


def best_rate(rows: Rows, local_steps: int) -> float:
    """Return the learning rate of the highest F1 among the probes; of equals the lowest.

    Raises:
        FednerError: Nothing was probed.
    """
    held = chosen(rows, part=PROBE, local_steps=local_steps, platform=MEAN)
    if not held:
        raise FednerError(f"no learning rate was tried with K = {local_steps}")
    best = max(held, key=lambda row: (row.measures["strict_f1"], -_rate(row)))
    return _rate(best)


def _rate(row: Row) -> float:
    return float(row.factors["learning_rate"])


def trainings(inputs: Inputs, rows: Rows) -> list[Cell]:
    """Return the runs of all rows; K whose probes did not end yet are left for later."""
    probed = {row.factors["local_steps"] for row in chosen(rows, part=PROBE)}
    ready = [steps for steps in LOCAL_STEPS if steps in probed]
    return [cell for seed in inputs.seeds for cell in _of_seed(inputs, rows, ready, seed)]


def _of_seed(inputs: Inputs, rows: Rows, ready: Sequence[int], seed: int) -> list[Cell]:
    found = [
        Way(steps, encoding, best_rate(rows, steps)).cell(TAGGER, seed, _cost(inputs))
        for steps in ready
        for encoding in ENCODINGS
    ]
    if has_encoder(inputs):
        cost = cost_of(inputs, ENCODER_ROUNDS) * COST
        found += [
            Cell(
                f"{ENCODER}/{way}/repeat-{seed}",
                {"part": ENCODER, "way": way, "repeat": seed},
                cost,
            )
            for way in WAYS
        ]
    return found


def has_encoder(inputs: Inputs) -> bool:
    """Whether there is an encoder to train: a rehearsal makes one of its own."""
    return inputs.is_rehearsal or is_trainable(inputs.context)


def _cost(inputs: Inputs) -> float:
    return len(inputs.platforms) * STEPS * BATCH_SIZE / 1000


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train one federation; a rehearsal has two platforms."""
    inputs = bench.inputs
    own = inputs.platforms[:2] if inputs.is_rehearsal else inputs.platforms
    tables = _tables(cell.factors, inputs)
    entries = [bench.entry(each) for each in own]
    settings = bench.settings(int(cell.factors["repeat"]), tables, entries)
    return rows_of(bench.federated(cell.key, settings), cell.factors)


def _tables(factors: Mapping[str, Factor], inputs: Inputs) -> dict[str, Any]:
    if factors["part"] == ENCODER:
        context = inputs.context
        if inputs.is_rehearsal:
            context = rehearsal_encoder(inputs.out / "cache")
        return encoder_tables(inputs, str(factors["way"]), context)
    steps, rate = int(factors["local_steps"]), float(factors["learning_rate"])
    return link_tables(inputs, Way(steps, str(factors["encoding"]), rate))


def link_tables(inputs: Inputs, way: Way) -> dict[str, Any]:
    """Return the settings of one way; those of every K differ in K, rounds and learning rate."""
    rounds = STEPS // way.local_steps
    found = fedner_tables(inputs, {"training": {"rounds": 1, "finetune_epochs": 0}})
    adam = {"name": "adam", "learning_rate": way.learning_rate}
    local = {"steps": way.local_steps, "optimizer": adam}
    training = {
        **found["training"],
        "rounds": REHEARSED_ROUNDS[way.local_steps] if inputs.is_rehearsal else rounds,
        "batch_size": 4 if inputs.is_rehearsal else BATCH_SIZE,
    }
    return {
        **found,
        "algorithm": {"name": "fedavg", "local": local},
        "training": training,
        "transport": {"encoding": way.encoding},
    }
