"""What a ledger refuses to open with, in words."""

from pathlib import Path

from fedner.errors import FednerError
from fedner.privacy.budget import Budget, described


def not_opened(folder: Path) -> FednerError:
    """Return the refusal of a folder in which no owner opened a ledger."""
    return FednerError(
        f"There is no privacy ledger in {folder}: nobody granted a budget.",
        f"Let the owner of the data open one: fedner privacy open {folder} --epsilon E --delta D "
        "--unit UNIT --public-size N",
    )


def other_budget(folder: Path, granted: Budget, asked: Budget) -> FednerError:
    """Return the refusal of another budget than the one that the owner granted."""
    command = f"fedner privacy budget {folder} --epsilon {asked.epsilon:g} --delta {asked.delta:g}"
    hint = f"Only its owner changes that: {command}"
    if (granted.unit, granted.adjacency) != (asked.unit, asked.adjacency):
        hint = "Keep another ledger, with a budget of its own, for another unit."
    return FednerError(
        f"The ledger {folder} grants {described(granted)}; found {described(asked)}.", hint
    )
