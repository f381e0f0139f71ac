"""What everybody knows of a secure sum before it begins."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedner.federated.grid import Grid
from fedner.federated.secure.wire import Context
from fedner.privacy.sum_terms import SumTerms

# What a share is of; of no platform both are given.
OF_SURVIVOR, OF_DROPPED = b"s", b"d"


@dataclass(frozen=True, slots=True)
class SumPlan:
    """Public facts of a secure sum.

    Attributes:
        terms: How many platforms it needs.
        grid: What its numbers are multiples of.
        scales: What each platform of the study multiplies its update by before it is masked.
        factor: What the sum is multiplied by after it was opened.
        norm_bound: The largest norm of an update, checked by its platform; None for none.
        must_be_charged: Whether every update carries what it costs under differential privacy.
    """

    terms: SumTerms
    grid: Grid
    scales: Mapping[str, float] = field(default_factory=dict)
    factor: float = 1.0
    norm_bound: float | None = None
    must_be_charged: bool = False

    def context(self, study: str, run: str, round_: int) -> Context:
        """Return what names the sum of a round."""
        terms, grid = self.terms, f"{self.grid.step.hex()} {self.grid.bits}"
        return Context(study, run, round_, terms.num_platforms, terms.colluding, grid)
