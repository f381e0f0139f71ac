"""What the owner of a ledger decides: its budget, delta and unit. A run only ever asks.

Every decision is a line of the ledger's chain: who (the user of the operating system), when, the
old budget and the new one. The file that asks for a run cannot change any of it.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from fedner.errors import FednerError
from fedner.privacy.accountant import AccountantName
from fedner.privacy.budget import Budget, delta_problem, delta_warning
from fedner.privacy.ledger import Ledger
from fedner.privacy.ledger_chain import BudgetLine, Chain
from fedner.privacy.ledger_files import LINES, default_witness, read_checked
from fedner.privacy.ledger_refusals import not_opened
from fedner.privacy.unit_key import read_key


@dataclass(frozen=True, slots=True)
class Grant:
    """What an owner granted just now.

    Attributes:
        line: As the chain has it.
        warnings: What the owner should think about.
    """

    line: BudgetLine
    warnings: tuple[str, ...]


def open_ledger(folder: Path, budget: Budget, public_units: int) -> Grant:
    """Begin the ledger of a platform, with its key.

    Args:
        folder: Where it shall stand; it and the key in it are for the owner's eyes only.
        budget: What may be spent in all, over all runs and studies.
        public_units: The public number of units; may be rounded.

    Raises:
        FednerError: If there is one already, or the delta promises nothing.
    """
    _require_delta(budget.delta, public_units)
    if (folder / LINES).is_file() and (chain := ledger_chain(folder)).budget is not None:
        raise FednerError(
            f"There is already a ledger in {folder}, of {chain.opening.time}.",
            f"Change what it grants: fedner privacy budget {folder} --epsilon E --delta D",
        )
    with Ledger.open(folder, budget, public_units=public_units) as ledger:
        return _granted(ledger.grants[-1])


def change_budget(
    folder: Path,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    public_units: int | None = None,
    accountant: AccountantName | None = None,
) -> Grant:
    """Change what a ledger grants; what was spent stays spent. None keeps a value.

    Raises:
        FednerError: If there is no ledger, it is somebody else's, the delta promises nothing, or
            another process holds it.
    """
    chain = ledger_chain(folder)
    _require_owner(folder)
    if chain.budget is None:
        raise not_opened(folder)
    wanted = {"epsilon": epsilon, "delta": delta, "accountant": accountant}
    given = {name: value for name, value in wanted.items() if value is not None}
    budget = replace(chain.budget, **given)  # type: ignore[arg-type]
    size = chain.public_units if public_units is None else public_units
    if size is None:
        raise FednerError(
            f"The ledger {folder} does not say how many units the platform has.",
            "Declare a public, rounded number: --public-size N",
        )
    _require_delta(budget.delta, size)
    with Ledger.open(folder, is_simulation=chain.opening.is_simulation) as ledger:
        return _granted(ledger.grant(budget, size))


def ledger_chain(folder: Path) -> Chain:
    """Return a checked ledger for reading; works while a run holds it.

    Raises:
        FednerError: If there is none, or it cannot be trusted.
    """
    if not (folder / LINES).is_file():
        raise not_opened(folder)
    return read_checked(folder, default_witness(folder))


def unit_key(folder: Path) -> bytes:
    """Return the key by which the units of a platform are split.

    Raises:
        FednerError: If no owner opened the ledger, or the key is gone or was exchanged.
    """
    chain = ledger_chain(folder)
    require_owned(chain, folder)
    return read_key(folder, chain.key_digest)


def require_owned(chain: Chain, folder: Path) -> None:
    """Raise unless the ledger's owner granted its budget and it has a key."""
    if chain.budget is None:
        raise not_opened(folder)
    if not (chain.grants[-1].who and chain.key_digest):
        raise FednerError(
            f"The ledger {folder} is of an earlier version of fedner: the files of runs set its "
            f"budget (epsilon {chain.budget.epsilon:g}, delta {chain.budget.delta:g}), and it has "
            "no key.",
            f"Let its owner grant a budget: fedner privacy budget {folder} --epsilon "
            f"{chain.budget.epsilon:g} --delta {chain.budget.delta:g} --public-size N",
        )


def _granted(line: BudgetLine) -> Grant:
    warning = delta_warning(line.budget.delta, line.public_units or 1)
    return Grant(line, () if warning is None else (warning,))


def _require_delta(delta: float, public_units: int) -> None:
    if public_units < 1:
        raise FednerError(f"The public size is {public_units}; expected at least 1 unit.")
    problem = delta_problem(delta, public_units)
    if problem is not None:
        raise FednerError(
            f"Refused: {problem}.", f"Take a delta of at most {0.1 / public_units:.2g}."
        )


def _require_owner(folder: Path) -> None:
    owner = folder.stat().st_uid
    if hasattr(os, "geteuid") and owner != os.geteuid():
        raise FednerError(
            f"The ledger {folder} belongs to user {owner}; you are user {os.geteuid()}.",
            "Only its owner changes what it grants.",
        )
