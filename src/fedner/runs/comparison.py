"""Two runs side by side: a paired test on every platform that both have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedner.errors import FednerError
from fedner.runs.folder import FEDERATED, SCORES, RunFolder
from fedner.runs.outcome import read_counts
from fedner.runs.records import RunScores, Verdict, as_json, verdict
from fedner.scoring import PairedTest, paired_test


@dataclass(frozen=True, slots=True)
class ComparedPlatform:
    """One platform in both runs.

    Attributes:
        units: How many units its test part has.
        verdict: Whether the second run is better by strict F1.
        strict: The paired test of strict F1.
        relaxed: The paired test of relaxed F1.
    """

    units: int
    verdict: Verdict
    strict: PairedTest
    relaxed: PairedTest


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side.

    Attributes:
        first: The folder of the first run.
        second: The folder of the second run.
        method: Whose taggers are compared.
        platforms: The platforms that both have.
        only_in_one: The platforms that only one of them has.
    """

    first: str
    second: str
    method: str
    platforms: Mapping[str, ComparedPlatform]
    only_in_one: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)


def compare(
    first: RunFolder, second: RunFolder, *, method: str = FEDERATED, seed: int = 1
) -> Comparison:
    """Compare the same method of two runs, platform by platform.

    Args:
        first: A finished run.
        second: Another; its gain over the first is reported.
        method: "federated", "local-only" or "centralized".
        seed: Of the resampling.

    Raises:
        FednerError: They have no platform in common, or were tested on other texts.
    """
    names = [set(run.read_as(RunScores, SCORES).platforms) for run in (first, second)]
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
            f"{', '.join(other)}: the two runs were tested on different texts or gold entities",
            "Give platforms.NAME.split.seed (or test_data) in both, so that the test parts agree.",
        )
    return Comparison(
        str(first.path),
        str(second.path),
        method,
        {name: row for name, row in rows.items() if row is not None},
        tuple(sorted(names[0] ^ names[1])),
    )


def _compared(
    first: RunFolder, second: RunFolder, name: str, method: str, seed: int
) -> ComparedPlatform | None:
    one, one_relaxed, one_digest = read_counts(first, name, method)
    other, other_relaxed, other_digest = read_counts(second, name, method)
    if one_digest != other_digest or len(one) != len(other):
        return None
    strict = paired_test(one, other, seed=seed)
    relaxed = paired_test(one_relaxed, other_relaxed, seed=seed)
    return ComparedPlatform(len(one), verdict(strict), strict, relaxed)
