"""How commands read corpora: the options that they share, declared once, as one record.

A command that is decorated with `takes_reading` has a parameter `reading: Reading`; on the command
line it takes `--format`, `--option` and the others below in its place.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fedner.cli.inputs import Loaded, load
from fedner.corpus.patients import PatientSource
from fedner.corpus.read_options import ReadOptions
from fedner.errors import FednerError

FormatOption = Annotated[
    str,
    typer.Option("--format", help="The format of the input; auto says what it recognised and why."),
]
LenientOption = Annotated[
    bool,
    typer.Option(
        "--lenient",
        help="If offset and quote differ, the offset wins; what cannot be placed is skipped.",
    ),
]
OwnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the format, e.g. scheme=BIO or tag_column=3; `fedner data formats` "
        "lists them. Repeatable.",
    ),
]
EncodingOption = Annotated[
    str | None,
    typer.Option("--encoding", help="The encoding of text files, e.g. latin-1; UTF-8 by default."),
]
PatientsOption = Annotated[
    Path | None,
    typer.Option("--patients", help="A table (.csv, .tsv) with the columns document,patient."),
]
PatientColumnOption = Annotated[
    str | None,
    typer.Option(
        "--patient-column",
        help="The column, key or infon that holds the patient; a number in token columns.",
    ),
]
PatientPatternOption = Annotated[
    str | None,
    typer.Option(
        "--patient-pattern",
        help="The patient in the file's name: a regular expression with (?P<patient>...).",
    ),
]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a command was asked to read.

    Attributes:
        format: The name of a format, or "auto".
        lenient: Whether to skip and count what cannot be placed.
        options: What else is known of the input.
    """

    format: str
    lenient: bool
    options: ReadOptions

    def load(self, path: Path) -> Loaded:
        """Read a corpus, and keep what was said on the way."""
        return load(path, self.format, lenient=self.lenient, options=self.options)


def _plain(
    format: FormatOption = "auto",
    lenient: LenientOption = False,
    option: OwnOption = None,
    encoding: EncodingOption = None,
) -> Reading:
    return Reading(format, lenient, ReadOptions(own=own_options(option or []), encoding=encoding))


def _with_patients(
    format: FormatOption = "auto",
    lenient: LenientOption = False,
    option: OwnOption = None,
    encoding: EncodingOption = None,
    patients: PatientsOption = None,
    patient_column: PatientColumnOption = None,
    patient_pattern: PatientPatternOption = None,
) -> Reading:
    sources = (patients, patient_column, patient_pattern)
    given = any(each is not None for each in sources)
    options = ReadOptions(
        own=own_options(option or []),
        encoding=encoding,
        patients=PatientSource(*sources) if given else None,
    )
    return Reading(format, lenient, options)


def own_options(assignments: list[str]) -> dict[str, str]:
    """Return the options that NAME=VALUE spell.

    Raises:
        FednerError: One is not of that form, or a name is given twice.
    """
    options: dict[str, str] = {}
    for assignment in assignments:
        name, sign, value = (part.strip() for part in assignment.partition("="))
        if not sign or not name:
            raise FednerError(
                f"--option: found {assignment!r}; expected NAME=VALUE",
                "For example --option tag_column=3; `fedner data formats` lists the options.",
            )
        if name in options:
            raise FednerError(
                f"--option {name}: found {options[name]!r} and {value!r}; expected one value",
                "Leave one of them out.",
            )
        options[name] = value
    return options


def takes_reading(*, patients: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of reading in place of its parameter `reading`.

    Args:
        patients: Whether it also takes those that say whose text a document is.
    """
    make = _with_patients if patients else _plain
    shared = inspect.signature(make).parameters

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: object) -> None:
            asked = {name: given.pop(name) for name in shared}
            command(reading=make(**asked), **given)  # type: ignore[arg-type]

        signature = inspect.signature(command)
        own = [each for name, each in signature.parameters.items() if name != "reading"]
        every = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared.values())
        ]
        run.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in every}
        return run

    return decorate
