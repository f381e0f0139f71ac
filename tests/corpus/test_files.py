"""Text files as people have them: encodings, compression, line ends, and durable writing."""

import errno
import gzip
import lzma
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner import durable
from fedner.corpus import files
from fedner.corpus.problems import ProblemLog
from fedner.errors import FednerError

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def put(folder: Path, data: bytes, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def problems(log: ProblemLog) -> list[tuple[str, int | None, bool]]:
    return [(problem.kind, problem.line, problem.kept) for problem in log.problems]


@pytest.mark.parametrize("suffix", PACK)
def test_plain_and_compressed_files_give_the_same_lines(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path, PACK[suffix]("één\ntwo\n\nlast".encode()), f"a.txt{suffix}")
    log = ProblemLog()
    assert list(files.lines(path, log)) == [(1, "één"), (2, "two"), (3, ""), (4, "last")]
    assert files.read_text(path, log) == "één\ntwo\n\nlast"
    assert files.head(path) == "één\ntwo\n\nlast"
    assert log.total == 0
    assert files.stem(path) == "a.txt"


def test_content_decides_whether_a_file_is_compressed(tmp_path: Path) -> None:
    packed = put(tmp_path, gzip.compress(b"x\n"), "packed.txt")
    plain = put(tmp_path, b"x\n", "plain.gz")
    assert list(files.lines(packed, ProblemLog())) == [(1, "x")]
    assert list(files.lines(plain, ProblemLog())) == [(1, "x")]


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@pytest.mark.parametrize("damage", ["cut short", "corrupt"])
def test_damaged_compression_is_a_problem_and_the_rest_is_read(
    tmp_path: Path, suffix: str, damage: str
) -> None:
    text = "".join(f"line {number} {os.urandom(40).hex()}\n" for number in range(3000))
    data = bytearray(PACK[suffix](text.encode()))
    if damage == "cut short":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    path = put(tmp_path, bytes(data), f"a.txt{suffix}")
    log = ProblemLog()
    read = [line for _, line in files.lines(path, log)]
    assert log.counts["unreadable file"] == 1
    if damage == "cut short":
        assert len(read) > 100
        assert read[:100] == text.split("\n")[:100]


def test_byte_order_mark_is_dropped_with_a_remark(tmp_path: Path) -> None:
    path = put(tmp_path, b"\xef\xbb\xbfabc\n")
    log = ProblemLog()
    assert files.read_text(path, log) == "abc\n"
    assert list(files.lines(path, log)) == [(1, "abc")]
    assert log.remarks == {files.REMARK_BOM: 2}
    assert log.total == 0


def test_crlf_is_kept_for_offsets_and_dropped_from_lines(tmp_path: Path) -> None:
    path = put(tmp_path, b"ab\r\ncd\re\r\n")
    log = ProblemLog()
    assert files.read_text(path, log) == "ab\r\ncd\re\r\n"
    assert list(files.lines(path, log)) == [(1, "ab"), (2, "cd\re")]
    assert log.remarks == {files.REMARK_CRLF: 2}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_utf16_is_refused_with_a_remedy_but_recognised(tmp_path: Path, encoding: str) -> None:
    path = put(tmp_path, "tok\tO\n".encode(encoding))
    log = ProblemLog()
    assert list(files.lines(path, log)) == []
    assert problems(log) == [("not UTF-8", None, False)]
    assert f"--encoding {encoding}" in log.problems[0].hint
    assert files.head(path) == "tok\tO\n"
    log = ProblemLog(encoding=encoding)
    assert list(files.lines(path, log)) == [(1, "tok\tO")]
    assert log.total == 0


def test_bad_bytes_are_named_by_line_and_keep_one_byte_offsets(tmp_path: Path) -> None:
    text = "naïve\nplain\ncafé à la\n"
    path = put(tmp_path, text.encode("latin-1"))
    log = ProblemLog()
    read = files.read_text(path, log)
    assert read is not None
    assert len(read) == len(text)
    assert read.index("plain") == text.index("plain")
    assert problems(log) == [("not UTF-8", 1, True), ("not UTF-8", 3, True)]
    assert "0xef at position 3" in log.problems[0].found


def test_a_cut_sequence_of_several_bytes_gives_one_character_a_byte(tmp_path: Path) -> None:
    path = put(tmp_path, b"a\xf0\x9f\x98b\n")
    assert files.read_text(path, ProblemLog()) == "a\ufffd\ufffd\ufffdb\n"


def test_nul_bytes_are_reported_by_line(tmp_path: Path) -> None:
    path = put(tmp_path, b"a\nb\0c\n")
    log = ProblemLog()
    assert list(files.lines(path, log)) == [(1, "a"), (2, "b\0c")]
    assert problems(log) == [("NUL byte", 2, True)]


@pytest.mark.parametrize("suffix", PACK)
def test_empty_files(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path, PACK[suffix](b""), f"a{suffix}")
    log = ProblemLog()
    assert list(files.lines(path, log)) == []
    assert files.read_text(path, log) is None
    assert problems(log) == [("empty file", None, False)] * 2
    calm = ProblemLog()
    assert files.read_text(path, calm, may_be_empty=True) == ""
    assert calm.total == 0


@pytest.mark.parametrize("excess", [1, 3_500_000])
def test_a_very_long_line_is_reported_and_the_others_are_read(tmp_path: Path, excess: int) -> None:
    long = b"x" * (files.MAX_LINE_CHARACTERS + excess)
    path = put(tmp_path, b"a\n" + long + b"\nb\n")
    log = ProblemLog()
    assert list(files.lines(path, log)) == [(1, "a"), (2, ""), (3, "b")]
    assert problems(log) == [("very long line", 2, False)]


def test_a_line_at_the_limit_is_read_whatever_its_bytes(tmp_path: Path) -> None:
    line = "é" * files.MAX_LINE_CHARACTERS
    path = put(tmp_path, f"{line}\nb\n".encode())
    log = ProblemLog()
    assert list(files.lines(path, log)) == [(1, line), (2, "b")]
    assert log.total == 0


def test_what_is_no_file_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, found in [
        (tmp_path, "a folder"),
        (tmp_path / "missing", "No such file"),
        (tmp_path / "pipe", "no regular file"),
    ]:
        log = ProblemLog()
        assert files.read_text(path, log) is None
        assert list(files.lines(path, log)) == []
        assert [problem.kind for problem in log.problems] == ["unreadable file"] * 2
        assert found in log.problems[0].found
        assert files.head(path) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_reported(tmp_path: Path) -> None:
    path = put(tmp_path, b"x\n")
    path.chmod(0)
    log = ProblemLog()
    assert list(files.lines(path, log)) == []
    assert "Permission denied" in log.problems[0].found


@given(st.lists(st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]))))
def test_only_line_feeds_end_lines(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "a.txt"
    rows = [row.rstrip("\r").lstrip("\ufeff") for row in rows]
    path.write_bytes("".join(f"{row}\n" for row in rows).encode())
    assert [line for _, line in files.lines(path, ProblemLog())] == rows


@pytest.mark.parametrize("size", [1, 3, 7])
def test_small_chunks_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    text = "é€\n\n🙂 x\nlong line here\nend"
    path = put(tmp_path, text.encode())
    monkeypatch.setattr(files, "CHUNK_BYTES", size)
    read = list(files.lines(path, ProblemLog()))
    assert read == list(enumerate(text.split("\n"), 1))


def test_display_names_are_relative_and_without_compression(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "a.txt.xz"
    assert files.display_name(path, tmp_path) == "sub/a.txt"
    assert files.display_name(path, path) == "a.txt"


@pytest.mark.parametrize("suffix", PACK)
def test_atomic_writing_and_the_same_bytes_again(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        with files.atomic_writer(path) as file:
            file.write("één\n")
            assert not path.exists()
    assert files.read_text(first, ProblemLog()) == "één\n"
    assert first.read_bytes() == second.read_bytes()
    assert (first.read_bytes() == "één\n".encode()) == (suffix == "")


@pytest.mark.parametrize("suffix", PACK)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path, b"old", f"a{suffix}")

    def fail() -> None:
        with files.atomic_writer(path) as file:
            file.write("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_kept_or_narrowed(tmp_path: Path) -> None:
    path = put(tmp_path, b"old")
    path.chmod(0o640)
    durable.write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    durable.write_bytes(path, b"secret", owner_only=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b"secret"


def test_links_are_followed_and_devices_refused(tmp_path: Path) -> None:
    target, link = put(tmp_path, b"old"), tmp_path / "link"
    link.symlink_to(target)
    durable.write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    with pytest.raises(FednerError, match="not a regular file"):
        durable.write_bytes(tmp_path, b"x")


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="cannot write") as caught:
        durable.write_bytes(tmp_path / "none" / "a", b"x")
    assert "folder exists" in caught.value.hint


def test_a_device_is_never_replaced() -> None:
    with pytest.raises(FednerError, match="not a regular file"):
        durable.write_bytes(Path(os.devnull), b"x")


def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    path = put(tmp_path, b"old")

    def fill() -> None:
        with durable.writing(path):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(FednerError, match="No space left"):
        fill()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
