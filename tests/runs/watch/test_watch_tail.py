"""A file of lines is read as it grows: whole lines, once each, and anew where it was replaced."""

from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.runs.watch.tail import LineTail


def grow(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_only_new_and_whole_lines_are_told(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    tail = LineTail(path)
    assert tail.read().lines == ()
    grow(path, b"one\ntw")
    assert tail.read().lines == (b"one",)
    assert tail.read().lines == ()
    grow(path, b"o\nthree\n")
    new = tail.read()
    assert (new.lines, new.is_anew, new.has_more) == ((b"two", b"three"), False, False)


def test_a_long_file_is_read_in_pieces_of_a_bounded_size(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%03d\n" % number for number in range(100)))
    tail, found, looks = LineTail(path, most_bytes=50), [], 0
    while (new := tail.read()).has_more:
        found += new.lines
        looks += 1
        assert len(new.lines) <= 12
    assert [int(each) for each in (*found, *new.lines)] == list(range(100))
    assert looks >= 8


@pytest.mark.parametrize("is_longer", [False, True])
def test_a_file_that_was_replaced_is_read_from_its_beginning(
    tmp_path: Path, is_longer: bool
) -> None:
    path, other = tmp_path / "lines", tmp_path / "new"
    path.write_bytes(b"one\ntwo\nthree\n")
    tail = LineTail(path)
    tail.read()
    other.write_bytes(b"one\ntwo\n" + (b"drei\nvier\nfuenf\n" if is_longer else b""))
    other.replace(path)
    new = tail.read()
    assert new.is_anew
    assert new.lines[:2] == (b"one", b"two")
    assert not tail.read().is_anew


def test_another_file_with_the_same_last_bytes_is_another_file(tmp_path: Path) -> None:
    path, other = tmp_path / "lines", tmp_path / "new"
    path.write_bytes(b"one\n" + b"x" * 300 + b"\n")
    tail = LineTail(path)
    tail.read()
    other.write_bytes(b"two\n" + b"x" * 300 + b"\nthree\n")
    other.replace(path)
    new = tail.read()
    assert (new.is_anew, new.lines[0]) == (True, b"two")


def test_a_file_that_was_cut_and_grew_in_place_is_noticed_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\nthree\n")
    tail = LineTail(path)
    tail.read()
    with path.open("r+b") as file:
        file.truncate(4)
        file.seek(0, 2)
        file.write(b"2\nthird\nfourth\n")
    new = tail.read()
    assert (new.is_anew, new.lines) == (True, (b"one", b"2", b"third", b"fourth"))


def test_a_file_that_went_away_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n")
    tail = LineTail(path)
    tail.read()
    path.unlink()
    assert tail.read().is_anew
    assert not tail.read().is_anew
    path.write_bytes(b"one\n")
    assert tail.read().lines == (b"one",)


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 100)
    with pytest.raises(FednerError, match="a line of more than 50 bytes"):
        LineTail(path, most_bytes=50).read()
