"""Exact discrete Gaussian noise for 2 million numbers, beside the normals of central noise.

Processor time of one core, with the bits of the system. Ratios compare with `noise.system_normals`,
which rounds floating-point numbers, in the same run.
"""

import time
from collections.abc import Callable

import torch

from fedner.privacy.discrete_noise import discrete_gaussian
from fedner.privacy.entropy import SystemEntropy
from fedner.privacy.noise import system_normals

NUM_NUMBERS, NUM_REPEATS = 2_000_000, 3
DEVIATIONS = (1_000, 3_000_001)


def _seconds(work: Callable[[], object]) -> float:
    """Return the least processor time of several repeats."""
    found = []
    for _ in range(NUM_REPEATS):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def main() -> list[tuple[str, float, str]]:
    """Return a row for each deviation."""
    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    normals = _seconds(lambda: system_normals(NUM_NUMBERS))
    rows = [("2 million normals", normals, "s of one core")]
    for deviation in DEVIATIONS:

        def draw(deviation: int = deviation) -> object:
            return discrete_gaussian(NUM_NUMBERS, deviation, SystemEntropy(), cpu)

        spent = _seconds(draw)
        rows.append((f"2 million discrete draws, deviation {deviation:,}", spent, "s of one core"))
        rows.append((f"the same over normals, deviation {deviation:,}", spent / normals, "times"))
    return rows
