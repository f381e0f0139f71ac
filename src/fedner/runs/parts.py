"""What a run is made of that can come from Python: algorithm, mechanism and summation.

Settings name them, and a caller may give others in their place. The run folder keeps what was
taken, so that a run is resumed with the same, and records say of a mechanism what is true of it.
"""

from dataclasses import asdict, dataclass
from typing import Any

from fedner.errors import FednerError
from fedner.federated.algorithms import Algorithm
from fedner.federated.summation import Summation
from fedner.privacy.mechanisms import Mechanism, MechanismFacts
from fedner.runs.folder import PARTS, RunFolder
from fedner.runs.records.border import UNHARMED
from fedner.settings import Study


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run folder keeps of them.

    Attributes:
        algorithm: Names the algorithm with its settings.
        summation: The name of the summation.
        mechanism: What is said of the mechanism; None without differential privacy.
    """

    algorithm: str
    summation: str
    mechanism: MechanismFacts | None


def parts_of(algorithm: Algorithm, mechanism: Mechanism | None, summation: Summation) -> Parts:
    """Return what is kept of algorithm, mechanism and summation."""
    facts = None if mechanism is None else mechanism.facts
    return Parts(algorithm.identity, summation.name, facts)


def keep_parts(folder: RunFolder, parts: Parts) -> None:
    """Write what a run is made of, or check that one which is resumed is made of the same.

    Raises:
        FednerError: The run was begun with another algorithm, mechanism or summation.
    """
    if not (folder.path / PARTS).is_file():
        folder.write(PARTS, asdict(parts))
        return
    before, now = asdict(stored_parts(folder)), asdict(parts)
    different = [key for key in now if before[key] != now[key]]
    if different:
        said = "; ".join(
            f"{each} {_named(before[each])}, now {_named(now[each])}" for each in different
        )
        raise FednerError(
            f"{folder.path} was begun with another {said}",
            "Resume it from Python with the algorithm, mechanism and summation that it began with.",
        )


def stored_parts(folder: RunFolder) -> Parts:
    """Return what a run is made of.

    Raises:
        FednerError: The record is missing or damaged.
    """
    record = folder.read(PARTS)
    try:
        held: dict[str, Any] | None = record["mechanism"]
        facts = None if held is None else MechanismFacts(**held)
        return Parts(str(record["algorithm"]), str(record["summation"]), facts)
    except (KeyError, TypeError) as error:
        raise FednerError(f"{folder.path / PARTS} is damaged: {error}", UNHARMED) from error


def require_charged(study: Study, summation: Summation) -> None:
    """Raise where a summation would hide what updates cost, and no ledger counts it.

    Raises:
        FednerError: A simulation of differential privacy without ledgers.
    """
    held = study.privacy
    if summation.shows_costs or not held.enabled or study.is_deployed:
        return
    if held.budget is None:
        raise FednerError(
            f"summation {summation.name!r} with differential privacy and no ledgers",
            "It hides updates and also what they cost: add privacy.budget, so that every "
            "platform counts its own cost.",
        )


def require_hidden(study: Study, mechanism: Mechanism | None, summation: Summation) -> None:
    """Raise where single updates with a share of the noise alone would be seen.

    Raises:
        FednerError: A deployed study whose noise is shared, and a summation that hides nothing.
    """
    if mechanism is None or not mechanism.shares_noise or not study.is_deployed:
        return
    if not summation.hides_updates:
        raise FednerError(
            f"mechanism {mechanism.name!r} with summation {summation.name!r}; expected one that "
            "hides single updates",
            "Each platform adds a share of the noise: set transport.secure_sum = true.",
        )


def _named(part: Any) -> str:
    return repr(part["name"] if isinstance(part, dict) else part)
