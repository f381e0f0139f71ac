"""Serial, through bytes, and in worker processes: the same bits, reports and records."""

from functools import partial
from pathlib import Path

import pytest
from linear_platform import initial
from parity import SIZES, MakeEngine, check_parity

from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers

ENGINES: dict[str, MakeEngine] = {
    "spilled": partial(InProcess, max_live=1),
    "bytes": partial(InProcess, as_bytes=True),
    "workers": lambda made, names: Workers(made, names, initial(), workers=2, loads=SIZES),
}


@pytest.mark.parametrize("kind", ENGINES)
def test_every_engine_passes_the_same_test(kind: str, tmp_path: Path) -> None:
    check_parity(ENGINES[kind], tmp_path)
