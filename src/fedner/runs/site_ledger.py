"""Where a platform's privacy ledger stands, and the budget of a simulation's own."""

from pathlib import Path

from fedner.errors import FednerError
from fedner.privacy.budget import Budget
from fedner.privacy.mechanisms import PlatformPrivacy
from fedner.settings import PlatformSettings, Study

LEDGER = "ledger"


def ledger_of(settings: PlatformSettings) -> Path:
    """Return the folder of a deployed platform's ledger.

    Raises:
        FednerError: The settings name none.
    """
    if settings.ledger is None:
        raise FednerError(
            f"platform {settings.name} has no ledger, and the run is deployed",
            "Let its owner open one with `fedner privacy open`, and name its folder: ledger.",
        )
    return Path(settings.ledger)


def ledger_folder(study: Study, own: PlatformSettings, folder: Path) -> Path | None:
    """Return where a platform's ledger stands; None where a simulation keeps none.

    Args:
        study: The study.
        own: The platform's own settings.
        folder: The platform's folder in the run: a simulation keeps its ledger there.
    """
    held = study.privacy
    if study.is_deployed:
        return ledger_of(own)
    if not held.enabled or held.budget is None:
        return None
    return folder / LEDGER if own.ledger is None else Path(own.ledger)


def simulated_budget(study: Study, privacy: PlatformPrivacy) -> Budget:
    """Return the budget of a simulation's own ledgers; that of a deployed one is its owner's."""
    held = study.privacy
    event = privacy.event(1, 1)
    epsilon = held.budget or held.epsilon
    if epsilon is None:
        raise FednerError("no budget for the ledger", "Add privacy.budget.")
    return Budget(epsilon, held.delta, event.unit, event.adjacency, held.accountant)
