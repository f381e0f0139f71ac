"""How a command ends that failed: one message with a hint for people, one JSON object for machines.

Exit codes: 0 done; 1 done, but some of the files given were refused; 2 an error that the user can
fix; 3 a fault of fedner's own; 130 stopped by the user.

With `--json` the last line of standard output is then

    {"error": {"kind": ..., "message": ..., "hint": ..., "problems": [...]}}

where `kind` is input, usage, system, internal or stopped, and `problems` lists what is wrong with
an input or a federation file one by one; it is empty for everything else.
"""

import errno
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from typing import Any, Final, Literal, NamedTuple

import typer

from fedner.errors import FednerError
from fedner.visible import visible_json

USER_ERROR: Final = 2
INTERNAL: Final = 3
INTERRUPTED: Final = 130

Kind = Literal["input", "usage", "system", "internal", "stopped"]

# Typer brings a click of its own: its base class has no public name.
USAGE_ERROR: Final[type[Exception]] = next(
    each for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException"
)

_HINTS: Final = {
    errno.ENOSPC: "The disk is full: make room, or write to another place.",
    errno.EDQUOT: "Your quota is used up: make room, or write to another place.",
    errno.EFBIG: "The file would be too large for this place: write to another one.",
    errno.EACCES: "Check its permissions.",
    errno.EPERM: "Check its permissions.",
    errno.EROFS: "Nothing can be written there: choose another place.",
    errno.ENOENT: "Check the path.",
    errno.EISDIR: "Name a file.",
    errno.ENOTDIR: "Name a folder.",
}


class Failure(NamedTuple):
    """Why a command failed.

    Attributes:
        kind: The sort of failure.
        message: What is wrong.
        hint: What to do about it; may be empty.
        problems: What is wrong one by one, where an input has several problems.
        code: The exit code.
    """

    kind: Kind
    message: str
    hint: str = ""
    problems: tuple[dict[str, Any], ...] = ()
    code: int = USER_ERROR


def failure_of(error: BaseException) -> Failure:
    """Return what an exception tells the user."""
    if isinstance(error, KeyboardInterrupt):
        return Failure("stopped", "stopped", code=INTERRUPTED)
    if isinstance(error, FednerError):
        return Failure("input", error.message, error.hint, tuple(_problems(error)))
    if isinstance(error, USAGE_ERROR):
        return Failure("usage", _usage(error), "Add --help to see how the command is used.")
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{error.filename}: " if error.filename else ""
        hint = _HINTS.get(error.errno, "Check the path and the disk.")
        return Failure("system", f"{where}{error.strerror or error}", hint)
    return Failure(
        "internal",
        f"{type(error).__name__}: {error}",
        "This is a fault of fedner, not yours: run it again with --debug and report the trace.",
        code=INTERNAL,
    )


def _usage(error: Exception) -> str:
    said = getattr(error, "format_message", None)
    return str(error if said is None else said())


def _problems(error: FednerError) -> Iterable[dict[str, Any]]:
    """Yield the problems of an error that collects them, in one vocabulary."""
    holder = getattr(error, "log", error)
    for problem in getattr(holder, "problems", ()):
        if is_dataclass(problem) and not isinstance(problem, type):
            yield {key: value for key, value in asdict(problem).items() if key != "kept"}


def show_failure(failure: Failure, *, as_json: bool) -> None:
    """Print why a command failed: for people on standard error, for machines on standard output."""
    if as_json:
        reported = {key: value for key, value in failure._asdict().items() if key != "code"}
        sys.stdout.write(visible_json(json.dumps({"error": reported}, ensure_ascii=False)) + "\n")
        sys.stdout.flush()
        return
    from fedner.cli.output import show_error

    show_error(FednerError(failure.message, failure.hint))
