"""`--label-map OLD=NEW`: types renamed on the way in, in the words of the command line."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.corpus.document import Corpus

LabelMap = Annotated[
    list[str] | None,
    typer.Option(
        "--label-map",
        metavar="OLD=NEW",
        help="Rename a type of the data; OLD= leaves it out. Repeatable.",
    ),
]


def parse(assignments: Iterable[str] | None) -> dict[str, str]:
    """Return the map that OLD=NEW options spell.

    Raises:
        FednerError: One is not of that form, or two rename the same type.
    """
    pairs: dict[str, str] = {}
    for assignment in assignments or ():
        old, sign, new = (part.strip() for part in assignment.partition("="))
        if not sign or not old:
            raise FednerError(
                f"--label-map {assignment!r} is not OLD=NEW",
                "Write --label-map ADR=ADE, or --label-map Finding= to leave a type out.",
            )
        if pairs.setdefault(old, new) != new:
            raise FednerError(
                f"--label-map renames {old!r} to {pairs[old]!r} and to {new!r}", "Choose one."
            )
    return pairs


def check(label_map: Mapping[str, str], corpora: Iterable["Corpus"]) -> None:
    """Refuse a map that names a type which none of the corpora has.

    Raises:
        FednerError: There is such a type; the nearest one is named.
    """
    from fedner.corpus.label_map import unknown_types
    from fedner.settings import nearest

    held = list(corpora)
    known = sorted({label for corpus in held for label in corpus.labels})
    for old in unknown_types(label_map, held):
        raise FednerError(
            f"--label-map: no type {old!r}; found {', '.join(known) or 'no types'}",
            nearest(old, known),
        )
