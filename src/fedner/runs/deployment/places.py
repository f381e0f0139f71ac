"""Where a process of a deployed federation finds its home: told by whoever started it."""

import os
from pathlib import Path

from fedner.engines.flare.processes import HOME, SETTINGS
from fedner.errors import FednerError

RUNS = "runs"


def own_home() -> Path:
    """Return the home of the party that this process works for.

    Raises:
        FednerError: Nobody said.
    """
    return _told(HOME)


def own_settings() -> Path:
    """Return the settings of the platform that this process works for.

    Raises:
        FednerError: Nobody said.
    """
    return _told(SETTINGS)


def run_folder(home: Path, run: str) -> Path:
    """Return the folder of a run in a home."""
    return home / RUNS / run


def _told(name: str) -> Path:
    value = os.environ.get(name)
    if not value:
        raise FednerError(
            f"{name} is not set", "Start with `fedner server start` or `fedner platform start`."
        )
    return Path(value)
