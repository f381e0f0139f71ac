"""Other people's libraries: imported when a format needs them, and never trusted with bad files."""

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fedner.errors import FednerError

Extra = Literal["formats", "office", "onnx", "serve", "spacy"]
Result = TypeVar("Result")

_LONGEST_FAULT = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """What another library said against a piece of a file.

    Attributes:
        found: The error in one short line.
    """

    found: str


def required(module: str, extra: Extra, what: str) -> Any:
    """Return a module of an optional dependency.

    Args:
        module: Its dotted name.
        extra: The extra of fedner that brings it.
        what: What it is needed for, such as "BioC files".

    Raises:
        FednerError: If it is not installed, naming the extra.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they deprecate among themselves
            return importlib.import_module(module)
    except ImportError as error:
        raise FednerError(
            f"{what} need the package {module.partition('.')[0]}, which cannot be imported "
            f"({error})",
            f"Install it with: pip install 'fedner[{extra}]'",
        ) from error


def attempt(call: Callable[[], Result]) -> Result | Fault:
    """Return what a call into another library gives, or what it raised.

    Such libraries are written for good files and promise no closed set of errors for bad ones;
    this is the one place where any error of theirs becomes a value.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except FednerError:
        raise
    except Exception as error:  # noqa: BLE001 - see above: anything may come out of a bad file
        text = " ".join(str(error).split()) or "no reason given"
        return Fault(f"{type(error).__name__}: {text}"[:_LONGEST_FAULT])
