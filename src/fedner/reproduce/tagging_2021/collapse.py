"""`tagging-collapse`: why did federated, incremental tagging under DP collapse in 2021?

One thing is changed at a time: reading of the loss, clip, learning rate, noise, batch,
micro-batches, decoder, number of platforms, slices; at the end what solves it.
"""

from collections.abc import Sequence
from functools import partial

from fedner.reproduce.bench import Bench, Tables
from fedner.reproduce.reproduction import Cell, Factor, Inputs, Reproduction, Row, Rows, Shown
from fedner.reproduce.tagging_2021.claims import Claim
from fedner.reproduce.tagging_2021.designs import Design, Way
from fedner.reproduce.tagging_2021.plans import (
    CRF,
    EPOCHS,
    NO_DP,
    SETTINGS_2021,
    SETTINGS_CLIPPED,
    SETTINGS_FIX,
    Plan,
    as_in_2021,
    fixed,
    in_micro_batches,
    in_slices,
    learning_rate,
    noise_multiplier,
    recipe,
)
from fedner.reproduce.tagging_2021.showing import Layout
from fedner.reproduce.tagging_2021.studies import CORPORA, REPEATS, SHARE, SLICED_PLATFORMS

NAME = "tagging-collapse"
BASE = "as in 2021"
MICRO_BATCHES = (1, 8, 32)
PER_TOKEN: Tables = {"privacy": {"loss": "mean"}}


def max_grad_norm(value: float) -> Tables:
    """Return the table of another clip."""
    return {"privacy": {"max_grad_norm": value}}


def batch_size(value: int) -> Tables:
    """Return the table of another batch size."""
    return {"training": {"batch_size": value}}


# One platform, one thing changed.
CHANGED: dict[str, tuple[Tables, ...]] = {
    "no DP": (NO_DP,),
    BASE: (),
    "loss per token": (PER_TOKEN,),
    "max_grad_norm 0.15": (max_grad_norm(0.15),),
    "max_grad_norm 0.15, learning rate 1.5": (max_grad_norm(0.15), learning_rate(1.5)),
    "max_grad_norm 15": (max_grad_norm(15.0),),
    "learning rate 0.05": (learning_rate(0.05),),
    "learning rate 0.5": (learning_rate(0.5),),
    "noise_multiplier 5": (noise_multiplier(5.0),),
    "noise_multiplier 5, learning rate 0.03": (noise_multiplier(5.0), learning_rate(0.03)),
    "batch 256": (batch_size(256),),
    "batch 256, learning rate 1.2": (batch_size(256), learning_rate(1.2)),
    "CRF, no DP": (recipe(CRF), NO_DP),
    "CRF": (recipe(CRF),),
    "CRF, loss per token": (recipe(CRF), PER_TOKEN),
    "CRF, noise_multiplier 5": (recipe(CRF), noise_multiplier(5.0)),
}
ONCE: dict[str, Plan] = {
    **{label: as_in_2021(1, *changes) for label, changes in CHANGED.items()},
    **{f"micro-batches of {m}": in_micro_batches(as_in_2021(), m) for m in MICRO_BATCHES},
    "n = 5, no DP": as_in_2021(5, NO_DP),
    "n = 5": as_in_2021(5),
    "n = 20, no DP": as_in_2021(20, NO_DP),
    "n = 20": as_in_2021(20),
    "n = 5, fix, epsilon 3": fixed(5, 3.0),
    "n = 5, fix, epsilon 1": fixed(5, 1.0),
}


def _sliced(passes: int, *changes: Tables) -> Plan:
    return as_in_2021(SLICED_PLATFORMS, in_slices(passes), *changes)


ONE_PASS, TEN_PASSES = "one pass", "10 passes"
WHOLE_ONE, WHOLE_TEN = "one pass, whole batches clipped", "10 passes, whole batches clipped"
IN_SLICES: dict[str, Plan] = {
    ONE_PASS: _sliced(1),
    TEN_PASSES: _sliced(EPOCHS),
    "10 passes, CRF": _sliced(EPOCHS, recipe(CRF)),
    "10 passes, noise_multiplier 5": _sliced(EPOCHS, noise_multiplier(5.0)),
    WHOLE_ONE: in_micro_batches(_sliced(1), MICRO_BATCHES[-1]),
    WHOLE_TEN: in_micro_batches(_sliced(EPOCHS), MICRO_BATCHES[-1]),
}


def _planned(plan: Plan, _: object) -> Plan:
    return plan


def _ours(text: str, before: str, after: str, expected: str) -> Claim:
    return Claim(text, {"way": before}, {"way": after}, expected, is_ours=True)  # type: ignore[arg-type]


def _at(way: str, share: int) -> dict[str, Factor]:
    return {"way": way, "share": share}


LAYOUT_ONCE = Layout(
    NAME,
    "What was changed in the settings of 2021 (noise multiplier 1 unless said)",
    Design(tuple(Way(label, partial(_planned, plan)) for label, plan in ONCE.items())),
    {},
    (
        _ours("a clip of 15 drowns the signal in noise.", BASE, "max_grad_norm 15", "falls"),
        _ours("a larger learning rate does so too.", BASE, "learning rate 0.5", "falls"),
        _ours(
            "at noise 5 a smaller learning rate brings it back.",
            "noise_multiplier 5",
            "noise_multiplier 5, learning rate 0.03",
            "rises",
        ),
        _ours(
            "averaging 8 sentences before they are clipped loses the signal.",
            "micro-batches of 1",
            "micro-batches of 8",
            "falls",
        ),
        _ours("the CRF is better under DP, not worse.", BASE, "CRF", "rises"),
        _ours("the fix at epsilon 3 solves it.", "n = 5", "n = 5, fix, epsilon 3", "rises"),
    ),
    has_dp=True,
    has_figure=False,
)
LAYOUT_IN_SLICES = Layout(
    f"{NAME}-slices",
    "n = 5, data in slices of 10 %: F by the share that has arrived",
    Design(
        tuple(
            Way(label, partial(_planned, plan), is_sliced=True) for label, plan in IN_SLICES.items()
        ),
        SHARE,
    ),
    {},
    (
        Claim(
            "clipped sentence by sentence, F grows with the data.",
            _at(TEN_PASSES, 20),
            _at(TEN_PASSES, 100),
            "rises",
            is_ours=True,
        ),
        Claim(
            "whole batches clipped is what does not learn.",
            _at(TEN_PASSES, 100),
            _at(WHOLE_TEN, 100),
            "falls",
            is_ours=True,
        ),
    ),
    has_dp=True,
)
LAYOUTS = (LAYOUT_ONCE, LAYOUT_IN_SLICES)


def cells(inputs: Inputs, rows: Rows) -> list[Cell]:
    """Return all variants, whole repeats one after the other."""
    return [cell for layout in LAYOUTS for cell in layout.design.first(inputs, rows)]


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train a variant."""
    held = LAYOUT_ONCE if cell.factors["way"] in ONCE else LAYOUT_IN_SLICES
    return held.design.run(cell, bench)


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return both tables, the figure of slices, and what they say."""
    once, in_slices_ = (layout.show(rows, inputs) for layout in LAYOUTS)
    return Shown(
        once.tables + in_slices_.tables,
        in_slices_.figures,
        once.notes + in_slices_.notes,
    )


COLLAPSE = Reproduction(
    name=NAME,
    source="Jana & Biemann 2021",
    title="Why federated tagging under DP collapsed: one thing changed at a time",
    layout="one corpus",
    corpora=CORPORA,
    stages=(cells,),
    run=run,
    show=show,
    needs=frozenset({"words"}),
    settings=(*SETTINGS_2021, SETTINGS_CLIPPED, SETTINGS_FIX),
    repeats=REPEATS,
)
