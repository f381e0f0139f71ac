"""Keyed pseudonyms: the same for one patient, unlinkable between two, and no key for others."""

import os
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.inference.home_key import (
    LEAST_SHIFT,
    DateShift,
    HomeKey,
    PatientPseudonyms,
    make_key,
    read_key,
)

KEY = HomeKey(bytes(range(32)))
DATES = DateShift(("DATE",))


def test_one_patient_has_one_pseudonym_for_a_name_whatever_its_dress() -> None:
    names = PatientPseudonyms(KEY, "p1", DATES)
    first = names.name("NAME", "Anna Smith")
    assert first.startswith("[NAME-")
    assert len(first) == len("[NAME-12345678]")
    dressed = {names.name("NAME", each) for each in ("anna  SMITH", "Anna\nSmith,", "(Anna Smith)")}
    assert dressed == {first}
    assert names.name("DOCTOR", "Anna Smith")[8:] != first[6:], "of another type it is another"
    assert names.name("NAME", "Anna Smyth") != first


def test_two_patients_or_two_keys_have_nothing_in_common() -> None:
    other = HomeKey(bytes(reversed(range(32))))
    every = {
        PatientPseudonyms(key, patient, DATES).name("NAME", "Anna Smith")
        for key in (KEY, other)
        for patient in ("p1", "p2", "p")
    }
    assert len(every) == 6
    assert KEY.digest("a", "bc") != KEY.digest("ab", "c")
    assert KEY.fingerprint != other.fingerprint


def test_pseudonyms_are_those_of_hmac_sha256() -> None:
    """Written down, so that tomorrow's release gives the same ones."""
    assert PatientPseudonyms(KEY, "p1").name("NAME", "Anna") == "[NAME-IMHVUWZ3]"
    assert repr(KEY) == "HomeKey()"
    assert "p1" not in repr(PatientPseudonyms(KEY, "p1"))


def test_dates_of_a_patient_keep_their_intervals() -> None:
    names = PatientPseudonyms(KEY, "p1", DATES)
    days = ["2020-02-27", "2020-03-01", "2021-01-01"]
    moved = [date.fromisoformat(names.name("DATE", day)) for day in days]
    apart = [later - earlier for earlier, later in pairwise(moved)]
    assert [each.days for each in apart] == [3, 306]
    assert (moved[0] - date.fromisoformat(days[0])).days == names.days
    assert names.name("DATE", "some time ago").startswith("[DATE-")
    assert PatientPseudonyms(KEY, "p1").name("DATE", days[0]).startswith("[DATE-"), "not asked for"


def test_shifts_fill_their_range_both_ways_and_never_leave_a_month() -> None:
    shifts = [PatientPseudonyms(KEY, str(n), DateShift(("DATE",), 60)).days for n in range(2_000)]
    assert {abs(each) for each in shifts} == set(range(LEAST_SHIFT, 61))
    assert 900 < sum(each > 0 for each in shifts) < 1_100
    with pytest.raises(FednerError, match="at least 31"):
        DateShift(("DATE",), 30)


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "home.key"
    before = os.umask(0)
    try:
        made = make_key(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(path) == made
    assert make_key(tmp_path / "other.key") != made
    with pytest.raises(FednerError, match="already there"):
        make_key(path)
    path.chmod(0o640)
    with pytest.raises(FednerError, match="mode 0640"):
        read_key(path)


@pytest.mark.parametrize("content", [b"", b"abc", b"ab" * 31, b"ab" * 33, b"zz" * 32, b"\xff" * 64])
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "home.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(FednerError, match="is not a key"):
        read_key(path)
    with pytest.raises(FednerError, match="the key cannot be read"):
        read_key(tmp_path / "none.key")
