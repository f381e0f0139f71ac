"""Dates moved by a number of days, each in the form in which it was written.

Whole dates keep their intervals to the day. A date without a day, or without a year, is moved from
the middle of what it leaves open, so that its intervals are right to about two weeks; times of the
day stay. What is not understood is not guessed: the caller replaces it by something else. Month and
weekday names are English ones.
"""

import re
from datetime import date, timedelta
from typing import Final

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH = r"(?P<month>" + "|".join(f"{each}|{each[:3]}" for each in _MONTHS) + r"|Sept)\b"
_ORDINAL = r"(?P<ordinal>st|nd|rd|th)?"
_YEAR = r"(?P<year>[0-9]{4}|'?[0-9]{2})"
_TIME = (
    r"T?[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:\s*[ap]\.?m\b\.?)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
)
# Behind a date: the time of a time stamp, or neither a letter nor more numbers.
_END = r"(?:(?=T[0-9]{2}:)|(?![0-9A-Za-z])(?![-/.][0-9]))"
_TWO = r"(?P<first>[0-9]{1,2})(?P<sign>[-/.])(?P<second>[0-9]{1,2})"
_FORMS: Final = (
    r"(?P<year>[0-9]{4})(?P<sign>[-/.])(?P<number>[0-9]{1,2})(?P=sign)(?P<day>[0-9]{1,2})",
    rf"{_TWO}(?P=sign)(?P<year>[0-9]{{4}}|[0-9]{{2}})",
    rf"{_MONTH}\.?[\s-]*(?P<day>[0-9]{{1,2}}){_ORDINAL}(?:(?:,\s*|\s+|-){_YEAR})?",
    rf"(?P<day>[0-9]{{1,2}}){_ORDINAL}(?:\s+of)?[\s-]*{_MONTH}(?:(?:\.?,?\s+|-){_YEAR})?",
    rf"{_MONTH}(?:\.?,?\s+(?:of\s+)?|[-/]){_YEAR}",
    r"(?P<number>[0-9]{1,2})(?P<sign>/)(?P<year>[0-9]{4})",
    r"(?P<year>(?:19|20)[0-9]{2})(?P<number>[0-9]{2})(?P<day>[0-9]{2})",
    r"(?P<first>[0-9]{1,2})(?P<sign>/)(?P<second>[0-9]{1,2})",
    r"(?P<year>(?:19|20)[0-9]{2})",
    _MONTH,
)
_PATTERNS: Final = tuple(
    re.compile(rf"(?<![0-9A-Za-z]){form}{_END}", re.IGNORECASE) for form in _FORMS
)
_WEEKDAY = re.compile(
    r"\b(" + "|".join(f"{each}|{each[:3]}" for each in _DAYS) + r"|Tues|Thurs|Thur)\b",
    re.IGNORECASE,
)
# What may stand beside the dates of a mention; nothing of it is the date of anything.
_REST = re.compile(
    rf"(?:{_TIME}|\b(?:to|and|until|till|through|from|on|at|of|the|in|between|am|pm)\b"
    r"|[\s,.;:()\[\]\u2013\u2014-])*",
    re.IGNORECASE,
)
# Years that a date without one is moved in: of no leap year, but for the 29th of February.
_ANY_YEAR, _LEAP_YEAR = 2021, 2020


def shifted(text: str, days: int, *, day_first: bool = False) -> str | None:
    """Return a text with all of its dates moved; None where something in it is not understood.

    >>> shifted("March 5th, 2021", 10)
    'March 15th, 2021'
    >>> shifted("12/28/20", 10)
    '01/07/21'
    >>> shifted("three days later", 10) is None
    True

    Args:
        text: The words of a mention.
        days: How many days to move by.
        day_first: Whether 3/4/2021 is the 3rd of April. Dates with dots always are day first.
    """
    moved: list[str] = []
    rest: list[str] = []
    position = 0
    while position < len(text):
        found = _next(text, position)
        if found is None:
            break
        new = _moved(found, days, day_first=day_first)
        if new is None:
            return None
        rest.append(text[position : found.start()])
        moved += [text[position : found.start()], new]
        position = found.end()
    rest.append(text[position:])
    if not moved or not all(_REST.fullmatch(part) for part in rest):
        return None
    return "".join([*moved, text[position:]])


def _next(text: str, position: int) -> "re.Match[str] | None":
    """Return the first date or weekday at or behind a place; of several there, the longest."""
    patterns = (*_PATTERNS, _WEEKDAY)
    every = [found for each in patterns if (found := each.search(text, position)) is not None]
    return min(every, key=lambda each: (each.start(), -each.end()), default=None)


def _moved(found: "re.Match[str]", days: int, *, day_first: bool) -> str | None:
    """Return the new words of one date, or None where there is no such day."""
    if found.re is _WEEKDAY:
        return _weekday(found[0], days)
    fields = {name: value for name, value in found.groupdict().items() if value is not None}
    is_day_first = "first" in fields and _is_day_first(fields, day_first=day_first)
    if "first" in fields:
        first, second = fields["first"], fields["second"]
        fields["day"], fields["number"] = (first, second) if is_day_first else (second, first)
    try:
        before = date(*_numbers(fields))
        after = before + timedelta(days=days)
    except (ValueError, OverflowError):
        return None
    new = _written(fields, after, is_terse="number" in fields or "-" in found[0])
    pair = (new["day"], new["number"])
    new["first"], new["second"] = pair if is_day_first else pair[::-1]
    return _filled(found, new)


def _is_day_first(fields: dict[str, str], *, day_first: bool) -> bool:
    """Say whether the first of two numbers is the day: above 12, with dots, or as asked."""
    first, second = int(fields["first"]), int(fields["second"])
    return second <= 12 and (first > 12 or fields["sign"] == "." or day_first)


def _numbers(fields: dict[str, str]) -> tuple[int, int, int]:
    """Return year, month and day; what is open is taken from the middle."""
    month = _month(fields["month"]) if "month" in fields else int(fields.get("number", 7))
    day = int(fields.get("day", 15 if {"month", "number"} & fields.keys() else 1))
    if "year" not in fields:
        return (_LEAP_YEAR if (month, day) == (2, 29) else _ANY_YEAR), month, day
    digits = fields["year"].lstrip("'")
    year = int(digits)
    if len(digits) == 2:
        year += 2000 if year < 70 else 1900
    return year, month, day


def _month(name: str) -> int:
    starts = [each[:3].lower() for each in _MONTHS]
    return starts.index(name[:3].lower()) + 1


def _written(fields: dict[str, str], new: date, *, is_terse: bool) -> dict[str, str]:
    """Return the fields of a date as the old ones were written.

    Two things do not show: whether 12 would be followed by 01 or 1, and whether May is a whole
    name. Dates of numbers, or with hyphens, are taken to have zeros and short names.
    """
    written: dict[str, str] = {}
    numbers = [fields[name] for name in ("day", "number") if name in fields]
    is_padded = any(each.startswith("0") for each in numbers) or (
        is_terse and all(len(each) == 2 for each in numbers)
    )
    width = 2 if is_padded else 1
    written["day"], written["number"] = f"{new.day:0{width}}", f"{new.month:0{width}}"
    if "year" in fields:
        short = fields["year"].lstrip("'")
        mark = fields["year"][: len(fields["year"]) - len(short)]
        written["year"] = mark + (f"{new.year % 100:02}" if len(short) == 2 else f"{new.year:04}")
    if "month" in fields:
        old = fields["month"]
        is_short = old.lower() == "may" and is_terse
        written["month"] = _named(old, _MONTHS, new.month - 1, is_short=is_short)
    if "ordinal" in fields:
        ending = (
            "th" if 11 <= new.day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(new.day % 10, "th")
        )
        written["ordinal"] = _cased(ending, fields["ordinal"])
    return written


def _named(old: str, names: tuple[str, ...], at: int, *, is_short: bool = False) -> str:
    """Return a name as long and in the case of the old one."""
    is_whole = not is_short and old.lower() in {each.lower() for each in names}
    return _cased(names[at] if is_whole else names[at][:3], old)


def _cased(word: str, like: str) -> str:
    if like.isupper():
        return word.upper()
    return word.lower() if like.islower() else word.capitalize()


def _weekday(old: str, days: int) -> str:
    starts = [each[:3].lower() for each in _DAYS]
    return _named(old, _DAYS, (starts.index(old[:3].lower()) + days) % 7)


def _filled(found: "re.Match[str]", new: dict[str, str]) -> str:
    """Return the words of a match with its groups replaced."""
    places = sorted(
        (found.span(name), new[name])
        for name, value in found.groupdict().items()
        if value is not None and name in new
    )
    pieces, position = [], found.start()
    for (start, end), words in places:
        pieces += [found.string[position:start], words]
        position = end
    return "".join([*pieces, found.string[position : found.end()]])
