"""audit.json: what attacks on one platform found, for its own eyes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedner.audit.finding import Finding
from fedner.runs.records.border import as_json

AUDIT = "audit.json"


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """The audit of one platform.

    Attributes:
        platform: The platform.
        study: The digest of the study.
        seed: Of every draw.
        max_grad_norm: The clipping bound of the DP columns.
        noise_multiplier: Their noise over the bound.
        num_platforms: How many platforms are in a sum.
        is_asked_for: Whether bound and noise are those of the study; else they are examples.
        findings: The cells of the table, row by row.
    """

    platform: str
    study: str
    seed: int
    max_grad_norm: float
    noise_multiplier: float
    num_platforms: int
    is_asked_for: bool
    findings: tuple[Finding, ...]

    @property
    def attacks(self) -> tuple[str, ...]:
        """The attacks, in the order of the table."""
        return tuple(dict.fromkeys(each.attack for each in self.findings))

    def row(self, attack: str) -> Sequence[Finding]:
        """Return the cells of one attack."""
        return [each for each in self.findings if each.attack == attack]

    @property
    def broken(self) -> Sequence[Finding]:
        """The cells in which an attacker came to more than was promised."""
        return [
            each for each in self.findings if each.promised is not None and each.verdict == "leak"
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)
