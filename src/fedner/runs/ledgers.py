"""What a deployed run asks of the platforms' ledgers, against what their owners granted.

Everything is asked before data are touched or noise is drawn, and every problem is reported
together, with both values and the owner's command. While the run goes on, each ledger counts by
itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fedner.errors import FednerError
from fedner.federated.algorithms import Algorithm
from fedner.privacy.budget import delta_problem
from fedner.privacy.ledger_chain import Chain
from fedner.privacy.ledger_files import LINES
from fedner.privacy.ledger_owner import ledger_chain, require_owned
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.budgets import room_problems
from fedner.runs.privacy_checks import mechanism_of
from fedner.runs.site import Site
from fedner.runs.site_ledger import ledger_of
from fedner.settings import SettingProblem, Settings, SettingsError

_WHERE = "the platforms' ledgers"


def require_ledgers(settings: Settings, own: Mechanism | None = None) -> None:
    """Raise unless every ledger of a deployed run was opened by its owner for what the run asks.

    Args:
        settings: The federation file.
        own: A mechanism of one's own in place of the one that the file names.

    Raises:
        SettingsError: A ledger that nobody opened, another unit or delta than the file's, or a
            simulation that names the ledger of a deployed platform.
    """
    if not settings.is_deployed:
        _require_no_deployed(settings)
        return
    problems: list[SettingProblem] = []
    for number, platform in enumerate(settings.platforms):
        key = f"platforms[{number}].ledger ({platform.name})"
        try:
            folder = ledger_of(platform)
            chain = ledger_chain(folder)
            require_owned(chain, folder)
        except FednerError as error:
            expected = "a ledger that the platform's owner opened"
            problems.append(SettingProblem(key, error.message, expected, error.hint))
            continue
        mechanism = mechanism_of(settings.privacy, own)
        problems += _differences(settings, mechanism, chain, key, folder)
    if problems:
        raise SettingsError(_WHERE, problems)


def _require_no_deployed(settings: Settings) -> None:
    """Raise if a simulation names the ledger of a deployed platform: seeded noise is no release."""
    problems = []
    for number, platform in enumerate(settings.platforms):
        if not settings.privacy.enabled or platform.ledger is None:
            continue
        folder = ledger_of(platform)
        if (folder / LINES).is_file() and not ledger_chain(folder).opening.is_simulation:
            problems.append(
                SettingProblem(
                    f"platforms[{number}].ledger ({platform.name})",
                    f"{folder}, the ledger of a deployed platform",
                    "a ledger of simulations, or none",
                    "Leave the key out: a simulation keeps a ledger in its run folder.",
                )
            )
    if problems:
        raise SettingsError(_WHERE, problems)


def _differences(
    settings: Settings, mechanism: Mechanism, chain: Chain, key: str, folder: Path
) -> Iterable[SettingProblem]:
    asked, granted = settings.privacy, chain.budget
    if granted is None:
        return
    unit, adjacency = mechanism.unit(asked.unit), mechanism.adjacency
    if chain.opening.is_simulation:
        yield SettingProblem(key, "a ledger of simulations", "one of a deployed platform")
    if (unit, adjacency) != (granted.unit, granted.adjacency):
        yield SettingProblem(
            key,
            f"mechanism {mechanism.name!r} of unit {unit!r} ({adjacency})",
            f"{granted.unit!r} ({granted.adjacency}), which the ledger protects",
            "Ask for that unit; another one needs a ledger of its own: fedner privacy open.",
        )
    if asked.delta != granted.delta:
        yield SettingProblem(
            key,
            f"privacy.delta {asked.delta:g}",
            f"{granted.delta:g}, which the ledger grants",
            f"Ask for {granted.delta:g}; only the owner changes it: fedner privacy budget {folder} "
            f"--delta {asked.delta:g}",
        )
    size = chain.public_units
    problem = None if size is None else delta_problem(asked.delta, size)
    if problem is not None:
        yield SettingProblem(key, problem, "a delta of at most a tenth of that")
    if asked.tuned_on == "charged" and not chain.releases:
        yield SettingProblem(
            key,
            "no release of an earlier run, and privacy.tuned_on is 'charged'",
            "the runs by which the settings were chosen",
            "Tuning is charged if its runs stand in this very ledger; otherwise declare it: "
            "privacy.tuned_on = 'protected'.",
        )


def require_room(sites: Sequence[Site], algorithm: Algorithm, run: str) -> None:
    """Raise unless each ledger has room for all that a deployed run will come to, at most.

    Args:
        sites: The platforms.
        algorithm: The federation's.
        run: The name of the run in ledgers: what it released before it was stopped counts once.

    Raises:
        SettingsError: A ledger grants less, naming what is needed, spent and granted.
    """
    problems = [
        replace(problem, key=f"{problem.key} ({site.name})")
        for site in sites
        for problem in room_problems(site.blueprint, site.own, algorithm, run)
    ]
    if problems:
        raise SettingsError(_WHERE, problems)
