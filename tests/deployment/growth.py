"""Did something grow in hours of rounds? Told from what the pace and the names of files explain."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

LOGS = re.compile(r"(\.log|log\.txt)(\.\d+)?$")  # rotated


def grown_at_one_pace(
    hours: Sequence[float], paces: Sequence[float], memory: Sequence[float]
) -> float:
    """How much memory grew from the second quarter to the last beyond what the pace explains.

    FLARE remembers every message for a minute, so more rounds a second may need more. Least squares
    over time and pace: it helps to find a cause, and judges nothing.
    """
    columns = np.stack([np.ones(len(hours)), hours, paces], 1)
    by_hour = np.linalg.lstsq(columns, np.asarray(memory), rcond=None)[0][1]
    quarter = len(hours) // 4
    return float(by_hour * (fmean(hours[-quarter:]) - fmean(hours[quarter : 2 * quarter])))


def sizes_by_kind(sizes: Mapping[str, int]) -> dict[str, int]:
    """The largest file of each kind: a checkpoint takes the place of the one before."""
    found: dict[str, int] = defaultdict(int)
    for path, size in sizes.items():
        kind = re.sub(r"round-\d+", "round-N", path)
        found[kind] = max(found[kind], size)
    return dict(found)
