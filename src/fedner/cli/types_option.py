"""`--types NAME=DESCRIPTION`: entity types by what they mean, in the words of the command line."""

from collections.abc import Iterable
from typing import Annotated

import typer

from fedner.errors import FednerError

Types = Annotated[
    list[str] | None,
    typer.Option(
        "--types",
        metavar="NAME=DESCRIPTION",
        help='A type and what it means, as "Dosage=amount of a drug". Repeatable.',
    ),
]


def parse(assignments: Iterable[str] | None) -> dict[str, str]:
    """Return the descriptions that NAME=DESCRIPTION options spell.

    Raises:
        FednerError: One is not of that form, or a type is described twice.
    """
    found: dict[str, str] = {}
    for assignment in assignments or ():
        name, sign, text = (part.strip() for part in assignment.partition("="))
        if not sign or not name or not text:
            raise FednerError(
                f"--types {assignment!r} is not NAME=DESCRIPTION",
                'Write --types "Dosage=amount of a drug".',
            )
        if found.setdefault(name, text) != text:
            raise FednerError(
                f"--types describes {name!r} as {found[name]!r} and as {text!r}", "Choose one."
            )
    return found
