"""What one check of a home finds, and the check of its certificate, which every start makes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedner.errors import FednerError
from fedner.runs.deployment.expiry import expiry
from fedner.runs.deployment.homes import PlatformHome, ServerHome
from fedner.runs.deployment.identity import (
    common_name,
    fingerprint,
    is_issued_by,
    read_certificate,
    read_key,
)
from fedner.runs.deployment.taking_part import read_home

Result = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found.

    Attributes:
        subject: What was looked at, in one word.
        result: Whether it is fine, worth knowing, or has to be fixed before training.
        found: What was found.
        hint: What to do; empty where nothing has to be done.
    """

    subject: str
    result: Result
    found: str
    hint: str = ""


def check_certificate(home: PlatformHome | ServerHome) -> Iterator[Check]:
    """Look at a home's key, its certificate, who issued it and when it ends."""
    name, key = read_home(home).name, read_key(home.key)
    authority = read_certificate(_text(home.authority), str(home.authority))
    certificate = read_certificate(_text(home.certificate), str(home.certificate))
    kind = "platform" if isinstance(home, PlatformHome) else "server"
    renew = f"Renew it: fedner {kind} request {name} --home {home.path}"
    found = expiry(certificate.not_valid_after_utc)
    said = f"of {common_name(certificate)}, ends on {found.words}"
    again = f"Install the approval again: fedner {kind} install APPROVAL --home {home.path}"
    if fingerprint(certificate) != fingerprint(key) or common_name(certificate) != name:
        wrong = f"{home.certificate} is not that of {name} and its key"
        yield Check("certificate", "problem", wrong, again)
    elif not is_issued_by(certificate, authority):
        wrong = f"{home.certificate} is not of the authority in {home.authority}"
        yield Check("certificate", "problem", wrong, again)
    elif found.is_over:
        yield Check("certificate", "problem", said, renew)
    else:
        hint = renew if found.is_soon else ""
        yield Check("certificate", "warning" if found.is_soon else "ok", said, hint)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise FednerError(
            f"{path} cannot be read: {error}", "Install the approval again."
        ) from error
