"""Which claims of the paper stand: each is a difference of two ways, repeat by repeat."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fedner.reproduce.estimates import paired_gain
from fedner.reproduce.reproduction import Estimate, Factor, Rows
from fedner.reproduce.tagging_2021.runs import ALL

Expected = Literal["rises", "falls", "stays"]
STAYS = 2.0  # points of strict F1 that count as nothing


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that the paper says, as a difference in strict F1.

    Attributes:
        text: What it says.
        before: The factors of the one.
        after: Those of the other.
        expected: What the claim says of the difference from the one to the other.
        is_ours: Whether it is not the paper's claim but ours.
    """

    text: str
    before: Mapping[str, Factor]
    after: Mapping[str, Factor]
    expected: Expected
    is_ours: bool = False

    def told(self, rows: Rows) -> str:
        """Return the claim with what was found."""
        difference = paired_gain(
            rows, "strict_f1", {**self.before, "platform": ALL}, {**self.after, "platform": ALL}
        )
        whose = "Ours" if self.is_ours else "The paper"
        if difference is None:
            return f"{whose}: {self.text} Missing: not run."
        return f"{whose}: {self.text} {_found(difference)}: {verdict(difference, self.expected)}."


def _found(difference: Estimate) -> str:
    found = f"Here strict F1 changes by {difference.mean:+.1f}"
    if difference.low is None or difference.high is None:
        return f"{found} (one repeat)"
    return f"{found} ({difference.low:+.1f} to {difference.high:+.1f}, {difference.num} repeats)"


def verdict(difference: Estimate, expected: Expected) -> str:
    """Return whether a claim about a difference stands; "not clear" where its interval has both."""
    low, high = difference.low, difference.high
    if low is None or high is None:
        return "not clear from one repeat"
    if expected == "stays":
        stands, fails = low > -STAYS and high < STAYS, high < -STAYS or low > STAYS
    elif expected == "rises":
        stands, fails = low > 0, high < 0
    else:
        stands, fails = high < 0, low > 0
    return "it stands" if stands else "it does not stand" if fails else "not clear"
