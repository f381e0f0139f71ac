"""Moved dates: the same form, the same intervals, and no guess where a date is not understood."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.inference.dates import shifted

MONTHS = "January February March April May June July August September October November December"
ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


def name(day: date) -> str:
    return MONTHS.split()[day.month - 1]


FORMS = {
    "ISO": lambda d: f"{d:%Y-%m-%d}",
    "ISO with a time": lambda d: f"{d:%Y-%m-%d}T10:30:00Z",
    "compact": lambda d: f"{d:%Y%m%d}",
    "German": lambda d: f"{d:%d.%m.%Y}",
    "German, short": lambda d: f"{d.day}.{d.month}.{d.year}",
    "American": lambda d: f"{d:%m/%d/%Y}",
    "two digits": lambda d: f"{d:%m/%d/%y}",
    "words": lambda d: f"{name(d)} {d.day}, {d.year}",
    "ordinal": lambda d: f"{name(d)} {d.day}{ENDINGS.get(d.day, 'th')}, {d.year}",
    "British": lambda d: f"{d.day} {name(d)} {d.year}",
    "weekday": lambda d: f"{d:%A}, {name(d)} {d.day}, {d.year} at 5:45 pm",
    "capitals": lambda d: f"{d.day:02}-{name(d)[:3].upper()}-{d.year}",
    "range": lambda d: f"from {d:%Y-%m-%d} to {d + timedelta(3):%Y-%m-%d}",
}
DAYS = st.dates(date(1975, 1, 1), date(2060, 1, 1))


@given(st.sampled_from(sorted(FORMS)), DAYS, st.integers(-365, 365))
def test_a_moved_date_is_the_later_day_in_the_same_form(form: str, day: date, days: int) -> None:
    write = FORMS[form]
    if form == "German, short" and min(day.day, day.month) > 9:
        return  # 12.11.2020 does not show that the 1st would be written 1
    assert shifted(write(day), days) == write(day + timedelta(days))


@given(DAYS, st.integers(-365, 365))
def test_day_first_is_asked_for_or_seen(day: date, days: int) -> None:
    later = day + timedelta(days)
    assert shifted(f"{day:%d/%m/%Y}", days, day_first=True) == f"{later:%d/%m/%Y}"
    if day.day > 12:
        assert shifted(f"{day:%d/%m/%Y}", days) == f"{later:%d/%m/%Y}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3/5/2021", "4/14/2021"), ("2021-3-5", "2021-4-14"), ("Mar. 5", "Apr. 14"),
        ("MARCH 5TH", "APRIL 14TH"), ("5th of march 2021", "14th of april 2021"),
        ("March 2021", "April 2021"), ("03/2021", "04/2021"), ("Feb 29", "Apr 9"),
        ("12/28", "02/06"), ("Dec '20", "Jan '21"), ("Monday", "Saturday"), ("Tues", "Sun"),
        ("Sept 3, 2020", "Oct 13, 2020"), ("July 2020", "August 2020"), ("2019", "2019"),
        ("1/2/2020 - 1/9/2020", "2/11/2020 - 2/18/2020"), ("Dec 30,2020", "Feb 8,2021"),
        ("(2020-02-29)", "(2020-04-09)"), ("2021-03-05 10:30", "2021-04-14 10:30"),
    ],
)  # fmt: skip
def test_forty_days_later(text: str, expected: str) -> None:
    assert shifted(text, 40) == expected


def test_a_month_moves_from_its_middle() -> None:
    assert [shifted(f"{month} 2020", -31) for month in ("July", "March", "Jan")] == [
        *("June 2020", "February 2020", "Dec 2019"),
    ]
    assert [shifted("2020", days) for days in (-183, -182, 183, 184)] == [
        *("2019", "2020", "2020", "2021"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("three days later", "10:30", "next Monday", "March 5-7, 2021", "02/30/2020", "1990s"),
        *("9999-12-31", "the 5th", "", "99", "13/13/2020", "Anna 2021-03-05", "2021-03-05-06"),
    ],
)
def test_what_is_not_understood_is_not_guessed(text: str) -> None:
    assert shifted(text, 40) is None
