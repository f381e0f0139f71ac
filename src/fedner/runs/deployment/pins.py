"""Pins: fingerprints of other platforms, which a platform learned out of band.

Whoever holds the authority's key can invent platforms: give a certificate in another's name to a
key of its own. A platform cannot see that by itself, because it only ever talks to the server. It
can compare what it is shown, the roster, with what the other platforms told it by telephone.

What a pin protects: no study is joined whose roster has a platform with another key than the
pinned one, and with `policy.pinned = true` none with a platform that is not pinned. What it does
not protect by itself: a server that shows the true roster and lets somebody else take part under
a name. That needs messages that are signed with the pinned keys, as those of a secure sum are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedner.errors import FednerError
from fedner.runs.deployment.approvals import (
    Member,
    read_letter,
    verified_roster,
    write_letter,
)
from fedner.runs.deployment.homes import PlatformHome
from fedner.runs.deployment.taking_part import installed, read_home
from fedner.settings.problems import nearest
from fedner.settings.sections import Digest, PlatformName, Section

_DIGITS = re.compile(r"[0-9a-f]{64}")


class Pins(Section):
    """What was pinned, by platform."""

    fingerprints: dict[PlatformName, Digest]


@dataclass(frozen=True, slots=True)
class PinProblem:
    """A platform of a roster that is not the one pinned, or is not pinned.

    Attributes:
        name: The platform.
        shown: The fingerprint in the roster; None if it has none.
        pinned: The pinned fingerprint; None if there is none.
    """

    name: str
    shown: str | None
    pinned: str | None

    @property
    def is_other(self) -> bool:
        """Whether the roster shows another key than the pinned one: the serious case."""
        return self.pinned is not None and self.shown is not None and self.shown != self.pinned

    def __str__(self) -> str:
        if self.pinned is None:
            return f"{self.name} is not pinned"
        if self.shown is None:
            return f"{self.name} is pinned, but the roster does not show its key"
        return f"{self.name} has the fingerprint {self.shown}; pinned is {self.pinned}"


def parse_fingerprint(text: str) -> str:
    """Return a fingerprint from what somebody typed: spaces, colons and case do not matter.

    Raises:
        FednerError: It is none.
    """
    found = re.sub(r"[\s:-]", "", text).lower()
    if not _DIGITS.fullmatch(found):
        raise FednerError(
            f"{text!r} is not a fingerprint: expected 64 hexadecimal digits, found {len(found)} "
            "characters",
            "The other platform shows its own with `fedner platform show`.",
        )
    return found


def spoken(fingerprint: str) -> str:
    """Return a fingerprint in groups of four, to read aloud.

    >>> spoken("0123456789abcdef" * 4)[:24]
    '0123 4567 89ab cdef 0123'
    """
    return " ".join(fingerprint[start : start + 4] for start in range(0, len(fingerprint), 4))


def read_pins(home: PlatformHome) -> dict[str, str]:
    """Return the pinned fingerprints of a home, by platform; none are pinned in a new one.

    Raises:
        FednerError: The file is harmed.
    """
    if not home.pins.is_file():
        return {}
    hint = "Restore it from your backup, or remove it and pin anew."
    return dict(read_letter(Pins, home.pins, "list of pins", hint).fingerprints)


def pin(home: PlatformHome, name: str, fingerprint: str) -> str | None:
    """Pin the fingerprint of another platform; return the one that was pinned before, or None.

    Raises:
        FednerError: It is this platform itself, or no fingerprint.
    """
    own = read_home(home).name
    if name == own:
        raise FednerError(
            f"{name} is this platform itself", "Pin the other platforms of the study."
        )
    pins = read_pins(home)
    old = pins.get(name)
    pins[name] = parse_fingerprint(fingerprint)
    _write(home, pins)
    return old


def unpin(home: PlatformHome, name: str) -> None:
    """Forget the fingerprint of another platform.

    Raises:
        FednerError: None is pinned.
    """
    read_home(home)
    pins = read_pins(home)
    if name not in pins:
        raise FednerError(f"no fingerprint of {name!r} is pinned", nearest(name, pins))
    del pins[name]
    _write(home, pins)


def _write(home: PlatformHome, pins: Mapping[str, str]) -> None:
    write_letter(home.pins, Pins(fingerprints=dict(sorted(pins.items()))))


def pin_problems(
    pins: Mapping[str, str],
    own: str,
    names: Sequence[str],
    roster: Mapping[str, str],
    *,
    all_pinned: bool,
) -> list[PinProblem]:
    """Return which platforms of a study are not those that were pinned.

    Args:
        pins: What this platform pinned.
        own: This platform, which needs no pin.
        names: The platforms of the study.
        roster: The fingerprint of each platform, as the coordinator shows it.
        all_pinned: Whether a platform without a pin is a problem (`policy.pinned`).
    """
    found = []
    for name in sorted(set(names) - {own}):
        problem = PinProblem(name, roster.get(name), pins.get(name))
        is_unsure = problem.pinned is None or problem.shown != problem.pinned
        if problem.is_other or (all_pinned and is_unsure):
            found.append(problem)
    return found


def job_pin_problems(
    home: PlatformHome, names: Sequence[str], roster: str, *, all_pinned: bool
) -> list[PinProblem]:
    """Return which platforms of a job's study are not those that were pinned.

    Args:
        home: The home of the platform that is asked to take part.
        names: The platforms of the study.
        roster: The roster that came with the job, as JSON.
        all_pinned: Whether a platform without a pin is a problem (`policy.pinned`).

    Raises:
        FednerError: The roster is not signed by the installed authority, or the pins are harmed.
    """
    shown = roster_fingerprints(verified_roster(roster, installed(home), "the job").members)
    own = read_home(home).name
    return pin_problems(read_pins(home), own, names, shown, all_pinned=all_pinned)


def pinned_names(pins: Mapping[str, str], roster: Mapping[str, str]) -> frozenset[str]:
    """Return the platforms whose key in a roster is the pinned one."""
    return frozenset(name for name, found in roster.items() if pins.get(name) == found)


def roster_fingerprints(roster: Sequence[Member]) -> dict[str, str]:
    """Return the fingerprints of the platforms of a roster that take part."""
    return {
        each.name: each.fingerprint for each in roster if each.is_platform and each.removed is None
    }
