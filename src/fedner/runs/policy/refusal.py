"""A refusal: a code with fixed words for others, and the reason for the platform's own log."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedner.federated.failure_codes import FAILURES
from fedner.settings import SettingProblem

# Which code a problem with a key of platform.toml becomes.
_CODES: Mapping[str, str] = {
    "name": "policy-platform",
    "approval": "policy-approval",
    "policy.studies": "policy-study",
    "policy.algorithms": "policy-algorithm",
    "policy.models": "policy-model",
    "policy.shared": "policy-tensors",
    "policy.types": "policy-types",
    "policy.mechanisms": "policy-mechanism",
    "policy.unit": "policy-unit",
    "policy.noise_places": "policy-noise",
    "policy.accepts_simulation": "policy-simulation",
    "privacy.budget": "policy-study-budget",
    "policy.epsilon": "policy-epsilon",
    "policy.epsilon_in_all": "policy-epsilon-in-all",
    "ledger": "policy-ledger",
    "policy.secure_sum": "policy-secure-sum",
    "policy.encryption": "policy-encryption",
    "policy.min_others": "policy-others",
    "policy.pinned": "policy-pinned",
    "policy.max_rounds": "policy-rounds",
    "policy.max_runs": "policy-runs",
    "policy.max_hours": "policy-hours",
    "policy.max_memory_gb": "policy-memory",
    "policy.release": "policy-release",
    "policy.newcomers": "policy-release",
}
UNREADY = "platform-unready"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a platform does not take part.

    Attributes:
        code: A key of `REFUSALS`: all that others get to know.
        problem: What was found and expected; stays at the platform.
    """

    code: str
    problem: SettingProblem

    @property
    def words(self) -> str:
        """Our own words for it: they reach the coordinator."""
        return FAILURES[self.code]

    def __str__(self) -> str:
        return self.words


def refusal_of(problem: SettingProblem, code: str | None = None) -> Refusal:
    """Return the refusal that a problem leads to.

    Args:
        problem: What is wrong.
        code: Of a problem whose key is not one of platform.toml.
    """
    return Refusal(code or _CODES.get(problem.key, UNREADY), problem)
