"""What every test may ask for, and no luck: the same draws in every run, and no clock."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from tiny_bert import save_tiny_bert

# A busy machine is slow, not wrong: no test fails by the clock. And examples are the same in every
# run: `pytest --hypothesis-profile=explore` looks for others.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fedner", settings.get_profile("explore"), derandomize=True)
settings.load_profile("fedner")

DATA = Path(os.environ.get("FEDNER_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def _seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """What a test draws without a seed of its own does not depend on the tests before it."""
    _seed()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    """Nor does what a fixture draws that several tests share."""
    if fixturedef.scope != "function":
        _seed()
    return (yield)


@pytest.fixture(autouse=True, scope="session")
def _no_power_cut() -> Iterator[None]:
    """Nobody waits for the disk: what a killed process has written is there, synced or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(os, "sync", lambda: None)
        yield


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of development corpora; tests that need it are skipped where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"needs the development corpora: no folder {DATA} (set FEDNER_DATA)")
    return DATA


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny encoder; tests that need it are skipped without transformers."""
    pytest.importorskip("transformers", reason="needs the extra transformers")
    return save_tiny_bert(tmp_path_factory.mktemp("encoders") / "tiny-bert")
