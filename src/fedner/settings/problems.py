"""What is wrong with a configuration: every problem with its key, all of them in one error."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from fedner.errors import FednerError


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One thing that is wrong with a configuration.

    Attributes:
        key: The dotted path of the key.
        found: What stands there.
        expected: What should; empty where `found` is a whole message.
        hint: What to do, as the nearest key for a typo; may be empty.
    """

    key: str
    found: str
    expected: str
    hint: str = ""

    def __str__(self) -> str:
        said = f"{self.key}: found {self.found}; expected {self.expected}."
        if not self.expected:
            said = f"{self.key}: {self.found.removesuffix('.')}."
        return f"{said} {self.hint}" if self.hint else said


class SettingsError(FednerError):
    """A configuration with problems: all of them in one error.

    Attributes:
        problems: The problems, in the order of the keys.
    """

    def __init__(self, source: str, problems: Sequence[SettingProblem]) -> None:
        noun = "problem" if len(problems) == 1 else "problems"
        lines = [f"{source}: {len(problems)} {noun} in the settings"]
        super().__init__(
            "\n".join([*lines, *(f"  {problem}" for problem in problems)]),
            "docs/federation.md explains every key; `fedner init` writes an example that runs.",
        )
        self.problems = tuple(problems)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question that names the nearest of `known`, or all of them."""
    every = list(known)
    near = closest(name, every)
    if near is not None:
        return f"Did you mean {near!r}?"
    return f"Choose one of {', '.join(every)}." if every else ""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of `known` that a typo may stand for, or None where nothing is near."""
    lowered = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), lowered, 1, 0.5)
    return lowered[near[0]] if near else None
