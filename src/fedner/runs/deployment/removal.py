"""Removing a platform: the coordinator remembers it, the server refuses its certificate."""

from fedner.errors import FednerError
from fedner.runs.deployment.federation import mark_removed
from fedner.runs.deployment.homes import FederationHome
from fedner.runs.deployment.sessions import coordinator_session


def remove_platform(home: FederationHome, name: str) -> None:
    """Remove a platform: no renewals, and the server refuses it from now on.

    Raises:
        FednerError: No platform of that name was approved, or the server does not answer.
    """
    mark_removed(home, name, is_removed=True)
    _tell_server(home, name, f"fedner federation remove {name}", is_removed=True)


def restore_platform(home: FederationHome, name: str) -> None:
    """Let a platform take part again that was removed.

    Raises:
        FednerError: No platform of that name was approved, or the server does not answer.
    """
    _tell_server(home, name, f"fedner federation restore {name}", is_removed=False)
    mark_removed(home, name, is_removed=False)


def _tell_server(home: FederationHome, name: str, again: str, *, is_removed: bool) -> None:
    try:
        with coordinator_session(home) as session:
            if is_removed:
                session.refuse(name)
            else:
                session.admit(name)
    except Exception as error:
        said = error.message if isinstance(error, FednerError) else str(error)
        state = "it is marked as removed, but the server still admits it"
        raise FednerError(
            f"{name}: {state if is_removed else 'the server still refuses it'}: {said}",
            f"When the server runs and can be reached, run this again: {again}",
        ) from error
