"""What a table varies: an axis and several ways to train; as cells, in two stages.

The second stage trains what is held against a way of the first at the very epsilon that it spent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedner.reproduce.bench import Bench
from fedner.reproduce.estimates import values_of
from fedner.reproduce.reproduction import Cell, Factor, Inputs, Row, Rows
from fedner.reproduce.tagging_2021.plans import Plan
from fedner.reproduce.tagging_2021.runs import ALL, run_plan

# A BiLSTM 2x100 on frozen vectors against FedNER's tagger, whose pace `plan` knows, and a clipped
# and noised step against a plain one: 0.59 and 0.70 s for a thousand sentences (tagging-table1 and
# 6 on one core of an AMD EPYC, 2026-11-18). On a GPU they may be other.
TAGGER_COST = 0.1
DP_COST = 1.2
TRAINING_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Axis:
    """What is varied along a table.

    Attributes:
        name: The factor.
        label: What people call it.
        values: Its values.
        form: How a value is written in the name of a row.
    """

    name: str
    label: str
    values: tuple[int | float, ...]
    form: str


@dataclass(frozen=True, slots=True)
class Way:
    """One way to train.

    Attributes:
        label: What tables call it.
        plan: What is trained, by the factors of a cell.
        paper: The model of the paper's own row; None for what is ours.
        epsilon_of: The way whose epsilon it has; None where it states its own.
        is_sliced: Whether one training goes along the whole axis, as data come in slices.
    """

    label: str
    plan: Callable[[Mapping[str, Factor]], Plan]
    paper: str | None = None
    epsilon_of: str | None = None
    is_sliced: bool = False


@dataclass(frozen=True, slots=True)
class Design:
    """A table as cells.

    Attributes:
        ways: Its ways to train, in the order of the rows.
        axis: What is varied; None where there are only ways.
    """

    ways: tuple[Way, ...]
    axis: Axis | None = None

    def way(self, label: Factor) -> Way:
        """Return a way by its label."""
        return next(each for each in self.ways if each.label == label)

    def places(self, way: Way) -> tuple[dict[str, Factor], ...]:
        """Return the factors of a way's cells in one repeat."""
        if self.axis is None or way.is_sliced:
            return ({"way": way.label},)
        return tuple({"way": way.label, self.axis.name: value} for value in self.axis.values)

    def first(self, inputs: Inputs, _rows: Rows) -> list[Cell]:
        """Return the cells that depend on no others, whole repeats one after the other."""
        found = (each for each in self._wanted(inputs) if self.way(each["way"]).epsilon_of is None)
        return [self._cell(inputs, each) for each in found]

    def second(self, inputs: Inputs, rows: Rows) -> list[Cell]:
        """Return the cells that have the epsilon of others."""
        cells = []
        for factors in self._wanted(inputs):
            other = self.way(factors["way"]).epsilon_of
            if other is None:
                continue
            spent = values_of(rows, "epsilon", **{**factors, "way": other, "platform": ALL})
            if spent:
                cells.append(self._cell(inputs, {**factors, "target_epsilon": spent[0]}))
        return cells

    def run(self, cell: Cell, bench: Bench) -> Sequence[Row]:
        """Train a cell."""
        return run_plan(bench, cell, self.way(cell.factors["way"]).plan(cell.factors))

    def _wanted(self, inputs: Inputs) -> Iterator[dict[str, Factor]]:
        for repeat in inputs.seeds:
            for way in self.ways:
                yield from ({**place, "repeat": repeat} for place in self.places(way))

    def _cell(self, inputs: Inputs, factors: dict[str, Factor]) -> Cell:
        plan = self.way(factors["way"]).plan(factors)
        value = "" if self.axis is None else factors.get(self.axis.name, "")
        middle = f"/{self.axis.name}-{value}" if self.axis is not None and value != "" else ""
        key = f"{factors['way']}{middle}/repeat-{factors['repeat']}"
        held = {"n": plan.num_platforms, **factors}
        work = f"tagging/{plan.digest}/{factors['repeat']}"
        return Cell(key, held, cost(plan, inputs), work)


def cost(plan: Plan, inputs: Inputs) -> float:
    """Return how long a plan takes, in thousands of sentences that are trained on."""
    (platform,) = inputs.platforms
    share = 1.0 if platform.test_data is not None else TRAINING_SHARE
    sentences = platform.num_sentences * share * plan.keep / 1000
    local, training = plan.tables["algorithm"].get("local", {}), plan.tables["training"]
    rounds = 1 if plan.is_sliced else training.get("rounds", 1)
    epochs = training.get("epochs") or rounds * local["epochs"]
    return float(max(0.01, sentences * epochs * TAGGER_COST * (DP_COST if plan.has_dp else 1.0)))
