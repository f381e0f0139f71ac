"""The whole study in seconds: small settings, and a world of a few sentences."""

import pytest
from tiny_world import corpus, world_of

from fedner.experiments.joining import cells, study, zero_shot
from fedner.experiments.joining.corpora import BTC, MEDICAL
from fedner.experiments.joining.study import CellTask, Setting
from fedner.experiments.joining.world import Sizes, World

NEWCOMERS = ("ade", "btc-e")
GRID = (Setting(0.01), Setting(0.02, 1.0))
SMALL = {
    "NEWCOMERS": NEWCOMERS,
    "PARTNER_STEPS": 2,
    "PARTNER_BATCH": 3,
    "MIDDLE": 9,
    "NUM_FOLDS": 3,
    "JOINED_GRID": GRID,
    "FRESH_GRID": GRID,
    "DESCRIBED_GRID": GRID,
    "PUBLISHED_GRID": GRID,
    "STEPS": 2,
    "BATCH_SIZE": 3,
}


def schedule(_size: int) -> tuple[int, int]:
    return 1, 5


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Make the study small, in this process."""
    for module in (study, cells, zero_shot):
        for name, value in SMALL.items():
            if hasattr(module, name):
                patch.setattr(module, name, value)
    patch.setattr(cells, "schedule", schedule)
    patch.setattr(cells, "_TUNED", {arm: (kind, GRID) for arm, (kind, _) in cells._TUNED.items()})


def tasks() -> list[CellTask]:
    """Return one cell of each sort: all arms, more seeds, another size, without sentences."""
    every = [(9, 1), (9, 4), (9, 6), (6, 1), (0, 1), (0, 4), (study.ALL, 1)]
    return [CellTask(NEWCOMERS, size, seed) for size, seed in every]


def tiny_world() -> World:
    return world_of([corpus(name, 30) for name in (*MEDICAL, *BTC)], sizes=Sizes(4, 4, 4, 3))
