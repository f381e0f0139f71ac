"""A federation small enough for every test, and one run of it that several tests look at."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedner.runs.checks import checked
from fedner.runs.training import train_run
from fedner.settings import Settings, override

# Other tests may run beside these: more threads only stand in each other's way.
torch.set_num_threads(1)

TABLES = {
    "title": "tiny",
    "model": {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6},
    "embeddings": {"dimension": 8, "buckets": 64},
    "algorithm": {"name": "fedner", "server": {"rate": 0.02}},
    "private": {"rate": 0.02},
    "training": {"rounds": 6, "batch": 12, "evaluate_every": 3, "checkpoint_every": 2},
    "platforms": [
        {"name": name, "data": f"synthetic:{name}", "num_sentences": 40, "split": {"test": 0.3}}
        for name in ("case-reports", "forum-posts", "social-posts")
    ],
}


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Settings]:
    """Return a maker of tiny settings, with assignments over them."""

    def make(*assignments: str) -> Settings:
        return checked(override(TABLES, assignments), Path.cwd())

    return make


@pytest.fixture(scope="session")
def finished(tiny: Callable[..., Settings], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run with both controls."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    settings = tiny(
        'training.controls=["alone", "pooled"]',
        "training.control_epochs=2",
        "training.patience=1",
        "training.rounds=12",
        "training.evaluate_every=6",
    )
    train_run(settings, folder)
    return folder
