"""What every test may ask for: the development corpora, where they are."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tiny_bert import save_tiny_bert

# A busy machine is slow, not wrong: no test fails by the clock.
settings.register_profile("fedner", deadline=None)
settings.load_profile("fedner")

DATA = Path(os.environ.get("FEDNER_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


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
