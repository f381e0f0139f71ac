"""A reader's own options: a frozen dataclass of the reader names, types and explains them.

Generic code never knows them. It passes on a mapping of names and values, from a settings file or
the command line, and `checked` turns it into the reader's record or says what is wrong.
"""

import difflib
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fedner.errors import FednerError

Own = TypeVar("Own")

PATIENT_COLUMN = "patient_column"
"""The option of formats that can hold the patient of a document in a column or under a key."""

_HELP, _CHECK, _IS_DETECTED = "help", "check", "is_detected"


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The record of a format that has no options of its own."""


@dataclass(frozen=True, slots=True)
class OptionFact:
    """What users are shown of an option.

    Attributes:
        name: Its name.
        type: What it takes, in words.
        default: What it is where nobody says otherwise.
        help: One line on what it is for.
        is_detected: Whether its value is read off the data where nobody gives it.
    """

    name: str
    type: str
    default: object
    help: str
    is_detected: bool = False


@dataclass(frozen=True, slots=True)
class OptionProblem:
    """What is wrong with an option that a user gave.

    Attributes:
        name: The option.
        found: The name or value that was given.
        expected: What the reader takes.
        hint: What to do.
    """

    name: str
    found: str
    expected: str
    hint: str


def option(
    default: Any,
    explanation: str,
    check: Callable[[Any], object] | None = None,
    *,
    is_detected: bool = False,
) -> Any:
    """Declare an option as a field of a reader's record.

    Args:
        default: Its value unless the user gives another.
        explanation: One line for people.
        check: Raises a `FednerError` for a value that the type allows but the reader does not.
        is_detected: Whether its default means that the value is detected from the data; a deployed
            run under differential privacy must name it.

    Example:
        >>> @dataclass(frozen=True)
        ... class TableOptions:
        ...     sheet: int = option(0, "which sheet of the workbook, from 0")
        >>> checked("table", TableOptions, {"sheet": "2"})
        TableOptions(sheet=2)
    """
    about = {_HELP: explanation, _CHECK: check, _IS_DETECTED: is_detected}
    return field(default=default, metadata=about)


def facts(record: type) -> tuple[OptionFact, ...]:
    """Return the options that a reader's record declares, in its order."""
    hints = get_type_hints(record)
    return tuple(_fact(each, hints[each.name]) for each in fields(record))


def names(record: type) -> tuple[str, ...]:
    """Return the names of the options that a reader's record declares."""
    return tuple(each.name for each in fields(record))


def checked(format: str, record: type[Own], given: Mapping[str, object]) -> Own:
    """Return the reader's record with the given values.

    A text is read as what the option takes ("3" as a number), so that the command line needs no
    types of its own.

    Args:
        format: The name of the format, for errors.
        record: The reader's record of options.
        given: Values by name.

    Raises:
        FednerError: Names that the reader does not have, or values that it does not take; all of
            them together.
    """
    values, problems = _sorted_out(record, given)
    if problems:
        lines = [
            f"option {each.name} of {format}: found {each.found}; expected {each.expected}"
            for each in problems
        ]
        raise FednerError("\n".join(lines), " ".join(dict.fromkeys(each.hint for each in problems)))
    return record(**values)


def option_problems(record: type, given: Mapping[str, object]) -> list[OptionProblem]:
    """Return everything that is wrong with the given values of a reader's options."""
    return _sorted_out(record, given)[1]


def _sorted_out(
    record: type, given: Mapping[str, object]
) -> tuple[dict[str, Any], list[OptionProblem]]:
    """Return the values that the record takes, and what is wrong with the others."""
    hints = get_type_hints(record)
    declared = {each.name: each for each in fields(record)}
    values: dict[str, Any] = {}
    problems: list[OptionProblem] = []
    for name, value in given.items():
        if name not in declared:
            problems.append(_unknown(name, value, list(declared)))
            continue
        fact = _fact(declared[name], hints[name])
        try:
            values[name] = _converted(value, hints[name], declared[name].metadata.get(_CHECK))
        except ValueError:
            hint = f"{name}: {fact.help}."
            problems.append(OptionProblem(name, repr(value), fact.type, hint))
        except FednerError as error:
            expected = error.message.rpartition("expected ")[2]  # the rest repeats name and value
            problems.append(OptionProblem(name, repr(value), expected, error.hint))
    return values, problems


def _fact(declared: "Field[Any]", hint: Any) -> OptionFact:
    default = None if declared.default is MISSING else declared.default
    about = declared.metadata
    return OptionFact(
        declared.name, _in_words(hint), default, about.get(_HELP, ""), bool(about.get(_IS_DETECTED))
    )


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _in_words(hint: Any) -> str:
    """Return what a type takes, for people."""
    return " or ".join(dict.fromkeys(_alternatives(hint)))


def _alternatives(hint: Any) -> Iterator[str]:
    if get_origin(hint) is Literal:
        yield from map(str, get_args(hint))
    elif get_origin(hint) in (Union, types.UnionType):
        for each in get_args(hint):
            if each is not type(None):
                yield from _alternatives(each)
    else:
        yield _WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _converted(value: object, hint: Any, check: Callable[[Any], object] | None) -> Any:
    """Return a value as the type of its option; pydantic's error is a `ValueError`."""
    from pydantic import ConfigDict, TypeAdapter

    adapter = TypeAdapter(hint, config=ConfigDict(coerce_numbers_to_str=True))
    found = adapter.validate_python(value)
    if check is not None and found is not None:
        check(found)
    return found


def _unknown(name: str, value: object, known: list[str]) -> OptionProblem:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f'Did you mean "{near[0]}"?' if near else "`fedner data formats` lists every option."
    expected = f"one of its options ({', '.join(known)})" if known else "none: it has no options"
    return OptionProblem(name, f"{name} = {value!r}", expected, hint)
