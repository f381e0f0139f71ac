"""What every test may ask for: the development corpora, where they are."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("FEDNER_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of development corpora; tests that need it are skipped where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"needs the development corpora: no folder {DATA} (set FEDNER_DATA)")
    return DATA
