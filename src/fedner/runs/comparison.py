"""Two runs side by side: a paired test on every platform that both have."""

from dataclasses import asdict
from typing import Any

from fedner.errors import FednerError
from fedner.runs.folder import FEDERATED, SCORES, RunFolder
from fedner.runs.outcome import read_counts, verdict
from fedner.scoring import paired_test


def compare(
    first: RunFolder, second: RunFolder, *, method: str = FEDERATED, seed: int = 1
) -> dict[str, Any]:
    """Compare the same method of two runs, platform by platform.

    Args:
        first: A finished run.
        second: Another; its gain over the first is reported.
        method: "federated", "local-only" or "centralized".
        seed: Of the resampling.

    Raises:
        FednerError: They have no platform in common, or were tested on other texts.
    """
    names = [set(run.read(SCORES)["platforms"]) for run in (first, second)]
    common = sorted(names[0] & names[1])
    if not common:
        raise FednerError(
            f"{first.path} and {second.path} have no platform in common",
            f"The first has {', '.join(sorted(names[0]))}, "
            f"the second {', '.join(sorted(names[1]))}.",
        )
    rows = {name: _compared(first, second, name, method, seed) for name in common}
    other = [name for name, row in rows.items() if row is None]
    if other:
        raise FednerError(
            f"{', '.join(other)}: the two runs were tested on other texts or gold entities",
            "Give platforms.NAME.split.seed (or test_data) in both, so that the test parts agree.",
        )
    return {
        "first": str(first.path),
        "second": str(second.path),
        "method": method,
        "platforms": rows,
        "only_in_one": sorted(names[0] ^ names[1]),
    }


def _compared(
    first: RunFolder, second: RunFolder, name: str, method: str, seed: int
) -> dict[str, Any] | None:
    one, one_relaxed, one_digest = read_counts(first, name, method)
    other, other_relaxed, other_digest = read_counts(second, name, method)
    if one_digest != other_digest or len(one) != len(other):
        return None
    strict = paired_test(one, other, seed=seed)
    relaxed = paired_test(one_relaxed, other_relaxed, seed=seed)
    return {
        "units": len(one),
        "verdict": verdict(strict),
        "strict": asdict(strict),
        "relaxed": asdict(relaxed),
    }
