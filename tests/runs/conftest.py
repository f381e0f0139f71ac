"""A federation small enough for every test, and one run of it that several tests look at."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tiny_tables import TABLES

from fedner.privacy.budget import Budget
from fedner.privacy.events import Unit
from fedner.privacy.ledger_owner import open_ledger
from fedner.runs.checks import checked
from fedner.runs.simulation import train_run
from fedner.settings import Settings, override
from seeded_keys import seeded_keys

# Other tests may run beside these: more threads only stand in each other's way.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded_keys() -> Iterator[None]:
    """Who is tested on is the same in every run."""
    with seeded_keys():
        yield


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Settings]:
    """Return a maker of tiny settings, with assignments over them."""

    def make(*assignments: str) -> Settings:
        return checked(override(TABLES, assignments), Path.cwd())

    return make


@pytest.fixture
def ledgers(tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    """Return what opens a ledger for each of three platforms, and the assignments of a deployment.

    They name the ledgers, public sizes and how the settings were chosen.
    """

    def opened(epsilon: float, unit: Unit = "sentence", delta: float = 1e-5) -> tuple[str, ...]:
        for number in range(3):
            open_ledger(tmp_path / str(number), Budget(epsilon, delta, unit), 30)
        return (
            "privacy.mechanism=unit-local",
            "privacy.tuned_on=public",
            f"privacy.unit={unit}",
            "training.evaluate_every=0",
            *(f'platforms.{number}.ledger="{tmp_path / str(number)}"' for number in range(3)),
            *(f"platforms.{number}.public_size=30" for number in range(3)),
        )

    return opened


@pytest.fixture(scope="session")
def finished(tiny: Callable[..., Settings], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run with both baselines."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    settings = tiny(
        'training.baselines=["local-only", "centralized"]',
        "training.baseline_epochs=2",
        "training.patience=1",
        "training.rounds=12",
        "training.evaluate_every=6",
    )
    train_run(settings, folder)
    return folder
