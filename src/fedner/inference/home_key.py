"""Pseudonyms and shifts of dates from a key that stays at home.

Every replacement is a keyed hash (HMAC-SHA-256, RFC 2104) of the patient and of what is replaced:
no table is kept, and the same key gives the same pseudonyms tomorrow.

Guarantee: for one patient the same words of the same type have the same pseudonym; whoever has not
the key cannot tell whether two pseudonyms of two patients stand for the same words, nor try names
out.
Edge cases: whoever has the key can try names out. Words are compared without case, blanks and outer
punctuation, so "Smith" and "Anna Smith" are two pseudonyms. A year alone may stay the same year.
"""

import base64
import hashlib
import hmac
import os
import secrets
import stat
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fedner.durable import write_bytes
from fedner.errors import FednerError
from fedner.inference.dates import shifted

KEY_BYTES: Final = 32
LEAST_SHIFT: Final = 31
"""Dates move by at least so many days: the name of a month never stays."""

MOST_SHIFT: Final = 365
"""And by at most so many, unless the user says otherwise."""

_CODE_BYTES: Final = 5
_MAKE_ONE = "Make one with: fedner redaction key FILE"


@dataclass(frozen=True, slots=True)
class HomeKey:
    """A key of a platform; its bytes are never shown.

    Attributes:
        secret: The bytes of the key.
    """

    secret: bytes = field(repr=False)

    def digest(self, *parts: str) -> bytes:
        """Return the keyed hash of some words; no two lists of words are the same message."""
        message = b"".join(
            len(data).to_bytes(8, "big") + data
            for data in (part.encode("utf-8", "surrogatepass") for part in parts)
        )
        return hmac.new(self.secret, message, hashlib.sha256).digest()

    def code(self, *parts: str) -> str:
        """Return eight letters and digits that stand for some words."""
        return base64.b32encode(self.digest(*parts)[:_CODE_BYTES]).decode()

    @property
    def fingerprint(self) -> str:
        """What tells two keys apart without telling anything about them."""
        return self.digest("fingerprint").hex()[:16]

    def file_name(self, name: str) -> str:
        """Return the pseudonym of the name of a file or a folder."""
        return self.code("file", name).lower()


def make_key(path: Path) -> HomeKey:
    """Write a new key that nobody but the owner may read.

    Raises:
        FednerError: There is such a file already, or it cannot be written.
    """
    key = HomeKey(secrets.token_bytes(KEY_BYTES))
    write_bytes(path, key.secret.hex().encode() + b"\n", owner_only=True, overwrite=False)
    return key


def read_key(path: Path) -> HomeKey:
    """Return a key.

    Raises:
        FednerError: It cannot be read, is none, or others may read it.
    """
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()[: 4 * KEY_BYTES].strip()
    except OSError as error:
        raise FednerError(f"{path}: the key cannot be read: {error.strerror}", _MAKE_ONE) from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FednerError(
            f"{path}: found mode {stat.S_IMODE(mode):04o}; expected a key that only its owner may "
            "read",
            f"chmod 600 {path}, and make another key if somebody may have read this one.",
        )
    try:
        secret = bytes.fromhex(data.decode("ascii"))
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise FednerError(
            f"{path} is not a key: expected {2 * KEY_BYTES} hexadecimal digits", _MAKE_ONE
        )
    return HomeKey(secret)


@dataclass(frozen=True, slots=True)
class DateShift:
    """How dates are moved.

    Attributes:
        types: The types whose mentions are dates.
        most_days: By how many days at most.
        day_first: Whether 3/4/2021 is the 3rd of April.
    """

    types: tuple[str, ...] = ()
    most_days: int = MOST_SHIFT
    day_first: bool = False

    def __post_init__(self) -> None:
        if self.most_days < LEAST_SHIFT:
            raise FednerError(
                f"most days of a shift: found {self.most_days}; expected at least {LEAST_SHIFT}",
                "A smaller shift would leave many dates in the same month.",
            )


def date_types(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the types that are called dates.

    >>> date_types(("Date", "DATE_TIME", "DOB", "NAME", "UPDATE"))
    ('Date', 'DATE_TIME', 'DOB')
    """
    parts = {
        label: set("".join(c if c.isalpha() else " " for c in label.lower()).split())
        for label in labels
    }
    return tuple(label for label in labels if parts[label] & {"date", "dates", "dob", "birthdate"})


@dataclass(frozen=True, slots=True)
class PatientPseudonyms:
    """The pseudonyms of one patient.

    Attributes:
        key: The key of the platform.
        patient: Whose text it is.
        dates: How dates are moved.
    """

    key: HomeKey
    patient: str = field(repr=False)
    dates: DateShift = field(default_factory=DateShift)

    @property
    def days(self) -> int:
        """By how many days the patient's dates move."""
        number = int.from_bytes(self.key.digest("days", self.patient), "big")
        size = LEAST_SHIFT + (number >> 1) % (self.dates.most_days - LEAST_SHIFT + 1)
        return size if number & 1 else -size

    def name(self, label: str, words: str) -> str:
        """Return what stands for a mention: a moved date, or the type with a code."""
        if label in self.dates.types:
            moved = shifted(words, self.days, day_first=self.dates.day_first)
            if moved is not None:
                return moved
        return f"[{label}-{self.key.code('name', self.patient, label, _plain(words))}]"


def _plain(words: str) -> str:
    """Return words without case, width, surplus blanks and outer punctuation."""
    folded = unicodedata.normalize("NFKC", words).casefold()
    parts = folded.split()
    joined = " ".join(parts)
    begin, end = 0, len(joined)
    while begin < end and not joined[begin].isalnum():
        begin += 1
    while end > begin and not joined[end - 1].isalnum():
        end -= 1
    return joined[begin:end] or joined
